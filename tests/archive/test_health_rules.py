"""Whether an archive keeps up."""

from __future__ import annotations

import pytest

from rqueue.archive.health import (
    ArchiveFacts,
    OutboxFacts,
    judge_archive,
    judge_configuration,
    judge_outbox,
)
from rqueue.finding import Level


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        (OutboxFacts("q"), Level.OK, "no task waits"),
        (
            OutboxFacts("q", 3, 1500),
            Level.OK,
            "3 ended tasks wait for the archive, the oldest for 1.5 s",
        ),
        (OutboxFacts("q", 3, 60_001), Level.WARN, "for 60.0 s"),
        (OutboxFacts("q", 5, 10, most=5), Level.FAIL, "refused (max_outbox)"),
        (OutboxFacts("q", 4, 10, most=5), Level.OK, "4 ended tasks wait"),
    ],
)
def test_an_outbox_is_judged_by_its_age_and_its_bound(
    facts: OutboxFacts, level: Level, words: str
) -> None:
    finding = judge_outbox(facts)

    assert (finding.level, finding.what) == (level, "queue q: outbox")
    assert words in finding.found
    assert bool(finding.advice) == (level is not Level.OK)


def test_who_does_not_know_of_the_archive_that_there_is_must_be_told() -> None:
    (finding,) = judge_configuration("q", configured=False, joined=True)

    assert (finding.level, finding.what) == (Level.FAIL, "queue q: archive")
    assert "RQUEUE_POSTGRES_URL" in finding.advice
    assert "rqueue archive leave" in finding.advice


@pytest.mark.parametrize(("configured", "joined"), [(True, True), (True, False), (False, False)])
def test_where_all_say_the_same_there_is_nothing_to_say(configured: bool, joined: bool) -> None:
    assert judge_configuration("q", configured=configured, joined=joined) == []


def test_an_archive_that_is_away_is_a_failure() -> None:
    (finding,) = judge_archive(ArchiveFacts("q", fault="it is gone"))

    assert (finding.level, finding.found) == (Level.FAIL, "it is gone")


def test_missing_tables_say_how_to_make_them() -> None:
    (finding,) = judge_archive(ArchiveFacts("q", "PostgreSQL 15.3", missing=2))

    assert finding.level is Level.FAIL
    assert "rqueue archive migrate" in finding.advice


def test_what_was_set_aside_is_told() -> None:
    found = judge_archive(ArchiveFacts("q", "PostgreSQL 15.3", quarantined=2, conflicts=1))

    assert [finding.level for finding in found] == [Level.OK, Level.WARN, Level.WARN]
    assert "2 could not be stored as rows" in found[1].found
    assert "first end is kept" in found[2].found
