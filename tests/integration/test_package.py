"""The package: the wheel contains the library, and a source tree assembles its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rqueue.store.library import library

ROOT = Path(__file__).parent.parent.parent
ASK = "from rqueue.store.library import library as l; print(l().name); print(*l().moves)"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_contains_the_assembled_library_and_no_sources(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = [name for name in archive.namelist() if name.endswith(".lua")]

    # The clock of users' tests is read unchanged, see rqueue/testing.
    assert sorted(packed) == ["rqueue/_library.lua", "rqueue/testing/clock.lua"]


def test_the_wheel_is_marked_as_typed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert "rqueue/py.typed" in archive.namelist()


def test_an_installed_package_has_the_library_of_its_sources(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)

    name, moves = ask(tmp_path)

    assert name == library().name
    assert moves.split() == list(library().moves)


def test_another_folder_named_lua_beside_an_installed_package_changes_nothing(
    wheel: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    (tmp_path / "lua").mkdir()
    (tmp_path / "lua" / "own.lua").write_text("return 1")
    built = (tmp_path / "rqueue" / "_library.lua").read_bytes()

    name, _ = ask(tmp_path)

    assert name == library().name
    assert (tmp_path / "rqueue" / "_library.lua").read_bytes() == built


def test_a_damaged_library_of_a_source_tree_is_assembled_again(tmp_path: Path) -> None:
    for part in ("rqueue", "lua"):
        shutil.copytree(ROOT / part, tmp_path / part)
    (tmp_path / "rqueue" / "_library.lua").write_text("")

    name, _ = ask(tmp_path)

    assert name == library().name


def test_a_changed_source_is_assembled_at_its_next_use(tmp_path: Path) -> None:
    for part in ("rqueue", "lua"):
        shutil.copytree(ROOT / part, tmp_path / part)
    before, _ = ask(tmp_path)
    changed = tmp_path / "lua" / "lib" / "core" / "values.lua"
    changed.write_text(changed.read_text() + "\nfunction values.none() end\n")

    after, _ = ask(tmp_path)

    assert before == library().name
    assert after != before


def ask(path: Path) -> list[str]:
    """The library that a new process finds with this path first."""
    return subprocess.run(
        [sys.executable, "-c", ASK],
        env=os.environ | {"PYTHONPATH": str(path)},
        cwd=path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
