"""Reading damaged definitions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqueue.task.spec import UNKNOWN, TaskSpec

UNREADABLE = [
    b"",
    b"{",
    b"\xff\xfe",
    b"[]",
    b"5",
    b"null",
    b"{}",
    b'{"t":"code","t":"code"}',
    b'{"t":"code","p":NaN}',
    b'{"t":"code","max_attempts":"many"}',
    b'{"t":"code","priority":null}',
    b'{"t":"code","retry":[]}',
    b'{"t":"code","retry":{"strategy":"fibonacci"}}',
    b'{"t":"code","validation":"by-hand"}',
    b'{"t":"code","delay_sec":1.0,"at":"2026-02-09T12:00:00Z"}',
    b'{"t":5}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("data", UNREADABLE)
def test_an_unreadable_definition_gives_a_replacement_and_the_reason(data: bytes) -> None:
    spec, reason = TaskSpec.salvage(data, "resize")

    assert (spec.type, spec.payload, spec.max_attempts) == ("resize", None, 3)
    assert reason


@given(st.binary())
def test_arbitrary_bytes_raise_no_error(data: bytes) -> None:
    spec, reason = TaskSpec.salvage(data)

    assert (spec.type, reason is None) == (UNKNOWN, False)


@given(
    st.dictionaries(
        st.sampled_from([*TaskSpec.model_fields, "t", "p", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=5,
        ),
    )
)
def test_arbitrary_objects_raise_no_error(fields: dict[str, object]) -> None:
    spec, _ = TaskSpec.salvage(json.dumps(fields).encode(), "resize")

    assert spec.definition(max_bytes=1 << 30)


@pytest.mark.parametrize(
    ("data", "known_as", "type"),
    [
        (b'{"t":"code","priority":"x"}', "resize", "resize"),
        (b'{"t":"code","priority":"x"}', None, "code"),
        (b'{"t":"code","priority":"x"}', "no name", "code"),
        (b'{"t":"no name"}', None, UNKNOWN),
        (b"{", None, UNKNOWN),
    ],
)
def test_the_type_is_the_stored_one_or_that_of_the_definition(
    data: bytes, known_as: str | None, type: str
) -> None:
    assert TaskSpec.salvage(data, known_as)[0].type == type


def test_the_reason_names_the_field_and_is_short() -> None:
    deep = b'{"t":"code","p":' + b'{"a":' * 70 + b"1" + b"}" * 71

    _, wrong = TaskSpec.salvage(b'{"t":"code","max_attempts":0}')
    _, nested = TaskSpec.salvage(deep)

    assert wrong == "max_attempts: should be greater than or equal to 1"
    assert nested is not None
    assert nested.startswith("definition")
    assert len(nested) <= 500


@pytest.mark.parametrize(
    "newer",
    [
        {"region": "eu"},
        {"retry": {"strategy": "fixed", "initial_delay_sec": 1.0, "ceiling": 5}},
        {"dedupe": "content", "dedupe_fields": ["type", "region"]},
        {"x": None, "": 1, "_body": "e30="},
    ],
)
def test_fields_of_a_newer_release_are_ignored(newer: dict[str, object]) -> None:
    data = json.dumps({"t": "code", "p": {"a": 1}, "max_attempts": 7, **newer}).encode()

    spec, reason = TaskSpec.salvage(data)

    assert reason is None
    assert (spec.type, spec.payload, spec.max_attempts) == ("code", {"a": 1}, 7)
    assert spec.retry is None or spec.retry.strategy == "fixed"
    assert spec.dedupe_fields in ((), ("type",))
