"""Shipped files are found in a checkout and in an installation, and nobody else's are taken for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mulligan import resources
from mulligan.errors import NotFoundError

ALL = [
    resources.DEFAULT_CONFIG,
    resources.CONFIG_SCHEMA,
    resources.SERVICE_UNIT,
    resources.SOCKET_UNIT,
    resources.LAUNCH_AGENT,
]


def lay(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.mark.parametrize("name", ALL)
def test_this_installation_has_every_file(name: str) -> None:
    assert resources.read(name)


def test_a_checkout_uses_its_own_files_and_not_the_old_copy(tmp_path: Path) -> None:
    package = tmp_path / "daemon" / "mulligan"
    lay(tmp_path, "pyproject.toml", "")
    lay(tmp_path, "config/default.yaml", "new")
    lay(package, "share/config/default.yaml", "old")
    assert resources.find("config/default.yaml", package).read_text() == "new"


def test_a_wheel_uses_share_whatever_lies_two_directories_up(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "mulligan"
    lay(tmp_path, "config/default.yaml", "somebody else's")
    lay(tmp_path, "pyproject.toml", "")
    lay(package, "share/config/default.yaml", "ours")
    assert resources.find("config/default.yaml", package).read_text() == "ours"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"share/systemd/mulligand\.service"):
        resources.find(resources.SERVICE_UNIT, tmp_path / "site-packages" / "mulligan")


def test_the_client_may_import_it_and_the_service_package_without_other_packages() -> None:
    code = """
import sys
import mulligan.resources, mulligan.service.platform
allowed = {"errors", "paths", "resources", "service"}
ours = {name.split(".")[1] for name in sys.modules if name.startswith("mulligan.")}
foreign = {"asyncio", "yaml", "msgspec", "platformdirs", "apscheduler", "watchdog", "zstandard"} & set(sys.modules)
sys.exit(repr((ours - allowed, foreign)) if ours - allowed or foreign else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
