"""The line that names an error, for every form of error text, and errors in groups and causes."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rqueue
from rqueue.errors import SubtaskFailed
from rqueue.task.attempt.error_text import (
    MAX_DEPTH,
    MAX_ERRORS,
    causes_of,
    group_members,
    headline,
    is_ours,
    raised,
    reachable,
)
from rqueue.task.attempt.verdict import MAX_ERROR
from rqueue.worker.attempt import described
from tests.task.attempt.tracebacks import (
    CHAINED,
    GROUP,
    HEADER,
    PYTHON_3_11,
    PYTHON_3_12,
    PYTHON_3_13,
    SYNTAX,
    SYNTAX_ALONE,
    WITHOUT_END,
)

DURING = "During handling of the above exception, another exception occurred:"
FRAME = '  File "/app/shop.py", line 3, in charge\n    load(order)\n    ^^^^^^^^^^^\n'


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("", ""),
        (" \n\t\n", ""),
        ("disk full", "disk full"),
        ("\n  disk full \nof sand", "disk full"),
        (PYTHON_3_11, "bank.wire.Refused: order 17 of 'ada' is closed"),
        (PYTHON_3_12, "bank.wire.Refused: order 18 of 'grace' is closed"),
        (PYTHON_3_13, "bank.wire.Refused: order 19 of 'edsger' is closed"),
        (CHAINED, "shop.Closed: no shop"),
        (GROUP, "ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)"),
        (SYNTAX, "SyntaxError: invalid syntax"),
        (SYNTAX_ALONE, "SyntaxError: invalid syntax"),
        (f"{HEADER}\n{FRAME}KeyboardInterrupt", "KeyboardInterrupt"),
        (f"{HEADER}\r\n  File \"x\"\r\nValueError: no\r\nmore\r\n", "ValueError: no"),
        (f"{HEADER}\n{FRAME}ValueError: two\nlines: of it", "ValueError: two"),
        (f"{HEADER}\n{FRAME}ValueError: \n\n  not empty\nx", "ValueError: not empty"),
        (f"{HEADER}\n{FRAME}  [Previous line repeated 9 more times]\nRecursionError: deep",
         "RecursionError: deep"),
        (f"{HEADER}\n{FRAME}V\ufffdlue\ufffd: \ufffd\ufffd", "V\ufffdlue\ufffd: \ufffd\ufffd"),
        (f"{HEADER}\n{FRAME}RuntimeError: it said\n{HEADER}\n{FRAME}KeyError: 1",
         "RuntimeError: it said"),
        (f"{HEADER}\nValueError: no frames", "ValueError: no frames"),
        (f"ERROR:root:no\n{HEADER}\n{FRAME}ValueError: x", "ValueError: x"),
        (f"not judged: {HEADER}\n{FRAME}ValueError: x", "not judged: ValueError: x"),
        ("| ExceptionGroup: two (1 sub-exception)\n  +-+---------------- 1 ----------------\n"
         "    | ValueError: x\n    +------------------------------------",
         "ExceptionGroup: two (1 sub-exception)"),
        (f"ValueError: x\n\n{DURING}\n\nOSError: y", "OSError: y"),
    ],
)  # fmt: skip
def test_the_headline_is_the_line_that_names_the_error(error: str, line: str) -> None:
    assert headline(error) == line


@pytest.mark.parametrize(
    "error",
    [
        "Traceback: none was kept",
        "the Traceback (most recent call last): is in the log",
        f"{HEADER} see the log\nValueError: no",
        f"look at the {HEADER}\nit is in the log, line 3",
        "| a | b |\n| 1 | 2 |",
        "+ a\n+ b",
        'File "a.csv", line 3: bad\nretry: no',
    ],
)
def test_a_text_that_is_not_a_traceback_has_its_first_line_as_headline(error: str) -> None:
    assert headline(error) == error.partition("\n")[0]
    assert raised(error) is None


def test_a_truncated_traceback_has_a_headline_of_its_last_frame_or_error() -> None:
    assert headline(WITHOUT_END) == "a traceback without its end: load in orders.py"
    assert headline(HEADER) == HEADER
    assert headline(GROUP.partition("  | ExceptionGroup")[0]).endswith(": charge in shop.py")
    first, middle, _ = CHAINED.rpartition(HEADER)
    assert headline(first) == headline(first + middle) == "OSError: [Errno 111] refused"
    assert headline((f"{HEADER}\n" + FRAME * 200)[:MAX_ERROR]).endswith(": charge in shop.py")


def fail_deep(depth: int, error: Exception) -> None:
    if depth:
        fail_deep(depth - 1, error)
    raise error


# A file with a long name: the frames by themselves exceed what is stored.
LONG = """
def fail_long(depth, error):
    if depth % 2:
        fail_long(depth - 1, error)
    elif depth:
        fail_long(depth - 1, error)
    raise error
