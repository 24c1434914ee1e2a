"""An entry of the inbox: its tasks, malformed entries, and the ids of its tasks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rqueue import TaskId
from rqueue.errors import InvalidTask
from rqueue.inbox.entry import (
    MAX_TASKS,
    Entry,
    Text,
    form_named,
    id_of,
    items_of,
    spec_of,
    texts_of,
)

ROOT = "rq:{work}:"


def entry(*words: bytes, id: str = "1700000000000-0") -> Entry:
    return Entry(id, words)


BAD_ENTRIES: dict[str, tuple[Entry, str, str]] = {
    "another field": (entry(b"task", b"{}", b"delay", b"5"), "entry", "has a field 'delay'"),
    "a field in capitals": (entry(b"TASK", b"{}"), "entry", "has a field 'TASK'"),
    "a field that is no text": (entry(b"\xff\n", b"{}"), "entry", r"has a field '\\xff\n'"),
    "a long field": (entry(b"x" * 999, b"{}"), "entry", f"has a field '{'x' * 64}'; it may"),
    "a form that is none": (entry(b"task", b"{}", b"form", b"D"), "form", "is one of native, A, B"),
    "a form in small letters": (entry(b"task", b"{}", b"form", b"a"), "form", "is one of"),
    "an empty form": (entry(b"form", b"", b"task", b"{}"), "form", "is one of"),
    "two forms": (entry(b"form", b"A", b"form", b"A"), "form", "more than once"),
    "a form alone": (entry(b"form", b"A"), "entry", "contains no task"),
    "an empty array": (entry(b"task", b" [ ] "), "entry", "contains no task"),
    "too many": (entry(b"task", b"[0" + b",0" * 1000 + b"]"), "entry", "contains 1001 tasks; 1000"),
}


@pytest.mark.parametrize("bad", BAD_ENTRIES)
def test_an_invalid_entry_is_refused_as_a_whole(bad: str) -> None:
    found, field, rule = BAD_ENTRIES[bad]

    with pytest.raises(InvalidTask) as caught:
        [form_named(found), texts_of(found)]

    assert caught.value.field == field
    assert rule in caught.value.rule


BROKEN_ARRAYS = (
    b"[", b"[1", b"[1,", b"[1,]", b"[,1]", b"[1 2]", b"[1]]", b"[1]x", b"[1][2]", b'["', b"[nul]",
    b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b"[" + b" " * 1_048_576 + b"]",
)  # fmt: skip


@pytest.mark.parametrize("text", BROKEN_ARRAYS, ids=lambda text: text[:8].decode())
def test_an_invalid_array_is_one_text(text: bytes) -> None:
    assert items_of(text) == [text]
    with pytest.raises(InvalidTask):
        spec_of(text, None)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        (b"", [b""]),
        (b'{"a":[1]}', [b'{"a":[1]}']),
        (b"word", [b"word"]),
        (b"[1]", [b"1"]),
        (b'\n[ {"a": [1, 2]} ,\t"x" ]\r\n', [b'{"a": [1, 2]}', b'"x"']),
        (b'[{"a":NaN},{"a":1,"a":2}]', [b'{"a":NaN}', b'{"a":1,"a":2}']),
        (b'["\xff","\\ud800"]', [b'"\xff"', b'"\\ud800"']),
        (b'["\n"]', [b'"\n"']),
        (b"[" + b"9" * 5000 + b"]", [b"9" * 5000]),
        (b"[[1],[2]]", [b"[1]", b"[2]"]),
        ('["ä","\U0001f600"]'.encode(), ['"ä"'.encode(), '"\U0001f600"'.encode()]),
    ],
)
def test_the_items_of_an_array_are_unchanged(text: bytes, items: list[bytes]) -> None:
    assert items_of(text) == items


@given(st.lists(st.recursive(st.none() | st.text() | st.floats(), st.lists, max_leaves=5)))
def test_each_item_of_an_array_is_found(values: list[Any]) -> None:
    texts = [json.dumps(value).encode() for value in values]

    assert items_of(b"[" + b" , ".join(texts) + b"]") == texts


def test_task_positions_continue_across_fields() -> None:
    found = texts_of(entry(b"task", b"a", b"form", b"A", b"task", b"[1,2]", b"task", b"b"))

    assert found == [Text(0, b"a"), Text(1, b"1"), Text(2, b"2"), Text(3, b"b")]


def test_the_maximum_number_of_tasks_is_accepted() -> None:
    assert len(texts_of(entry(b"task", b"[0" + b",0" * (MAX_TASKS - 1) + b"]"))) == MAX_TASKS


@pytest.mark.parametrize("form", ["native", "A", "B", "C"])
def test_an_entry_may_name_its_form(form: str) -> None:
    assert form_named(entry(b"task", b"{}", b"form", form.encode())) == form


def test_an_entry_need_not_name_its_form() -> None:
    assert form_named(entry(b"task", b"{}")) is None


@given(st.binary() | st.text().map(str.encode) | st.binary().map(b'{"type":'.__add__))
@example(b'{"type":' + b"[" * 5000)
@example(b'\xef\xbb\xbf{"type":"code"}')
@example(b"type: code")
@example(b"!!python/object:os.system {}")
def test_any_text_is_parsed_or_refused(text: bytes) -> None:
    with pytest.raises(InvalidTask):
        spec_of(text, None)


def test_the_creator_is_the_inbox_unless_one_is_given() -> None:
    theirs = spec_of(b'{"type":"code","created_by":"cron:nightly"}', None)

    assert spec_of(b'{"type":"code"}', None).created_by == "service:inbox"
    assert theirs.created_by == "cron:nightly"


def test_an_id_is_the_same_each_time() -> None:
    """The ids must never change: an entry may be read again by the next release."""
    found = id_of(ROOT, entry(id="1700000000000-3"), "A", Text(7, b'{"type":"code"}'))

    assert found == "task_01HF7YAT00E0683ND46V6BB600"
    assert (found.created_ms, found.shard) == (1_700_000_000_000, 0)
    assert TaskId.parse(found.uuid) == found


@pytest.mark.parametrize(
    ("root", "id", "form", "task"),
    [
        ("rq:{other}:", "1-1", None, Text(0, b"a")),
        ("my:{work}:", "1-1", None, Text(0, b"a")),
        (ROOT, "1-2", None, Text(0, b"a")),
        (ROOT, "2-1", None, Text(0, b"a")),
        (ROOT, "1-1", "A", Text(0, b"a")),
        (ROOT, "1-1", None, Text(1, b"a")),
        (ROOT, "1-1", None, Text(0, b"b")),
    ],
)
def test_ids_differ_by_queue_entry_position_form_and_text(
    root: str, id: str, form: Any, task: Text
) -> None:
    first = id_of(ROOT, entry(id="1-1"), None, Text(0, b"a"))

    assert id_of(root, entry(id=id), form, task) != first


PLACES = st.tuples(
    st.integers(0, (1 << 48) - 1), st.integers(0, 1023), st.integers(0, MAX_TASKS - 1)
)


@given(PLACES, PLACES)
def test_ids_sort_as_the_tasks_were_written(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    first, second = (
        id_of(ROOT, entry(id=f"{ms}-{number}"), None, Text(at, b"a"))
        for ms, number, at in (one, other)
    )

    assert (first < second) == (one < other)


@pytest.mark.parametrize("id", ["0-1", "18446744073709551615-18446744073709551615"])
def test_every_entry_id_gives_a_valid_task_id(id: str) -> None:
    found = id_of(ROOT, entry(id=id), None, Text(999, b"a"))

    assert TaskId.parse(str(found)) == found
