"""Trees for tests: all kinds of entries, odd names, and a snapshot that tells any two trees apart."""

from __future__ import annotations

import hashlib
import os
import random
import stat
from pathlib import Path

#: A snapshot's entry: ("file", mode, SHA-256), ("dir", mode, "") or ("link", 0, target).
Entry = tuple[str, int, bytes]
Snapshot = dict[bytes, Entry]

#: Names that somebody, somewhere, mistook for one another or cut off.
ODD_NAMES: list[bytes] = [
    b"a_b.txt",
    b"a\\b.txt",
    b"a%2Fb.txt",
    b"-rf",
    b" lead",
    b"trail ",
    b"new\nline",
    b"tab\there",
    b'quo"te',
    b"semi;colon",
    b"star*?[x]",
    b"#hash",
    b"!bang",
    b"~tilde",
    b"...",
    b".hidden",
    b"caf\xc3\xa9",
    b"cafe\xcc\x81",
    b"\xff\xfe latin",
    b"CASE",
    b"case",
    b"x" * 255,
]
ODD_CONTENTS: list[bytes] = [
    b"",
    b"\0",
    b"no final newline",
    b"one\r\ntwo\r\n",
    b"\xff\xfe\x00latin",
    b"\n",
    b"text\n" * 50,
]
MODES = [0o644, 0o600, 0o755, 0o444, 0o640]


def put(root: Path | bytes, path: bytes, data: bytes, mode: int = 0o644) -> None:
    """Write a file with exactly this mode, in place if it exists; directories above it are made."""
    place = os.path.join(os.fsencode(root), path)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, data)
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def make_odd_tree(root: Path) -> None:
    """Every kind of entry and every odd name of case R12, with every odd content of case R2 (but the large one)."""
    base = os.fsencode(root)
    put(base, b"a/b.txt", b"a slash\n")
    put(base, b"a/b.txt.json", b"{}\n")
    for number, name in enumerate(ODD_NAMES):
        put(base, name, b"content of number %d\n" % number)
    for number, data in enumerate(ODD_CONTENTS):
        put(base, b"odd/content%d" % number, data, MODES[number % len(MODES)])
    os.makedirs(os.path.join(base, b"empty/deep"))
    os.chmod(os.path.join(base, b"empty"), 0o750)
    os.symlink(b"a/b.txt", os.path.join(base, b"link"))
    os.symlink(b"../outside/\xff", os.path.join(base, b"a/dangling"))
    os.symlink(b"a", os.path.join(base, b"link to directory"))


def make_tree(root: Path, files: int, rng: random.Random) -> None:
    """Text files of some lines in directories of about ten, three deep at most."""
    directories = [b""]
    for number in range(max(1, files // 10)):
        above = rng.choice([path for path in directories if path.count(b"/") < 3])
        directories.append(above + b"d%d/" % number)
    for number in range(files):
        text = b"".join(b"%d %d\n" % (number, rng.randrange(1000)) for _ in range(rng.randrange(60)))
        put(root, rng.choice(directories) + b"f%d.txt" % number, text, rng.choice(MODES))


def snapshot(root: Path | bytes) -> Snapshot:
    """All files, directories and links below `root` but `.git`; sockets, FIFOs and devices are left out."""
    base = os.fsencode(root)
    found: Snapshot = {}
    stack = [b""]
    while stack:
        above = stack.pop()
        with os.scandir(os.path.join(base, above) if above else base) as entries:
            for entry in entries:
                path = above + b"/" + entry.name if above else entry.name
                state = entry.stat(follow_symlinks=False)
                mode = stat.S_IMODE(state.st_mode)
                if stat.S_ISDIR(state.st_mode):
                    if entry.name != b".git":
                        found[path] = ("dir", mode, b"")
                        stack.append(path)
                elif stat.S_ISLNK(state.st_mode):
                    found[path] = ("link", 0, os.readlink(entry.path))
                elif stat.S_ISREG(state.st_mode):
                    with open(entry.path, "rb") as stream:
                        found[path] = ("file", mode, hashlib.sha256(stream.read()).digest())
    return found


def digest(tree: Snapshot) -> str:
    """One value for a whole snapshot."""
    whole = hashlib.sha256()
    for path in sorted(tree):
        kind, mode, value = tree[path]
        for part in (path, kind.encode(), b"%o" % mode, value):
            whole.update(len(part).to_bytes(4, "big") + part)
    return whole.hexdigest()


def difference(expected: Snapshot, found: Snapshot) -> list[str]:
    """What differs, one line each; for messages."""
    paths = sorted(expected.keys() | found.keys())
    return [f"{p!r}: {expected.get(p)} != {found.get(p)}" for p in paths if expected.get(p) != found.get(p)]


def assert_tree(root: Path, expected: Snapshot) -> None:
    """The tree on disk is the expected one, entry by entry."""
    wrong = difference(expected, snapshot(root))
    assert not wrong, "\n".join(wrong)
