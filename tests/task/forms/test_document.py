"""Documents as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqueue.errors import InvalidTask
from rqueue.task.forms.document import MAX_DOCUMENT_BYTES, parse


@pytest.mark.parametrize(
    "text",
    ['{"type": "code", "payload": {"a": [1]}}', b"type: code\npayload:\n  a: [1]\n"],
)
def test_json_and_yaml_give_the_same_mapping(text: str | bytes) -> None:
    assert parse(text) == {"type": "code", "payload": {"a": [1]}}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "mapping"),
        ("just text", "mapping"),
        ("- a\n- b\n", "mapping"),
        ("1: a\n", "mapping"),
        ('{"a": 1, "a": 2}', "twice"),
        ("a: 1\na: 2\n", "twice"),
        ("a: {b: 1, b: 2}\n", "twice"),
        ("a: &x [1]\nb: *x\n", "aliases"),
        ("a: !!python/object/apply:os.system ['true']\n", "neither"),
        ("a: [\n", "neither"),
        ("a: !!int ''\n", "neither"),
        ("a: !!timestamp x\n", "neither"),
        ("a: " + "9" * 5000, "neither"),
        ("a: " + "[" * 5000, "deeply"),
        ("{" + '"a":{' * 100 + "}" * 101, "deeply"),
        ("{'a': 1}", "not JSON"),
        (b"a: \xff", "UTF-8"),
        ("a: \ud800", "UTF-8"),
        ("a: " + "x" * MAX_DOCUMENT_BYTES, "bytes"),
    ],
)
def test_a_text_that_is_not_a_mapping_is_refused(text: str | bytes, rule: str) -> None:
    with pytest.raises(InvalidTask, match=rule) as refused:
        parse(text)

    assert refused.value.field.startswith("document")


@given(st.text(max_size=60) | st.text("{}[]:,-&*!|>'\"#% \n\tabc01.~", max_size=60))
def test_arbitrary_bytes_give_a_mapping_or_invalid_task(text: str) -> None:
    try:
        found = parse(text)
    except InvalidTask:
        return

    assert isinstance(found, dict)
