"""Findings about an archive and its outbox."""

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
def test_an_outbox_is_judged_by_its_age_and_its_limit(
    facts: OutboxFacts, level: Level, words: str
) -> None:
    finding = judge_outbox(facts)

    assert (finding.level, finding.what) == (level, "queue q: outbox")
    assert words in finding.found
    assert bool(finding.advice) == (level is not Level.OK)


def test_a_missing_archive_setting_is_a_failure() -> None:
    (finding,) = judge_configuration("q", configured=False, joined=True)

    assert (finding.level, finding.what) == (Level.FAIL, "queue q: archive")
    assert "RQUEUE_POSTGRES_URL" in finding.advice
    assert "rqueue archive leave" in finding.advice


@pytest.mark.parametrize(("configured", "joined"), [(True, True), (True, False), (False, False)])
def test_a_consistent_configuration_has_no_finding(configured: bool, joined: bool) -> None:
    assert judge_configuration("q", configured=configured, joined=joined) == []


def test_an_unavailable_archive_is_a_failure() -> None:
    (finding,) = judge_archive(ArchiveFacts("q", fault="it is gone"))

    assert (finding.level, finding.found) == (Level.FAIL, "it is gone")


def test_missing_tables_name_the_migrate_command() -> None:
    (finding,) = judge_archive(ArchiveFacts("q", "PostgreSQL 15.3", missing=2))

    assert finding.level is Level.FAIL
    assert "rqueue archive migrate" in finding.advice


def test_quarantined_items_and_conflicts_are_warnings() -> None:
    found = judge_archive(ArchiveFacts("q", "PostgreSQL 15.3", quarantined=2, conflicts=1))

    assert [finding.level for finding in found] == [Level.OK, Level.WARN, Level.WARN]
    assert "2 items could not be stored as rows" in found[1].found
    assert "first end is kept" in found[2].found
