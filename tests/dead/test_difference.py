"""The difference of two payloads: steps that change one into the other, and back."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rqueue.dead.decide import bounded, difference

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False)
    | st.text(max_size=4),
    lambda below: (
        st.lists(below, max_size=4)
        | st.dictionaries(st.text("ab/~", max_size=2), below, max_size=4)
    ),
    max_leaves=12,
)


def applied(value: Any, steps: list[dict[str, Any]]) -> Any:
    """Returns a value after the steps, applied as in RFC 6902."""
    whole = {"": copy.deepcopy(value)}
    for step in steps:
        names = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")]
        at: Any = whole
        for name in names[:-1]:
            at = at[int(name)] if isinstance(at, list) else at[name]
        last = names[-1]
        if isinstance(at, list):
            place = int(last)
            if step["op"] == "add":
                at.insert(place, step["value"])
            elif step["op"] == "remove":
                at.pop(place)
            else:
                at[place] = step["value"]
        elif step["op"] == "remove":
            del at[last]
        else:
            at[last] = step["value"]
    return whole[""]


@given(VALUES, VALUES)
def test_the_steps_change_one_value_into_the_other(before: Any, after: Any) -> None:
    found = applied(before, difference(before, after))

    assert json.dumps(found, sort_keys=True) == json.dumps(after, sort_keys=True)


@given(VALUES)
def test_equal_values_have_no_steps(value: Any) -> None:
    assert difference(value, copy.deepcopy(value)) == []


@given(VALUES, VALUES)
def test_steps_contain_the_old_values(before: Any, after: Any) -> None:
    for step in difference(before, after):
        assert ("was" in step) is (step["op"] != "add")
        assert ("value" in step) is (step["op"] != "remove")


@pytest.mark.parametrize(
    ("before", "after", "steps"),
    [
        (1, 2, [{"op": "replace", "path": "", "value": 2, "was": 1}]),
        (1, True, [{"op": "replace", "path": "", "value": True, "was": 1}]),
        (1, 1.0, [{"op": "replace", "path": "", "value": 1.0, "was": 1}]),
        ({"a": 1}, {"a": None}, [{"op": "replace", "path": "/a", "value": None, "was": 1}]),
        ({"a/b": 1}, {}, [{"op": "remove", "path": "/a~1b", "was": 1}]),
        ([1, 2, 3], [1], [{"op": "remove", "path": "/2", "was": 3},
                          {"op": "remove", "path": "/1", "was": 2}]),
        ([], [[]], [{"op": "add", "path": "/0", "value": []}]),
    ],
)  # fmt: skip
def test_steps_are_small(before: Any, after: Any, steps: list[dict[str, Any]]) -> None:
    assert difference(before, after) == steps


def test_a_short_difference_is_stored_completely() -> None:
    found = difference({"a": 1}, {"a": 2})

    assert bounded(found, 16_384) == found


def test_long_values_are_replaced_by_their_hash() -> None:
    found = bounded(difference({"a": "x" * 50_000, "b": 1}, {"a": "y", "b": 2}), 16_384)

    assert found[0]["was"].keys() == {"sha256", "bytes"}
    assert (found[0]["value"], found[1]["was"]) == ("y", 1)


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(60, 400), st.integers(1000, 20_000))
def test_a_long_difference_is_cut_and_counts_the_other_steps(
    number: int, width: int, most: int
) -> None:
    whole = difference({}, {f"{n}" * (width // 4): "v" * width for n in range(number)})

    found = bounded(whole, most)

    assert len(json.dumps(found, separators=(",", ":"))) <= most
    more = found[-1].get("more", 0)
    assert len(found) - bool(more) + more == len(whole)
