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
    "exclusive": r"alone task|run(?:s|ning)? alone",
    "executor, slots, prefetch, session": (
        r"desks?|seats?|outfits?|scribes?|lookout|tending|ahead of (?:a|the|its)(?: free)? slots?"
    ),
    "dependent": r"heirs?|offspring",
    "budget, account, reserve, refund": r"purses?|set aside|sets aside|brings? back",
    "outcome": r"aftermath",
    "waiting claim, mailbox, delivery": r"parked claims?|handoffs?|handed over",
    # In quotes it is the name of a move, or a stored name.
    "pause, resume": r"hold dag|(?<![\"'`])unhold(?!, pause)",
    "subprocess": r"child (?:process(?:es)?|pool)",
    "leader": r"yield lead",
    "retried": r"lives again",
    "leased": r"in hand",
    "claimed": r"(?:hands?|handed|handing) out",
    "deletes, releases": r"(?:lets?|letting) go",
    "drains": r"sends? home|sent home",
    "random number generator": r"dice",
    "package": r"house",
    "fixtures have plain names": r"sown|strangers?",
}
PATTERNS = {
    instead: re.compile(rf"(?<![a-z])(?:{pattern})(?![a-z])", re.IGNORECASE)
    for instead, pattern in NOT_USED.items()
}
# Names that are stored in Redis keep the word.
STORED = re.compile(r"\b(?:heirs|handoffs?|namesake)\b")
STORED_IN = (
    "lua", "rqueue/store/keys.py", "docs/keys.md", "docs/functions.md", "docs/decisions",
    "tests/lua", "tests/machine", "tests/maintenance",
)  # fmt: skip
# Field names of JSON output do not change.
JSON_FIELDS = {"rqueue/cli/top.py": '"in_hand"'}
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
    text = text.replace(JSON_FIELDS.get(label(path), "\0"), "")
    return STORED.sub("", text) if label(path).startswith(STORED_IN) else text


def in_words(text: str) -> str:
    """The text with a blank between two words: of a name, and over the end of a line of comment."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return re.sub(r"[\s_]+(?:(?:#|--)\s+)?", " ", text)


def unused_words(text: str) -> dict[str, str]:
    """Returns the words of a text that are not used, with the word to use."""
    words = in_words(text)
    return {
        match[0]: instead
        for instead, pattern in PATTERNS.items()
        for match in pattern.finditer(words)
    }


@for_each(FILES)
def test_a_word_is_used_in_its_one_sense(path: Path) -> None:
    assert unused_words(words_in(path)) == {}


@pytest.mark.parametrize(
    "text",
    [
        "desk",
        "two seats",
        "the heirs of",
        "in hand",
        "in_hand",
        "def test_nothing_is_handed_out() -> None:",
        "hands\n    out",
        "# it is handed\n# out",
        "-- it lets\n-- go of",
        "lets_go",
        "paused.unhold(",
        "class ChildProcess:",
        "claimed ahead of a free slot",
    ],
)
def test_a_word_that_is_not_used_is_found(text: str) -> None:
    assert len(unused_words(text)) == 1


@pytest.mark.parametrize("text", ["`unhold`", '"unhold " .. dag', "handle", "child", "a household"])
def test_other_words_are_not_found(text: str) -> None:
    assert unused_words(text) == {}
