"""ULID text: 128 bits as 26 characters of Crockford's base 32, upper case, no aliases."""

from __future__ import annotations

import re

from rqueue.errors import InvalidTask

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# Ten bits are two characters: one look-up instead of two shifts.
PAIRS = tuple(high + low for high in ALPHABET for low in ALPHABET)
NUMBER_OF = {pair: number for number, pair in enumerate(PAIRS)}
TO_BASE_32 = str.maketrans(ALPHABET, "0123456789ABCDEFGHIJKLMNOPQRSTUV")
TEXT = re.compile(
    r"(?:(?P<prefix>[a-z]+)_)?(?:"
    r"(?P<ulid>[0-7][0-9A-HJKMNP-TV-Z]{25})|"
    r"(?P<uuid>[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}))",
    re.IGNORECASE | re.ASCII,
)


def pairs(value: int, count: int) -> str:
    """The low 10 * count bits as 2 * count characters."""
    return "".join(PAIRS[value >> 10 * place & 1023] for place in reversed(range(count)))


def ulid_of(value: int) -> str:
    """The ULID of 128 bits."""
    return pairs(value, 13)


def number_of(ulid: str) -> int:
    """The 128 bits of a ULID in upper case."""
    return int(ulid.translate(TO_BASE_32), 32)


def value_of(prefix: str, text: object) -> int:
    """The 128 bits of a ULID or UUID in text of any case, with this prefix or none."""
    found = TEXT.fullmatch(text) if isinstance(text, str) else None
    if found is None or (found["prefix"] or prefix).lower() != prefix:
        raise InvalidTask("id", f"is not {prefix}_<ULID>, a bare ULID or a UUID")
    if found["uuid"]:
        return int(found["uuid"].replace("-", ""), 16)
    return number_of(found["ulid"].upper())
