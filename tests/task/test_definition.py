"""The bytes of a definition."""

import pytest

from rqueue.errors import InvalidTask
from rqueue.task.definition import fields_of, plain
from rqueue.task.spec import TaskSpec

PAYLOAD = {"url": "https://example.com/a/b/c", "n": 12345, "list": [1, 2.5, None, True]}


def padded(size: int) -> dict[str, str]:
    return {"x": "y" * (size - len('{"x":""}'))}


@pytest.mark.parametrize("payload", [{}, PAYLOAD, [], "text", None, 0, {"ü": "\u2028"}])
def test_the_fast_path_writes_the_same_bytes_as_the_spec(payload: object) -> None:
    assert plain("noop", payload) == TaskSpec.of(type="noop", payload=payload).definition()


@pytest.mark.parametrize("payload", [{}, PAYLOAD, [], "text", None, 0])
def test_a_plain_definition_is_read_back(payload: object) -> None:
    fields = fields_of(plain("noop", payload))

    assert fields["type"] == "noop"
    assert fields.get("payload", {}) == payload


def test_a_plain_task_is_small() -> None:
    assert len(plain("noop", padded(100))) == 117
    assert plain("noop", {}) == b'{"t":"noop"}'


def test_a_payload_above_the_given_limit_is_refused() -> None:
    assert plain("noop", padded(10), max_bytes=10)
    with pytest.raises(InvalidTask) as refused:
        plain("noop", padded(11), max_bytes=10)

    assert refused.value.field == "payload"


@pytest.mark.parametrize("name", ["", "a b", "a\n", "-a", "a:b", "é", "a" * 129, '"', "{x}"])
def test_an_invalid_type_is_refused_each_time(name: str) -> None:
    for _ in range(2):
        with pytest.raises(InvalidTask) as refused:
            plain(name, {})

        assert refused.value.field == "type"


@pytest.mark.parametrize("data", [b"", b"[]", b"1", b'{"t":"a","t":"b"}', b'{"t":NaN}'])
def test_invalid_definitions_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidTask) as refused:
        fields_of(data)

    assert refused.value.field == "definition"


def test_the_deepest_payload_can_be_read_back() -> None:
    payload: object = 1
    for _ in range(64):
        payload = [payload]

    assert fields_of(plain("noop", payload))["payload"] == payload
