"""Fingerprints of failures, computed from the error text without its variable parts.

A fingerprint is the same in every process and release, because reviews store it for years. A
change of a rule requires a new VERSION, which changes all fingerprints, so that no old one gets a
new meaning.

Of a traceback only the exception and the raising function in the user's code count. Other frames,
line numbers and the formatting of a Python release have no influence.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NamedTuple

from rqueue.task.attempt.error_text import raised
from rqueue.task.fields import CONTROL

VERSION = 2
# Hex digits of a fingerprint: a collision among a million clusters is unlikely.
LENGTH = 12
# Length limits of the error text that is read, and of its pattern.
MOST_TEXT, MOST_PATTERN = 8192, 400
# Length limits, within the pattern, of the raising function and of the exceptions of a group.
MOST_PLACE, MOST_CAUSES = 100, 150

# Applied in this order: larger units come before their parts. Every repetition is bounded or has
# one character class, so that matching is fast for every text.
RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), word)
    for pattern, word in (
        # Suggestions and counts in Python's messages vary between releases and exception groups.
        (r"\.? (?:or )?did you (?:mean|forget)[^?\n]{0,200}\?", ""),
        (r"\(\d{1,9} sub-exceptions?\)", "(<n> sub-exceptions)"),
        (r"\x1b\[[0-9;?]{0,20}[a-z]", " "),
        (r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+", " "),
        (r"\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>()]+", "<url>"),
        (r"(?<![\w<])'[^'\n]{0,1000}'(?!\w)", "<text>"),
        (r"(?<![\w<])\"[^\"\n]{0,1000}\"(?!\w)", "<text>"),
        (r"(?<![\w<])`[^`\n]{0,1000}`(?!\w)", "<text>"),
        (r"\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}\b", "<address>"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
        (r"\b(?:[a-z]{2,12}_)?(?=\d{0,25}[a-z])[0-7][0-9a-hjkmnp-tv-z]{25}\b", "<id>"),
        (
            r"\b\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
            r"(?:z|[+-]\d\d:?\d\d)?)?",
            "<time>",
        ),
        (r"\b\d\d?:\d\d:\d\d(?:[.,]\d{1,9})?\b", "<time>"),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b", "<address>"),
        (
            r"(?<![\w:])\[?[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){3,7}\]?(?::\d{1,5})?(?![\w:])",
            "<address>",
        ),
        (r"\b(?:[a-z0-9-]{1,63}\.){1,8}[a-z][a-z0-9-]{1,62}:\d{1,5}\b", "<address>"),
        (r"\blocalhost:\d{1,5}\b", "<address>"),
        (r"\b[a-z]:\\[\w.\\-]{1,400}", "<path>"),
        (r"(?<![\w<>/])(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]*){0,60}", "<path>"),
        (r"\b0x[0-9a-f]+\b", "<hex>"),
        # Hexadecimal ids become <n> like decimal numbers, because some have no letters by chance.
        (r"\b(?=[a-f]{0,64}\d)[0-9a-f]{8,128}\b", "<n>"),
        (r"[+-]?\d+(?:[.,_]\d+){0,8}(?:e[+-]?\d{1,4})?", "<n>"),
        (r"(?:<n>[ ,]{0,3}){2,}", "<n> "),
        (r"\s+", " "),
    )
)


class Fingerprint(NamedTuple):
    """The identifier of a kind of failure, and its error pattern."""

    id: str
    pattern: str


def fingerprint(type: str, reason: str, error: str) -> Fingerprint:
    """Returns the fingerprint of a failed task, from its type, reason and last error."""
    found = pattern(error)
    text = "\n".join((str(VERSION), type, reason, found))
    return Fingerprint(sha256(text.encode(errors="replace")).hexdigest()[:LENGTH], found)


def pattern(error: str) -> str:
    """Returns the text of an error in one line, with placeholders such as <n> and <path>. For a
    traceback this is the line of the exception and the function that raised it.
    """
    found = raised(error)
    if found is None:
        return masked(error)
    causes = "; ".join(sorted({masked(one) for one in found.causes}))[:MOST_CAUSES]
    place = CONTROL.sub(" ", found.place)[:MOST_PLACE]
    more = f" [{causes}]" * bool(causes) + f" ({place})" * bool(place)
    return masked(found.line)[: MOST_PATTERN - len(more)].rstrip() + more


def masked(text: str) -> str:
    """Returns a text with its variable parts replaced by placeholders."""
    text = text[:MOST_TEXT]
    for rule, word in RULES:
        text = rule.sub(word, text)
    return text.strip()[:MOST_PATTERN].rstrip()
