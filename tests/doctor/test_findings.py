"""The findings of a check, from its facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rqueue.doctor import (
    Memory,
    Persistence,
    QueueFacts,
    ServerFacts,
    SinkFacts,
    eviction,
    functions,
    judge_queue,
    judge_server,
    permissions,
    persistence,
    skew,
    version,
)
from rqueue.finding import Finding, Level

GOOD = ServerFacts(
    name="redis",
    version=(7, 0),
    memory=Memory("noeviction"),
    persistence=Persistence(log=True, snapshots=True),
    functions=3,
    refused=(),
)


def test_a_replica_is_reported() -> None:
    found = {finding.what: finding for finding in judge_server(replace(GOOD, replica=True))}

    assert found["role"].level is Level.FAIL
    assert "primary" in found["role"].advice


def test_a_healthy_server_has_only_ok_findings() -> None:
    found = judge_server(GOOD)

    assert {finding.level for finding in found} == {Level.OK}
    assert {finding.advice for finding in found} == {""}


def test_every_finding_that_is_not_ok_has_an_advice() -> None:
    bad = ServerFacts(skew_ms=-5000, missing="none")
    found = judge_server(bad) + judge_queue(QueueFacts("q", None, 10**6, frozenset({"queue"})))

    assert len(found) == 8
    assert Level.OK not in {finding.level for finding in found}
    assert all(finding.advice for finding in found)


@pytest.mark.parametrize(
    ("name", "number", "level"),
    [
        ("redis", (6, 2), Level.FAIL),
        ("redis", (7, 0), Level.OK),
        ("redis", (8, 4), Level.OK),
        ("valkey", (7, 2), Level.OK),
        ("valkey", (9, 1), Level.OK),
    ],
)
def test_the_version_is_new_enough(name: str, number: tuple[int, int], level: Level) -> None:
    assert version(ServerFacts(name=name, version=number)).level is level


@pytest.mark.parametrize(("cluster_url", "level"), [(False, Level.FAIL), (True, Level.OK)])
def test_a_cluster_needs_its_url(cluster_url: bool, level: Level) -> None:
    facts = ServerFacts(name="redis", version=(7, 0), in_cluster=True, cluster_url=cluster_url)

    assert version(facts).level is level


@pytest.mark.parametrize(
    ("memory", "level"),
    [
        (None, Level.WARN),
        (Memory("allkeys-lru"), Level.FAIL),
        (Memory("volatile-ttl", 1, 100), Level.FAIL),
        (Memory("noeviction", 81, 100), Level.WARN),
        (Memory("noeviction", 80, 100), Level.OK),
        (Memory("noeviction", 10**12, 0), Level.OK),
    ],
)
def test_a_full_server_must_refuse_writes_and_not_evict(
    memory: Memory | None, level: Level
) -> None:
    assert eviction(memory).level is level


@pytest.mark.parametrize(
    ("kept", "level", "word"),
    [
        (None, Level.WARN, "may not read"),
        (Persistence(log=True, snapshots=False), Level.OK, "appendonly"),
        (Persistence(log=False, snapshots=True), Level.WARN, "snapshots"),
        (Persistence(log=False, snapshots=None), Level.WARN, "snapshots"),
        (Persistence(log=False, snapshots=False), Level.WARN, "every task"),
        (Persistence(log=True, snapshots=True, healthy=False), Level.FAIL, "failed"),
    ],
)
def test_missing_persistence_is_reported(kept: Persistence | None, level: Level, word: str) -> None:
    finding = persistence(kept)

    assert finding.level is level
    assert word in finding.found


@pytest.mark.parametrize(
    ("skew_ms", "level", "found"),
    [
        (0, Level.OK, "0 ms ahead"),
        (1000, Level.OK, "1000 ms ahead"),
        (1001, Level.WARN, "1001 ms ahead"),
        (-1001, Level.WARN, "1001 ms behind"),
    ],
)
def test_clocks_may_differ_by_a_second(skew_ms: int, level: Level, found: str) -> None:
    assert skew(skew_ms).level is level
    assert skew(skew_ms).found.endswith(found)


def test_functions_that_are_missing_name_the_command_that_loads_them() -> None:
    finding = functions(ServerFacts(missing="not there"))

    assert (finding.level, finding.found) == (Level.FAIL, "not there")
    assert finding.advice == "rqueue functions load"


@pytest.mark.parametrize(
    ("refused", "advice"),
    [(("XADD", "XGROUP|CREATE"), "+xadd +xgroup|create"), (None, "+fcall +fcall_ro")],
)
def test_a_missing_permission_is_spelled_for_the_acl(
    refused: tuple[str, ...] | None, advice: str
) -> None:
    finding = permissions(refused)

    assert finding.level is Level.FAIL
    assert advice in finding.advice


@pytest.mark.parametrize(
    ("facts", "levels"),
    [
        (QueueFacts("q", "s1"), [Level.OK, Level.OK]),
        (QueueFacts("q", "s1", 60_000), [Level.OK, Level.OK]),
        (QueueFacts("q", "s1", 60_001), [Level.OK, Level.WARN]),
        (QueueFacts("q"), [Level.FAIL, Level.OK]),
        (QueueFacts("q", "s1", 5, frozenset({"queue"})), [Level.OK, Level.OK, Level.WARN]),
    ],
)
def test_a_queue_needs_a_leader_and_workers(facts: QueueFacts, levels: list[Level]) -> None:
    found: list[Finding] = judge_queue(facts)

    assert [finding.level for finding in found] == levels


@pytest.mark.parametrize(
    ("sink", "level", "found"),
    [
        (SinkFacts("ops", 30_000), Level.OK, "all notices delivered"),
        (SinkFacts("ops", 30_000, 60_000), Level.OK, "all notices delivered"),
        (SinkFacts("ops", 30_000, 61_000), Level.WARN, "the oldest undelivered notice is 61 s old"),
        (SinkFacts("ops", 121_000, 10**9), Level.WARN, "no notifier has served it for 121 s"),
    ],
)
def test_a_sink_needs_a_notifier_and_timely_delivery(
    sink: SinkFacts, level: Level, found: str
) -> None:
    *_, finding = judge_queue(QueueFacts("q", "s1", sinks=(sink,)))

    assert (finding.level, finding.found) == (level, found)
    assert finding.what == "queue q: sink ops"
    assert bool(finding.advice) is (level is Level.WARN)


def test_unserved_tasks_have_a_line_per_requirement_up_to_a_maximum() -> None:
    facts = QueueFacts("work", leader="s1", unserved={f"type t{at:02}": at for at in range(1, 13)})

    lines = [line for line in judge_queue(facts) if line.what.endswith("unserved")]

    assert [line.level for line in lines] == [Level.WARN] * 11
    assert lines[0].found == "12 ready tasks that no live worker can run: type t12"
    assert lines[-1].found == "and 2 more kinds of task"


def test_a_single_unserved_task_is_reported_in_the_singular() -> None:
    facts = QueueFacts("work", leader="s1", unserved={f"type t{at:02}": 1 for at in range(11)})

    lines = [line.found for line in judge_queue(facts) if line.what.endswith("unserved")]

    assert lines[0] == "1 ready task that no live worker can run: type t00"
    assert lines[-1] == "and 1 more kind of task"
