"""A worker's registration, written and read back."""

from __future__ import annotations

import json

import pytest

from rqueue.core.workers import Registration

SAID = Registration(
    types=("code",),
    capabilities=("eu", "gpu"),
    agents=("ada",),
    models_available=("large",),
    max_concurrent_tasks=2,
    poll_interval_sec=5.0,
    claim_ttl_sec=60.0,
    draining=True,
)


@pytest.mark.parametrize("said", [SAID, Registration()])
def test_it_is_read_as_it_was_written(said: Registration) -> None:
    assert Registration.parse(said.text()) == said


def test_fields_of_a_newer_release_are_ignored() -> None:
    text = json.dumps({**json.loads(SAID.text()), "mood": "good"})

    assert Registration.parse(text) == SAID


@pytest.mark.parametrize(
    "text", ["", "{", "17", "null", '"text"', '{"types": 17}', '{"types": [[]]}']
)
def test_what_cannot_be_read_is_nothing(text: str) -> None:
    assert Registration.parse(text) is None
