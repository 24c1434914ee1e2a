"""The pages about the code match the code."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.architecture.tree import PACKAGE, ROOT

PAGES = ("CONTRIBUTING.md", "docs/architecture.md")
FILE = re.compile(r"`((?:rqueue|lua|tests)/[\w/]+(?:\.py|\.lua|/)?)[`*]")
# A file, and names in parentheses beside it.
NAMES = re.compile(r"`((?:rqueue|lua|tests)/[\w/]+\.(?:py|lua))` \(((?:`\w+`(?:, | and )?)+)\)")
ROW = re.compile(r"^\| (\w+) \| `(\w+)` \|", re.MULTILINE)
FEATURE = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
MOST_PYTHON, MOST_LUA = 25, 15


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_exists(page: str) -> None:
    named = set(FILE.findall(text_of(page)))

    assert named
    assert sorted(one for one in named if not (ROOT / one).exists()) == []


def test_names_beside_a_file_are_defined_in_it() -> None:
    named = [
        (file, name)
        for page in PAGES
        for file, names in NAMES.findall(text_of(page))
        for name in re.findall(r"\w+", names)
    ]

    assert len(named) >= 2
    assert [one for one in named if not defines(*one)] == []


def defines(file: str, name: str) -> bool:
    """Whether a Python or Lua file defines a name at its top level."""
    definition = rf"^(?:(?:async )?def |class |local function |function \w+\.)?{name}\b(?=[(:=\[ ])"
    return re.search(definition, text_of(file), re.MULTILINE) is not None


def test_every_package_and_module_is_in_a_table() -> None:
    page = text_of("docs/architecture.md")
    listed = {package for _, package in ROW.findall(page)} | set(FEATURE.findall(page))
    modules = [*PACKAGE.glob("[a-z]*.py"), *(path.parent for path in PACKAGE.glob("*/__init__.py"))]
    there = {path.stem for path in modules}

    assert sorted(there ^ listed) == []


def test_a_plain_task_is_followed_through_few_files() -> None:
    section = text_of("docs/architecture.md").split("## One plain task")[1].split("\n## ")[0]
    named = set(FILE.findall(section))
    python = [one for one in named if one.endswith(".py")]
    lua = [one for one in named if one.endswith(".lua")]

    assert 15 <= len(python) <= MOST_PYTHON
    assert 10 <= len(lua) <= MOST_LUA


def test_the_layers_of_the_page_are_those_of_the_import_contract() -> None:
    contracts = tomllib.loads(text_of("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one["name"] == "Imports point down"]
    place = {name: at for at, layer in enumerate(layers) for name in re.findall(r"\w+", layer)}
    kernel = [package for _, package in ROW.findall(text_of("docs/architecture.md"))]

    assert [place[package] for package in kernel] == sorted(place[package] for package in kernel)
    assert set(kernel) >= {"task", "store", "core", "producer", "worker", "process", "maintenance"}
    assert not [package for package in kernel if not (ROOT / "rqueue" / package).exists()
                and not (ROOT / "rqueue" / f"{package}.py").exists()]  # fmt: skip


def test_no_page_has_conflict_markers() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]

    assert [
        page.name for page in pages if re.search(r"^[<>]{7} ", page.read_text("utf-8"), re.M)
    ] == []
