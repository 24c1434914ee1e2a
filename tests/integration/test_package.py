"""What is installed: the scripts are in the wheel, and a source tree finds its own."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rqueue.store import scripts

ROOT = Path(__file__).parent.parent.parent
ASK = "from rqueue.store import scripts; f = scripts.folder(); print(f); print(*scripts.names(f))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_carries_every_script(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.endswith(".lua")}

    there = {path.relative_to(ROOT / "lua").as_posix() for path in (ROOT / "lua").rglob("*.lua")}
    assert packed == {f"rqueue/_lua/{name}" for name in there}


def test_an_installed_package_loads_its_own_scripts(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)

    folder, names = ask(tmp_path)

    assert Path(folder) == tmp_path / "rqueue" / "_lua"
    assert tuple(names.split()) == scripts.names(ROOT / "lua")


def test_a_source_tree_loads_the_folder_beside_the_package() -> None:
    folder, _ = ask(ROOT)

    assert Path(folder) == ROOT / "lua"


def ask(path: Path) -> list[str]:
    """What a new process finds that sees the package at this path first."""
    return subprocess.run(
        [sys.executable, "-c", ASK],
        env=os.environ | {"PYTHONPATH": str(path)},
        cwd=path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
