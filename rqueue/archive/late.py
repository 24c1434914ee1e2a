"""What runs have cost that said so when they had lost their lease: rows of their own.

A row of a life has what its runs said while they held it. What was said later is told by a line of
its own, which may come before the row of its life or after it, and more than once.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from rqueue.archive.copying import INT_DIGITS, PART_DIGITS
from rqueue.archive.rows import Unfit
from rqueue.model.checked import LABEL, label
from rqueue.model.ulid import number_of
from rqueue.store.values import UNREADABLE, moment, natural

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.store.outbox import Line

COST = b"COST"


class Late(NamedTuple):
    """One late cost: whose, in which life, and its name, which is its run and the number of its
    note. What names no label is not told.
    """

    task: UUID
    token: str
    seq: int
    life: int
    epoch: int
    worker: str | None
    model: str | None
    micro_usd: int
    tokens_input: int
    tokens_output: int
    at: datetime


def is_late(line: Line) -> bool:
    """Whether a line of the outbox tells of a late cost."""
    return line.value.partition(b" ")[2].partition(b" ")[0] == COST


def late_in(line: Line) -> Late:
    """The cost that a line tells of; Unfit where it is none of ours."""
    life, _, said = line.value.split(b" ", 2) if line.value.count(b" ") > 1 else (b"", b"", b"")
    try:
        found: Any = json.loads(said)
        token = label(found["token"])
        return Late(
            UUID(int=number_of(line.task.decode())),
            token,
            natural(found["seq"]),
            number(life),
            number(token.partition(":")[0]),
            label_in(found["owner"]),
            label_in(found.get("model")),
            number(found["micro_usd"], PART_DIGITS),
            number(found["tokens_in"], PART_DIGITS),
            number(found["tokens_out"], PART_DIGITS),
            moment(natural(found["at"])),
        )
    except (*UNREADABLE, RecursionError):
        raise Unfit("the late cost in the outbox is not one of ours") from None


def label_in(given: object) -> str | None:
    """A label; None for what is none."""
    return given if isinstance(given, str) and LABEL.fullmatch(given) else None


def number(given: str | bytes, digits: int = INT_DIGITS) -> int:
    """A whole number of so many digits at most."""
    if len(given) > digits:
        raise ValueError("out of range")
    return natural(given)
