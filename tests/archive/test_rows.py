"""Rows of ended tasks: all data is preserved; the fast path and the general one agree."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rqueue.archive.copying import NULL
from rqueue.archive.plain_rows import quick_row
from rqueue.archive.rows import COLUMNS, Unfit, quarantine_data, record_of, row_of
from rqueue.core.ended import NUL, PIECES, EndedTask, PlainTask
from rqueue.core.outbox import OutboxItem

ULID = b"01M7P1CC32E7X8ED4M707VY400"
HASH = {
    b"state": b"COMPLETED", b"lane": b"1", b"entry": b"1794962239593-0", b"score": b"299",
    b"def0": b'{"t":"send","p":{"to":"ada"}}', b"token": b"1:bits",
    b"holder": b"1794962239613 1794962239616 w1", b"finished": b"1794962239618",
}  # fmt: skip
DEFINITION = HASH[b"def0"]
LINE = OutboxItem(ULID, b"1 COMPLETED")


def a_kept(
    changes: dict[bytes, bytes] | None = None,
    *,
    definition: bytes = DEFINITION,
    result: bytes = b'{"ok":true}',
    **beside: Any,
) -> EndedTask:
    hash = {**HASH, **(changes or {})}
    flat = [word for pair in hash.items() for word in pair]
    return EndedTask(flat, definition, result, **beside)


def a_plain(
    changes: dict[bytes, bytes] | None = None,
    *,
    definition: bytes = DEFINITION,
    result: bytes = b'{"ok":true}',
    pieces: int = 1,
) -> PlainTask:
    """A plain task as read from Redis, its definition in pieces or beside the hash."""
    size = -(-len(definition) // max(pieces, 1))
    cut = {PIECES[n]: definition[n * size : (n + 1) * size] for n in range(pieces)}
    hash: dict[bytes, bytes] = {}
    for name, value in HASH.items():
        hash |= cut if name == b"def0" else {name: value}
    words = NUL.join(word for pair in (hash | (changes or {})).items() for word in pair)
    return PlainTask(words, b"" if pieces else definition, result)


def columns(kept: EndedTask, line: OutboxItem = LINE) -> dict[str, str]:
    """Returns the row by column, as COPY reads it."""
    words = row_of(line, kept).line().decode().removesuffix("\n").split("\t")
    return dict(zip(COLUMNS, words, strict=True))


@pytest.mark.parametrize("pieces", range(9))
def test_a_plain_task_is_converted_by_the_fast_path(pieces: int) -> None:
    plain = a_plain(pieces=pieces)

    quick = quick_row(LINE, plain)

    long = row_of(LINE, plain.unpacked())
    assert plain.unpacked().definition == DEFINITION
    assert quick is not None
    assert quick.line() == long.line()
    assert (quick.ulid, quick.life, quick.dag) == (long.ulid, long.life, long.dag)
    assert (quick.digest, quick.is_typed) == (long.digest, long.is_typed)
    assert (quick.is_discarded, quick.has_json) == (long.is_discarded, long.has_json)
    assert list(quick.failures) == long.failures
    assert quick.without_json().line() == long.without_json().line()


def test_a_definition_in_pieces_gives_the_same_row() -> None:
    assert quick_row(LINE, a_kept()) is None


def whole(word: bytes) -> bytes:
    """Returns whether a joined hash may contain the word: it has no NUL."""
    return word.replace(NUL, b"0")


@settings(deadline=None)
@given(
    changes=st.dictionaries(
        st.sampled_from([*HASH, b"flags", b"created", b"attempts", b"priority", b"more", b"x"]),
        st.binary(max_size=30).map(whole) | st.sampled_from(list(HASH.values())),
        max_size=3,
    ),
    definition=st.binary(max_size=40).map(whole)
    | st.sampled_from([
        DEFINITION, b'{"t":"send"}', b'{"t":"a\\u0000"}', b'{"t":"x","priority":20.0}', b"[]",
        b'{"t":"x","priority":20}', b'{"t":"a b"}', b'{"t":1}', b'{"t":"\xc3\xa4"}', b"",
        b'{"t":"x","p":"\\u0000"}', b'{"t":"x","p":"\\\\u0000"}',
    ]),
    result=st.binary(max_size=20)
    | st.sampled_from([b"", b"null", b'"\\u0000"', b'"\\\\u0000"', b"1", b"NaN"]),
    pieces=st.integers(0, 8),
)  # fmt: skip
@example(changes={b"holder": b"1 0 w1"}, definition=DEFINITION, result=b"", pieces=1)
@example(changes={b"holder": b'1 2 "'}, definition=DEFINITION, result=b"", pieces=1)
@example(changes={b"token": b""}, definition=DEFINITION, result=b"", pieces=1)
@example(changes={b"token": b"007:x"}, definition=DEFINITION, result=b"", pieces=1)
@example(changes={b"entry": b""}, definition=DEFINITION, result=b"", pieces=1)
@example(changes={b"entry": b"1"}, definition=DEFINITION, result=b"", pieces=1)
@example(changes={b"holder": b" 1 w"}, definition=DEFINITION, result=b"", pieces=1)
@example(changes={b"finished": b"01"}, definition=DEFINITION, result=b"", pieces=1)
@example(changes={b"token": b"99999999999999999999:x"}, definition=DEFINITION, result=b"", pieces=1)
def test_the_fast_path_gives_the_same_row_or_none(
    changes: dict[bytes, bytes], definition: bytes, result: bytes, pieces: int
) -> None:
    plain = a_plain(changes, definition=definition, result=result, pieces=pieces)
    try:
        expected = row_of(LINE, plain.unpacked()).line()
    except Unfit:
        assert quick_row(LINE, plain) is None
        return

    quick = quick_row(LINE, plain)

    assert quick is None or quick.line() == expected
    assert expected.count(b"\t") == len(COLUMNS) - 1
    assert expected.count(b"\n") == 1


@pytest.mark.parametrize(
    "value", [b"", b"COMPLETED", b"x COMPLETED", b"1 RUNNING", b"1", b"-1 COMPLETED", b"\xff \xff"]
)
def test_an_invalid_line_is_unfit(value: bytes) -> None:
    with pytest.raises(Unfit, match="outbox"):
        row_of(OutboxItem(ULID, value), a_kept())


@pytest.mark.parametrize(
    "changes",
    [
        {b"state": b"RUNNING"},
        {b"state": b"CANCELLED"},
        {b"state": b"\xff"},
        {b"more": b'{"life":2}'},
        {b"more": b"[]"},
        {b"finished": b"soon"},
        {b"holder": b"?"},
    ],
)
def test_a_task_in_another_state_is_unfit(changes: dict[bytes, bytes]) -> None:
    with pytest.raises(Unfit):
        row_of(LINE, a_kept(changes))


def test_an_expired_task_is_unfit() -> None:
    with pytest.raises(Unfit, match=r"^the data of the task is missing or unreadable$"):
        row_of(LINE, EndedTask(()))


def test_a_row_has_the_cost_of_its_own_life() -> None:
    notes = [b"micro_usd", b"700", b"before", b"200", b"tokens_in", b"3", b"model", b"m\t1"]

    found = columns(a_kept({b"flags": b"n"}, notes=notes))

    assert (found["cost_micro_usd"], found["tokens_input"], found["model"]) == ("500", "3", r"m\t1")


@pytest.mark.parametrize("nul", [rb"\u0000", rb"\\\u0000", rb"\\u0000\u0000"])
def test_json_that_postgres_cannot_store_is_stored_as_bytes(nul: bytes) -> None:
    definition = b'{"t":"send","p":"a%b","tags":["a"],"priority":77.0}' % nul

    found = columns(a_kept(definition=definition, result=b'"%b"' % nul))

    assert (found["is_spec"], found["is_output"]) == ("f", "f")
    assert bytes.fromhex(found["definition"][3:]) == definition
    assert (found["type"], found["tags"], found["priority"]) == ("send", '{"a"}', "77.0")


@pytest.mark.parametrize("text", [rb"\\u0000", rb"C:\\\\u0000", rb"\n\\u0000", rb"\\u00000"])
def test_an_escaped_backslash_before_u0000_is_not_a_nul(text: bytes) -> None:
    definition = b'{"t":"send","p":"%b","tags":["a"],"agent_name":"Ag"}' % text

    found = columns(a_kept(definition=definition, result=b'{"%b":1}' % text))

    assert (found["is_spec"], found["is_output"]) == ("t", "t")
    assert (found["tags"], found["agent_name"]) == ('{"a"}', "Ag")


def test_the_fast_path_accepts_an_escaped_backslash_before_u0000() -> None:
    plain = a_plain(definition=rb'{"t":"x","p":"\\u0000"}', result=rb'"\\u0000"')

    quick = quick_row(LINE, plain)

    assert quick is not None
    assert quick.line() == row_of(LINE, plain.unpacked()).line()


@pytest.mark.parametrize(("unique", "expected"), [(b"until_done", "cafe"), (b"until_start", NULL)])
def test_a_row_has_its_idempotency_key_unless_it_was_free_at_the_start(
    unique: bytes, expected: str
) -> None:
    more = b'{"idem":"cafe","ext":"beef","unique":"%b"}' % unique

    found = columns(a_kept({b"flags": b"m", b"more": more}))

    assert (found["idempotency_sha"], found["external_sha"]) == (expected, "beef")


def test_two_ends_that_differ_have_different_digests() -> None:
    same = columns(a_kept())["digest"]

    others = [
        columns(a_kept(result=b"1"))["digest"],
        columns(a_kept(definition=b'{"t":"send"}'))["digest"],
        columns(a_kept({b"finished": b"1794962239619"}))["digest"],
    ]
    assert len({same, *others}) == 4


def test_a_discarded_task_has_the_digest_of_its_death() -> None:
    dead = a_kept({b"state": b"DEAD_LETTERED"}, result=b"")
    gone = a_kept({b"state": b"CANCELLED", b"discarded": b"1794962239700"}, result=b"")

    one = columns(dead, OutboxItem(ULID, b"1 DEAD_LETTERED"))
    two = columns(gone, OutboxItem(ULID, b"1 CANCELLED"))

    assert one["digest"] == two["digest"]
    assert two["discarded_ms"] == "1794962239700"


def test_invalid_utf8_is_restored_from_a_record() -> None:
    kept = a_kept({b"why": b"\xff\0"}, failures=[b"\xfe"])
    fields = {b"why".decode(): b"\xff\0".decode(errors="surrogateescape")}

    record = json.loads(record_of(kept, fields))
    whole = json.loads(quarantine_data(kept, ULID))

    assert record["task"]["why"].encode(errors="surrogateescape") == b"\xff\0"
    assert record["failures"][0].encode(errors="surrogateescape") == b"\xfe"
    assert whole["definition"].encode() == DEFINITION
