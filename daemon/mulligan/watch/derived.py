"""What is never captured, and what is left out unless somebody asks for it because a program can make it again.

A name stands here only if no project uses it for work of its own. `target`, `build`, `dist`, `vendor`, `bin`, `pkg` do
not: the first two are judged by the manifest beside them, the others by nothing but an ignore file.
"""

from __future__ import annotations

import os
import re

from mulligan.watch.patterns import read_regular

#: Version control's own; never captured, never restored, whatever an ignore file says.
VCS_DIRECTORIES = frozenset((b".git", b".hg", b".svn", b".jj", b".bzr", b"CVS", b"_darcs", b".sl", b".pijul"))
#: A work tree or a submodule has a file of this name.
GIT = b".git"

DERIVED_DIRECTORIES = frozenset(
    (
        b"node_modules", b"bower_components", b".pnpm-store", b".parcel-cache", b".turbo", b".next", b".nuxt",
        b".svelte-kit", b".angular",
        b"__pycache__", b"__pypackages__", b".venv", b".tox", b".nox", b".eggs", b".mypy_cache", b".pytest_cache",
        b".ruff_cache", b".pytype", b".hypothesis",
        b".gradle", b".dart_tool", b".stack-work", b".terraform", b".direnv",
    )
)  # fmt: skip

#: Directories that a build tool fills beside its manifest.
_MANIFESTS: dict[bytes, tuple[bytes, ...]] = {
    b"target": (b"Cargo.toml", b"pom.xml", b"build.sbt"),
    b"build": (b"build.gradle", b"build.gradle.kts"),
}

CACHE_TAG = b"CACHEDIR.TAG"
VENV_TAG = b"pyvenv.cfg"
#: https://bford.info/cachedir/: the file must begin with exactly this.
CACHE_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"

_STAGE = re.compile(rb"\.mulligan-.+~\Z", re.DOTALL)
_CLIENT_TEMPORARY = re.compile(rb".+\.tmp\.[0-9]+\.[0-9a-f]+\Z", re.DOTALL)


def is_stage(name: bytes) -> bool:
    """Whether a name in the root is a directory in which a restore is prepared."""
    return name.startswith(b".mulligan-") and _STAGE.match(name) is not None


def is_client_temporary(name: bytes) -> bool:
    """Whether a name is one that the agent's client writes to before it renames: `<name>.tmp.<pid>.<hex>`."""
    return b".tmp." in name and _CLIENT_TEMPORARY.match(name) is not None


def manifest_beside(directory: bytes, name: bytes) -> str:
    """The manifest that says that `name` in `directory` (absolute) is made by a build; "" if none does."""
    for manifest in _MANIFESTS.get(name, ()):
        if os.access(os.path.join(directory, manifest), os.F_OK):
            return manifest.decode()
    return ""


def tag_inside(directory: bytes) -> str:
    """The file by which a directory (absolute) says of itself that it can be made again; "" if there is none."""
    cache = os.path.join(directory, CACHE_TAG)
    if os.access(cache, os.F_OK) and read_regular(cache, len(CACHE_SIGNATURE)) == CACHE_SIGNATURE:
        return CACHE_TAG.decode()
    venv = os.path.join(directory, VENV_TAG)
    if os.access(venv, os.F_OK):
        settings = read_regular(venv, 4096) or b""
        if any(line.partition(b"=")[0].strip() == b"home" for line in settings.splitlines()):
            return VENV_TAG.decode()
    return ""
