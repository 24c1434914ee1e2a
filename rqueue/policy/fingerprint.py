"""What failures have in common: an error's text without what differs from one to the next.

A fingerprint is the same in every process and every release: reviews are kept for years, and name
it. Whoever changes a rule here raises VERSION; then all fingerprints are others, and none means
something else than it did.

Of a traceback counts what was raised and in which function of the user's code: neither its other
frames, nor the numbers of lines, nor how a release of Python draws it.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NamedTuple

from rqueue.model.checked import CONTROL
from rqueue.policy.headline import raised

VERSION = 2
# Hex digits of a fingerprint: among a million clusters two alike are unlikely.
LENGTH = 12
# So much of an error is looked at, and so much of its pattern counts.
MOST_TEXT, MOST_PATTERN = 8192, 400
# Of which so much is where it was raised, and so much what else was raised in a group.
MOST_PLACE, MOST_CAUSES = 100, 150

# In this order: what is larger is taken out before what it is made of. Every repetition is bounded
# or of one class, so that no text takes long.
RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), word)
    for pattern, word in (
        # What Python guesses and counts differs from one release, and from one group, to the next.
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
        # As a number: one that has no letters by chance is to be no other.
        (r"\b(?=[a-f]{0,64}\d)[0-9a-f]{8,128}\b", "<n>"),
        (r"[+-]?\d+(?:[.,_]\d+){0,8}(?:e[+-]?\d{1,4})?", "<n>"),
        (r"(?:<n>[ ,]{0,3}){2,}", "<n> "),
        (r"\s+", " "),
    )
)


class Fingerprint(NamedTuple):
    """A short name for failures of one kind, and what they look like."""

    id: str
    pattern: str


def fingerprint(type: str, reason: str, error: str) -> Fingerprint:
    """The fingerprint of a task that failed so: by its type, its reason and its last error."""
    found = pattern(error)
    text = "\n".join((str(VERSION), type, reason, found))
    return Fingerprint(sha256(text.encode(errors="replace")).hexdigest()[:LENGTH], found)


def pattern(error: str) -> str:
    """An error's text in one line, with words such as <n>, <text>, <path> for what varies; of a
    traceback the line of its exception, and the function that raised it.
    """
    found = raised(error)
    if found is None:
        return without(error)
    causes = "; ".join(sorted({without(one) for one in found.causes}))[:MOST_CAUSES]
    place = CONTROL.sub(" ", found.place)[:MOST_PLACE]
    more = f" [{causes}]" * bool(causes) + f" ({place})" * bool(place)
    return without(found.line)[: MOST_PATTERN - len(more)].rstrip() + more


def without(text: str) -> str:
    """A text without what varies."""
    text = text[:MOST_TEXT]
    for rule, word in RULES:
        text = rule.sub(word, text)
    return text.strip()[:MOST_PATTERN].rstrip()
