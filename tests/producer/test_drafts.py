"""Drafts: a call without options takes a shorter way to the same draft."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rqueue.clock import SYSTEM
from rqueue.core.submit import Draft
from rqueue.errors import InvalidTask
from rqueue.producer.drafts import Drafter
from rqueue.settings.load import Settings
from rqueue.task.spec import Call

TEXT = st.text(st.characters(codec=None), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
# Around the smallest limit of bytes.
LONG = st.integers(1015, 1030).map(lambda size: "x" * size)
# Also what is no JSON: both ways refuse it.
PAYLOADS = LONG | st.recursive(
    SCALARS | st.binary(max_size=4) | st.integers(2**63 - 2, 2**64),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(TEXT | st.integers(), inner, max_size=4)
    ),
    max_leaves=8,
)
NAMES = st.from_regex(r"[a-z][a-z0-9._-]{0,12}", fullmatch=True)
# At most one thing is wrong: of several, each way may name another.
CALLS = st.builds(Call, NAMES, PAYLOADS) | st.builds(Call, TEXT, NAMES)


def result(draft: Any) -> Draft | str:
    """The draft, or the text of the refusal."""
    try:
        found: Draft = draft()
    except InvalidTask as error:
        return str(error)
    return found


@given(
    call=CALLS,
    by=st.none() | NAMES,
    rate=st.floats(0, 100),
    max_bytes=st.sampled_from([1024, 262_144]),
)
def test_the_fast_path_of_a_plain_call_makes_the_draft_of_its_spec(
    call: Call, by: str | None, rate: float, max_bytes: int
) -> None:
    settings = Settings(
        name="sales", url="redis://x", priority_boost_per_minute=rate, max_payload_bytes=max_bytes
    )
    drafter = Drafter(settings, SYSTEM, by=by)

    short = result(lambda: drafter.plain_draft(call))

    assert short == result(lambda: drafter.of_spec(drafter.spec({"payload": {}, **call.fields()})))
