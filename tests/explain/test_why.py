"""The earliest start of a task by its holds, and the sentence of each hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rqueue.explain.why import SENTENCES, Hold, earliest, sentence_of

NOW = datetime(2026, 2, 8, 9, 0, tzinfo=UTC)


def later(minutes: int) -> datetime:
    return NOW + timedelta(minutes=minutes)


def test_without_holds_a_task_may_start_now() -> None:
    assert earliest([], NOW) == NOW


def test_the_earliest_start_is_the_end_of_the_last_hold() -> None:
    assert earliest([Hold("time", "", later(2)), Hold("breaker", "open", later(9))], NOW) == later(
        9
    )


def test_a_hold_without_a_known_end_makes_the_earliest_start_unknown() -> None:
    assert earliest([Hold("time", "", later(2)), Hold("paused", "queue")], NOW) is None


@pytest.mark.parametrize("word", SENTENCES)
def test_every_word_has_a_sentence(word: str) -> None:
    assert "thing" in sentence_of(Hold(word, "thing"))


@pytest.mark.parametrize(
    ("hold", "sentence"),
    [
        (Hold("limit", "*"), "the limit of the queue is reached"),
        (Hold("limit", "code"), "the limit of type code is reached"),
        (Hold("limit", "*@tenant-7"), "the limit of tenant tenant-7 is reached"),
        (Hold("limit", "code@tenant-7"), "the limit of tenant tenant-7 in type code is reached"),
        (
            Hold("slowed", "@tenant-7"),
            "its tenant tenant-7 is slowed down: a service limits the rate of requests",
        ),
        (Hold("paused", "type=code"), "type code is paused"),
        (Hold("time"), "waits for its start time"),
        (Hold("time", "error"), "waits for its start time: error"),
        (
            Hold("alone"),
            "is exclusive because its worker was lost: waits until a worker holds no other task",
        ),
        (
            Hold("alone", "w1"),
            "is exclusive because its worker was lost: waits until w1 holds no other task",
        ),
        (Hold("odd", "thing"), "odd thing"),
        (Hold("odd"), "odd"),
        # A colon at the end of a name belongs to it.
        (Hold("limit", "*@acme:"), "the limit of tenant acme: is reached"),
        (Hold("budget", "acme:"), "exceeds the remaining budget of acme:"),
        (Hold("worker", "w1:"), "is leased by w1:"),
    ],
)
def test_a_hold_is_described_by_a_sentence(hold: Hold, sentence: str) -> None:
    assert sentence_of(hold) == sentence