"""


def text_of(work: Callable[[], object]) -> str:
    """The stored text of the exception that this raises."""
    try:
        work()
    except BaseException as error:
        return described(error)
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("depth", [0, 1, 5, 60])
def test_the_headline_does_not_depend_on_the_depth_of_the_stack(depth: int) -> None:
    found = text_of(lambda: fail_deep(depth, ValueError("bad customer")))

    assert headline(found) == "ValueError: bad customer"


@pytest.mark.parametrize("length", [10, 4_000, 9_000])
def test_the_headline_is_found_where_the_middle_of_the_text_is_left_out(length: int) -> None:
    lines = "\n".join(["bad customer", *("x" * 78 for _ in range(length // 79))])

    code: dict[str, Any] = {}
    exec(compile(LONG, f"/app/{'x' * 200}.py", "exec"), code)

    deep = text_of(lambda: code["fail_long"](60, ValueError("bad customer\nhe says")))
    wordy = text_of(lambda: fail_deep(2, ValueError(lines)))
    long = text_of(lambda: fail_deep(2, ValueError("bad customer" + "x" * length)))

    assert " characters ..." in deep
    assert headline(deep) == headline(wordy) == "ValueError: bad customer"
    assert headline(long).startswith("ValueError: bad customerx")


def test_a_traceback_without_its_last_frames_has_no_line_of_its_message_as_headline() -> None:
    text = f"{HEADER}\n{FRAME}\n... 700 characters ...\nd of words\n more words\nand no words"

    assert headline(text) == "a traceback without its end: charge in shop.py"


async def test_headlines_of_real_groups_chains_and_syntax_errors() -> None:
    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.to_thread(fail_deep, 1, ValueError("bad")))

    def chained() -> None:
        try:
            fail_deep(3, KeyError("ada"))
        except KeyError as error:
            raise RuntimeError("no customer") from error

    with pytest.raises(ExceptionGroup) as several:
        await group()

    found = raised(described(several.value))
    assert found is not None
    assert found.line == "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)"
    assert found.causes == ("ValueError: bad",)
    assert headline(text_of(chained)) == "RuntimeError: no customer"
    assert (
        headline(text_of(lambda: compile("x = = 3", "a.py", "exec")))
        == "SyntaxError: invalid syntax"
    )
    assert headline(described(SyntaxError("no", ("a.py", 1, 1, "x = =")))) == "SyntaxError: no"


def test_the_headline_of_a_failed_subtask_contains_that_of_its_error() -> None:
    inner = text_of(lambda: fail_deep(2, ValueError("bad customer")))

    found = headline(text_of(lambda: fail_deep(0, SubtaskFailed("t", state="dead", reason=inner))))

    assert found.endswith("SubtaskFailed: the spawned t is dead: ValueError: bad customer")


@pytest.mark.parametrize(
    ("error", "place"),
    [
        (PYTHON_3_11, "load in orders_v.py"),
        (PYTHON_3_12, "load in orders_v.py"),
        (PYTHON_3_13, "load in orders_v.py"),
        (CHAINED, "charge in shop.py"),
        (GROUP, "charge in shop.py"),
        (SYNTAX, "charge in shop.py"),
        (SYNTAX_ALONE, ""),
        (f'{HEADER}\n  File "x.py", line 1, in Shop.pay.<locals>.go\nE', "go in x.py"),
        (f'{HEADER}\n  File "C:\\app\\x.py", line 1, in go\nE', "go in x.py"),
        (f'{HEADER}\n  File "/usr/lib/python3.11/json/decoder.py", line 1, in decode\nE',
         "decode in decoder.py"),
    ],
)  # fmt: skip
def test_the_place_is_the_innermost_function_of_the_users_code(error: str, place: str) -> None:
    found = raised(error)

    assert found is not None
    assert found.place == place


def test_an_installed_application_counts_as_the_users_code() -> None:
    site = '  File "/opt/venv/lib/python3.12/site-packages/{}", line 3, in {}\n'
    frames = (("rqueue/worker/attempt.py", "perform"), ("shop/tasks.py", "charge"),
              ("shop/rows.py", "load"), ("bank/wire.py", "ask"))  # fmt: skip

    found = raised(f"{HEADER}\n{''.join(site.format(*frame) for frame in frames)}Refused: no")

    assert found is not None
    assert found.place == "load in rows.py"


def test_every_module_of_rqueue_is_recognised() -> None:
    root = Path(rqueue.__file__).parent
    paths = [path.relative_to(root.parent).as_posix() for path in root.rglob("*.py")]

    assert [path for path in paths if not is_ours(f"/x/{path}")] == []
    assert not is_ours("/srv/rqueue/tasks.py")
    assert not is_ours("/srv/myrqueue/services/attempt.py")


@given(st.text())
def test_any_text_has_a_headline_of_one_line(error: str) -> None:
    line = headline(error)

    assert "\n" not in line
    assert bool(line) is bool(error.strip())


PIECES = [
    HEADER,
    FRAME,
    "ValueError: x",
    "\n",
    GROUP,
    CHAINED,
    "... 7 characters ...",
    "  | ",
    " x",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_any_combination_of_traceback_parts_has_a_headline_of_one_line(pieces: list[str]) -> None:
    error = "\n".join(pieces)

    assert "\n" not in headline(error)
    assert bool(headline(error)) is bool(error.strip())


def test_very_many_nested_tracebacks_are_parsed() -> None:
    assert headline(f"x: {HEADER}\n" * 2_000).startswith("x: ")


def test_the_headline_is_the_line_of_format_exception_only() -> None:
    error = ValueError("bad customer")

    assert (
        headline(text_of(lambda: fail_deep(4, error)))
        == "".join(traceback.format_exception_only(error)).strip()
    )


A, B, C = KeyError("a"), ValueError("b"), OSError("c")


def raised_from(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def test_an_error_without_causes_is_the_only_one_found() -> None:
    assert group_members(A) == [A]
    assert reachable(A, causes_of) == [A]


def test_all_errors_of_a_group_are_found_in_order() -> None:
    inner = ExceptionGroup("inner", [B, C])
    outer = ExceptionGroup("outer", [A, inner])

    assert group_members(outer) == [outer, A, inner, B, C]


def test_a_cause_is_reachable_but_not_a_member_of_the_group() -> None:
    error = raised_from(RuntimeError("outer"), ExceptionGroup("group", [A]))

    assert group_members(error) == [error]
    assert reachable(error, causes_of) == [error, error.__cause__, A]


def test_the_context_of_an_error_is_not_a_cause() -> None:
    error = RuntimeError("while handling")
    error.__context__ = A

    assert reachable(error, causes_of) == [error]


def test_a_cycle_and_a_repeated_group_are_read_once() -> None:
    one, two = RuntimeError("one"), RuntimeError("two")
    raised_from(one, raised_from(two, one))
    doubled: BaseException = ExceptionGroup("", [A])
    for _ in range(MAX_DEPTH):
        doubled = ExceptionGroup("", [doubled, doubled])  # type: ignore[type-var]

    assert reachable(one, causes_of) == [one, two]
    assert len(group_members(doubled)) == MAX_DEPTH + 1


def test_the_number_and_depth_of_errors_read_are_bounded() -> None:
    wide = ExceptionGroup("", [KeyError(number) for number in range(2 * MAX_ERRORS)])
    deep: Exception = A
    for _ in range(5 * MAX_DEPTH):
        deep = ExceptionGroup("", [deep])

    assert len(group_members(wide)) == MAX_ERRORS
    assert len(group_members(deep)) == MAX_DEPTH + 1
