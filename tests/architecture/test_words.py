"""The words of CONTRIBUTING that are not used, because another word has that meaning."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, content, for_each, label

FOLDERS = ("rqueue", "lua", "tests", "tools", "benchmarks", "examples", "deploy", "docs")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", "pyproject.toml")
KINDS = {".py", ".lua", ".md", ".toml", ".yml", ".yaml", ".conf"}
NOT_USED = {
    "exclusive": r"alone_task|run(?:s|ning)? alone",
    "executor, slots, prefetch, session": r"desks?|seats?|outfits?|scribes?|lookout|tending",
    "dependent": r"heirs?|offspring",
    "budget, account, reserve, refund": r"purses?|set aside|sets aside|bring back|brings back",
    "outcome": r"aftermath",
    "waiting claim, mailbox, delivery": r"parked claims?|handoffs?|handed over",
    "pause, resume": r"unhold_dag|hold_dag",
    "retried": r"lives again",
    "leased": r"in hand",
    "claimed": r"hands? out|handed out",
    "deletes, releases": r"lets? go of",
    "drains": r"sends? home|sent home",
    "random number generator": r"dice",
    "package": r"house",
    "fixtures have plain names": r"sown|strangers?",
}
# Names that are stored in Redis keep the word.
STORED = re.compile(r"\b(?:heirs|handoffs?|namesake)\b")
STORED_IN = (
    "lua", "rqueue/store/keys.py", "docs/keys.md", "docs/functions.md", "docs/decisions",
    "tests/lua", "tests/machine", "tests/maintenance",
)  # fmt: skip
FILES = sorted(
    path
    for path in chain(
        *((ROOT / folder).rglob("*") for folder in FOLDERS), (ROOT / page for page in PAGES)
    )
    if path.suffix in KINDS or path.name == "Makefile"
    if path != Path(__file__) and label(path) != "rqueue/_library.lua"
)


def words_in(path: Path) -> str:
    """The text of a file without what keeps a word for a reason."""
    text = content(path)
    if path.name == "CONTRIBUTING.md":
        # Its table has the words that are not used.
        return "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    return STORED.sub("", text) if label(path).startswith(STORED_IN) else text


@for_each(FILES)
def test_a_word_is_used_in_its_one_sense(path: Path) -> None:
    text = words_in(path)
    found = {
        match[0]: instead
        for instead, pattern in NOT_USED.items()
        for match in re.finditer(rf"(?<![a-z])(?:{pattern})(?![a-z])", text, re.IGNORECASE)
    }

    assert found == {}


@pytest.mark.parametrize("word", ["desk", "seats", "purse", "heirs", "in hand", "hands out"])
def test_a_word_that_is_not_used_is_found(word: str) -> None:
    patterns = "|".join(NOT_USED.values())

    assert re.fullmatch(patterns, word)
