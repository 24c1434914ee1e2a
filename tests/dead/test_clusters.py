"""Fingerprints do not depend on the variable parts of an error, the process or the release."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqueue.dead.clusters import LENGTH, MOST_PATTERN, MOST_TEXT, fingerprint, pattern
from rqueue.worker.attempt import described
from tests.task.attempt.tracebacks import (
    CHAINED,
    GROUP,
    HEADER,
    PYTHON_3_11,
    PYTHON_3_12,
    PYTHON_3_13,
    SYNTAX,
    WITHOUT_END,
)

ULID = "01KA9ZK6QJ3V4W5X6Y7Z8A9B0C"
UUID = "6f1c2a34-9b1d-4e8a-8c55-0a1b2c3d4e5f"
REFUSED = "bank.wire.Refused: order <n> of <text> is closed (load in orders_v.py)"
# From a Python release that adds suggestions to its messages.
NAME_ERROR = f"""\
{HEADER}
  File "/app/shop.py", line 3, in charge
    sys.exit()
    ^^^
NameError: name 'sys' is not defined. Did you mean: 'sum'? Or did you forget to import 'sys'?"""

KNOWN = [
    ("HTTP 503 from https://api.example.com/v1/items?id=7 after 3.5s",
     "HTTP <n> from <url> after <n>s", "efe94a5a5c50"),
    ("KeyError: 'user_42'", "KeyError: <text>", "9f7722ca8f7d"),
    ('no such file: "a b.txt" (errno 2)', "no such file: <text> (errno <n>)", "67921454612d"),
    ("can't read /var/lib/app/7/data.json, line 33", "can't read <path>, line <n>", "a0d1066b6b30"),
    (r"cannot open C:\Temp\x-1.txt now", "cannot open <path> now", "0f66f0a2aa1c"),
    ("connect to 10.0.0.3:6379 timed out at 2026-02-09T12:00:00.123Z",
     "connect to <address> timed out at <time>", "814058103073"),
    ("db-3.internal.net:5432 refused ada@example.com",
     "<address> refused <address>", "1650965b5d60"),
    (f"row {ULID} of task_{ULID} and {UUID}", "row <id> of <id> and <id>", "e4a1913407bf"),
    ("<Thing object at 0x7f8ffa6f2110>, sha a1b2c3d4e5",
     "<Thing object at <hex>>, sha <n>", "2962b85552fd"),
    ("don't touch the facade", "don't touch the facade", "c5c9633fb347"),
    ("[1, 2, 3] is not [4, 5]", "[<n> ] is not [<n> ]", "45059236d6fc"),
    ("two\nlines\twith \x1b[31mcolour\x1b[0m", "two lines with colour", "6e7a117d5d3b"),
    ("", "", "5f1bf4832afe"),
    (PYTHON_3_11, REFUSED, "aee50183c248"),
    (PYTHON_3_12, REFUSED, "aee50183c248"),
    (PYTHON_3_13, REFUSED, "aee50183c248"),
    (CHAINED, "shop.Closed: no shop (charge in shop.py)", "878b768c389b"),
    (GROUP, "ExceptionGroup: unhandled errors in a TaskGroup (<n> sub-exceptions)"
     " [ExceptionGroup: none (<n> sub-exceptions); KeyError: <text>; ValueError: card <n>]"
     " (charge in shop.py)", "b35ea330ba5d"),
    (SYNTAX, "SyntaxError: invalid syntax (charge in shop.py)", "ba998fe8776b"),
    (WITHOUT_END, "a traceback without its end: load in orders.py", "35869d0d5839"),
    (NAME_ERROR, "NameError: name <text> is not defined (charge in shop.py)", "d17344b9dd66"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "shown", "_"), KNOWN)
def test_variable_parts_become_placeholders(error: str, shown: str, _: str) -> None:
    assert pattern(error) == shown


@pytest.mark.parametrize(("error", "_", "id"), KNOWN)
def test_a_fingerprint_never_changes(error: str, _: str, id: str) -> None:
    assert fingerprint("code", "error", error).id == id


def test_a_fingerprint_is_the_same_in_another_process() -> None:
    code = "from rqueue.dead.clusters import fingerprint as f; print(f('a', 'b', 'c 1').id)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == fingerprint("a", "b", "c 2").id


@given(st.text(st.characters(exclude_characters="0123456789")), st.integers(), st.integers())
def test_numbers_make_no_difference(text: str, one: int, other: int) -> None:
    first = fingerprint("code", "error", f"{text} {abs(one)} {text}")

    assert first == fingerprint("code", "error", f"{text} {abs(other)} {text}")


WORDS = st.text("abcdefghijklmnopqrstuvwxyz ", max_size=40)


@given(WORDS, WORDS, WORDS)
def test_quoted_text_makes_no_difference(text: str, one: str, other: str) -> None:
    first = fingerprint("code", "error", f"{text} '{one}' {text}")

    assert first == fingerprint("code", "error", f"{text} '{other}' {text}")


@given(st.uuids(), st.uuids())
def test_ids_make_no_difference(one: object, other: object) -> None:
    assert fingerprint("code", "error", f"row {one}") == fingerprint(
        "code", "error", f"row {other}"
    )


@given(st.text())
def test_any_text_has_a_fingerprint(error: str) -> None:
    found = fingerprint("code", "error", error)

    assert re.fullmatch(f"[0-9a-f]{{{LENGTH}}}", found.id)
    assert found == fingerprint("code", "error", error)
    assert len(found.pattern) <= MOST_PATTERN
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", found.pattern)


@given(WORDS, WORDS)
def test_type_and_reason_distinguish_failures(one: str, other: str) -> None:
    same = one == other

    assert (fingerprint(one, "error", "x").id == fingerprint(other, "error", "x").id) is same
    assert (fingerprint("code", one, "x").id == fingerprint("code", other, "x").id) is same


def test_other_words_are_another_failure() -> None:
    errors = ["disk full", "disk gone", "no disk", "disk full of sand"]

    assert len({fingerprint("code", "error", error).id for error in errors}) == len(errors)


def fail(depth: int, error: Exception) -> None:
    if depth:
        fail(depth - 1, error)
    raise error


def charge(error: Exception) -> None:
    order_of_the_customer(error)


def order_of_the_customer(error: Exception) -> None:
    row_of_the_order(error)


def row_of_the_order(error: Exception) -> None:
    statement_for_the_row(error)


def statement_for_the_row(error: Exception) -> None:
    elsewhere(error)


def elsewhere(error: Exception) -> None:
    raise error


def of(work: Callable[[Exception], None], error: Exception) -> str:
    """Returns the fingerprint of the exception that this raises in a handler."""
    with pytest.raises(type(error)) as found:
        work(error)
    return fingerprint("code", "error", described(found.value)).id


@pytest.mark.parametrize("work", [elsewhere, charge, partial(fail, 60)])
def test_exceptions_raised_in_different_functions_differ(work: Callable[[Exception], None]) -> None:
    bad = of(work, ValueError("bad customer"))
    away = of(work, ConnectionRefusedError("the database is away"))
    other = of(work, ValueError("bad address"))

    assert len({bad, away, other}) == 3


def test_the_depth_of_the_stack_makes_no_difference_and_the_raising_function_does() -> None:
    bad = [of(partial(fail, depth), ValueError(f"row {depth}")) for depth in (0, 1, 5, 60)]

    assert len(set(bad)) == 1
    assert of(elsewhere, ValueError("row 1")) != bad[0]


async def test_exception_groups_differ_by_their_kinds_of_errors_and_not_by_their_number() -> None:
    async def found(*errors: Exception) -> str:
        try:
            async with asyncio.TaskGroup() as tasks:
                for error in errors:
                    tasks.create_task(asyncio.to_thread(fail, 0, error))
        except ExceptionGroup as group:
            return fingerprint("code", "error", described(group)).id
        raise AssertionError("nothing was raised")

    bad = await found(ValueError("row 1"))

    assert await found(ValueError("row 2"), ValueError("row 3"), ValueError("row 4")) == bad
    assert await found(OSError("away")) != bad


def test_every_line_of_a_text_without_traceback_counts() -> None:
    one, other = "the command failed:\ndisk full", "the command failed:\nno such host"

    assert fingerprint("code", "error", one) != fingerprint("code", "error", other)


@pytest.mark.parametrize(
    "piece",
    ["'", '"', "`", "a", "1", "a.", "a@", ":", "/", "a.-", "0:", "[a", "a:\\", "1.1.", "<n> ", "a-",
     "0x", "f", "é", " ", "://", "a1_", " did you mean", f"x: {HEADER}\n", "+-", "  File "],
)  # fmt: skip
def test_no_text_takes_long(piece: str) -> None:
    error = (piece * MOST_TEXT)[:MOST_TEXT]
    began = time.process_time()

    pattern(error)

    assert time.process_time() - began < 0.5
