"""JSON: what is accepted, what is refused, and the path in the error."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqueue.errors import InvalidTask
from rqueue.task.codec import MAX_INT, content_key, decode, encode
from rqueue.task.ids import new_task_id

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_INT - 1, MAX_INT)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JSON = st.recursive(SCALAR, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner))


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@given(JSON)
def test_a_json_value_is_encoded_and_decoded_unchanged(value: object) -> None:
    data = encode(value, max_bytes=1 << 30)

    assert json.loads(data) == value
    assert decode(data) == value


@given(JSON)
def test_json_of_other_encoders_is_decoded(value: object) -> None:
    data = json.dumps(value, indent=1).encode()

    assert decode(data) == value


@given(st.binary(max_size=40) | st.text('[]{}:,"\\u0e1.-NaInfity \n', max_size=30))
def test_arbitrary_bytes_are_decoded_strictly_or_refused(data: bytes | str) -> None:
    given_bytes = data if isinstance(data, bytes) else data.encode()

    try:
        value = decode(given_bytes)
    except InvalidTask:
        return

    assert decode(encode(value)) == value


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [0, 0, 0, {"b": float("nan")}]}, "payload.a[3].b"),
        ({"a": float("inf")}, "payload.a"),
        ([-float("inf")], "payload[0]"),
        ({"a": MAX_INT + 1}, "payload.a"),
        ({"a": -MAX_INT - 2}, "payload.a"),
        ({"a": 10**5000}, "payload.a"),
        ({"a": "\ud800"}, "payload.a"),
        ({"\udfff": 1}, "payload['\\udfff']"),
        ({"a": "x\0y"}, "payload.a"),
        ({"x\0": 1}, "payload['x\\x00']"),
        ({1: 2}, "payload"),
        ({"a": {None: 2}}, "payload.a"),
        ({"a": {True: 2}}, "payload.a"),
        ({"a b": {1, 2}}, "payload['a b']"),
        ({"a": b"bytes"}, "payload.a"),
        ({"a": datetime(2026, 1, 1, tzinfo=UTC)}, "payload.a"),
        ({"a": Decimal(1)}, "payload.a"),
        ({"a": object()}, "payload.a"),
        (1j, "payload"),
        (nested(65), "payload" + "[0]" * 64),
    ],
)
def test_a_value_that_is_not_json_is_refused_with_its_path(value: object, path: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        encode(value)

    assert refused.value.field == path


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.extend([loop, loop])

    with pytest.raises(InvalidTask, match="too deeply"):
        encode(loop)


def test_64_levels_and_the_limits_of_64_bits_are_accepted() -> None:
    value = [nested(63), MAX_INT, -MAX_INT - 1]

    assert decode(encode(value)) == value


def test_subclasses_of_plain_types_are_encoded_as_their_values() -> None:
    task = new_task_id()

    data = encode({"task": task, "colour": Colour.RED, "level": Level.HIGH, "pair": (1, 2)})

    expected = {"task": str(task), "colour": "red", "level": 3, "pair": [1, 2]}
    assert json.loads(data) == expected


def test_an_escaped_backslash_before_u0000_is_not_a_nul() -> None:
    assert decode(encode("\\u0000")) == "\\u0000"


def test_the_size_limit_counts_bytes_of_json_and_can_be_set() -> None:
    assert len(encode("x" * (256 * 1024 - 2))) == 256 * 1024
    with pytest.raises(InvalidTask, match="262145 bytes"):
        encode("x" * (256 * 1024 - 1))
    with pytest.raises(InvalidTask, match="allowed"):
        encode("ü" * 5, max_bytes=10)
    with pytest.raises(InvalidTask, match="allowed"):
        decode(b"[1,2,3]", max_bytes=6)


def test_an_error_names_the_field_that_the_caller_gave() -> None:
    with pytest.raises(InvalidTask) as refused:
        encode({"a": float("nan")}, field="result")

    assert refused.value.field == "result.a"


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b'{"a":NaN}', "NaN"),
        (b"[Infinity]", "Infinity"),
        (b"[-Infinity]", "-Infinity"),
        (b"[1e400]", "infinite"),
        (b"9" * 5000, "64 bits"),
        (b"-" + b"9" * 300_000, "64 bits"),
        (b"9223372036854775808", "64 bits"),
        (b"[" * 65 + b"]" * 65, "deeply"),
        (b"[" * 900 + b"]" * 900, "deeply"),
        (b"[" * 100_000 + b"]" * 100_000, "deeply"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\udc00":1}', "surrogate"),
        (b'"\\u0000"', "NUL"),
        (b'{"\\u0000":1}', "NUL"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        ("{}".encode("utf-16"), "not UTF-8"),
        ("{}".encode("utf-16-le"), "not JSON"),
        (b'"\xff"', "not UTF-8"),
        (b'{"a":1,"a":2}', "twice"),
        (b'[{"a":{"b":1,"b":1}}]', "twice"),
        (b"", "not JSON"),
        (b"{} {}", "not JSON"),
        (b"{'a':1}", "not JSON"),
        (b'"a\nb"', "not JSON"),
    ],
)
def test_invalid_json_is_refused_with_the_rule(data: bytes, rule: str) -> None:
    with pytest.raises(InvalidTask, match=rule):
        decode(data)


def test_the_content_key_does_not_depend_on_the_order_of_keys() -> None:
    one, other = {"a": 1, "b": [1, {"x": 1, "y": 2}]}, {"b": [1, {"y": 2, "x": 1}], "a": 1}

    assert content_key("q", "t", one) == content_key("q", "t", other)
    assert content_key("q", "t", one) != content_key("q", "u", one)
    assert content_key("a", "b") != content_key("ab", "")
    assert len(content_key()) == 64


def test_the_content_key_is_the_same_in_every_process() -> None:
    expected = "62cf53b974dc9c3a7da93bcc5c781aaa76cdb02680437cfe22d16d2fbb3d1a7d"

    assert content_key({"a": "ü"}) == expected
