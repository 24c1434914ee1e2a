"""Views of a shard, of the server and of the model, in one format."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from rqueue.task.lane import signature
from rqueue.task.state import LEASED, State
from tests.machine.server_shard import Dump, times
from tests.machine.views.budgets import model_budgets, model_price, server_budgets, server_price
from tests.machine.views.dags import dag_in, model_dags, model_edges, server_dags, server_edges
from tests.machine.views.tenants import model_tenants, server_tenants
from tests.reference.breakers import Breaker, Slowdown
from tests.reference.model import Model
from tests.reference.records import Record


@dataclass(slots=True)
class View:
    """What is compared after every step. Orders are exact where the server defines one."""

    tasks: dict[str, dict[str, Any]]
    lanes: dict[str, int]
    order: dict[int, list[str]]
    delayed: dict[str, int]
    blocked: set[str]
    dead: set[str]
    deadlines: dict[str, int]
    waits: dict[str, set[str]]
    dependents: dict[str, set[str]]
    end_dependents: dict[str, dict[str, str]]
    dags: dict[str, dict[str, str]]
    members: dict[str, list[str]]
    listed: dict[str, int]
    writing: dict[str, int]
    unfinished: dict[str, int]
    held: dict[str, set[str]]
    telling: set[str]
    spawned: dict[str, dict[str, str]]
    gathering: dict[str, set[str]]
    deliveries: dict[str, int]
    stream: Counter[str]
    pending: Counter[tuple[str, str]]
    keys: dict[str, tuple[str, bool]]
    names: dict[str, str]
    counters: dict[str, int]
    waiting: dict[str, int]
    memos: dict[str, tuple[int, str, str]]
    boxes: dict[str, list[str]]
    watchers: dict[str, set[str]]
    exclusive: dict[str, str]
    drained: set[str]
    paused: set[str]
    breakers: dict[str, dict[str, str]]
    slowed: dict[str, dict[str, str]]
    wakes: dict[str, int]
    accounts: dict[str, dict[str, str]]
    budgets: set[str]
    short: set[str]
    unpaid: dict[str, list[str]]
    keyed: dict[int, dict[str, list[str]]]
    turns: dict[int, dict[str, float]]
    turn_clock: dict[str, float]
    shut: dict[int, dict[str, float]]
    hand: dict[str, dict[str, int]]
    full: set[str]
    crowded: set[str]
    begun: dict[str, dict[int, int]]
    cancelling: dict[str, str]
    draining: dict[int, str]
    unblocking: set[str]
    orphans: set[str]
    outbox: list[list[tuple[str, str]]]
    reviews: list[dict[str, str]]

    def differences(self, other: View) -> list[str]:
        """The fields that differ, one line for each."""
        lane_turns = []
        for field in fields(self):
            here, there = getattr(self, field.name), getattr(other, field.name)
            if here != there:
                lane_turns.append(f"{field.name}: server {here!r}, model {there!r}")
        return lane_turns


def server_view(dump: Dump) -> View:
    """The view of a server's keys."""
    content = dump.content
    tasks = dump.named("task:")
    entries = {entry: found["task"] for entry, found in content.get("ready", [])}
    lanes = content.get("lanes", {})
    return View(
        tasks={task: server_task(dump, task, found) for task, found in tasks.items()},
        lanes={name: int(n) for name, n in lanes.items() if name not in ("next", "version")},
        order={int(number): list(found) for number, found in dump.named("lane:").items()},
        delayed=times(content.get("delayed", {})),
        blocked=set(content.get("blocked", {})),
        dead=set(content.get("dead", {})),
        deadlines=times(content.get("deadlines", {})),
        **server_edges(dump),
        **server_dags(dump),
        unfinished={step: int(at) for step, at in content.get("unfinished", {}).items()},
        telling=content.get("telling", set()),
        spawned=dump.named("spawned:"),
        gathering=dump.named("gather:"),
        deliveries=open_deliveries(content, times(content.get("handoffs", {}))),
        stream=Counter(entries.values()),
        pending=Counter((entries.get(entry, "?"), who) for entry, who in dump.pending),
        keys={
            sha: (task, f"idem:{sha}" in dump.expiring) for sha, task in dump.named("idem:").items()
        },
        names=dump.named("ext:"),
        counters={name: int(n) for name, n in content.get("stats", {}).items() if int(n) != 0},
        waiting={w: int(at) for zset in dump.named("waiting:").values() for w, at in zset.items()},
        memos={
            name: (int(memo["seq"]), memo["given"], memo["mailed"])
            for name, memo in dump.named("waiter:").items()
        },
        boxes={
            box: with_sorted_dags(map(first_line, ls)) for box, ls in dump.named("mail:").items()
        },
        watchers=dump.named("watchers:"),
        exclusive={
            worker: found["alone"]
            for worker, found in dump.named("worker:").items()
            if "alone" in found
        },
        drained={
            name.removeprefix("drain:")
            for found in dump.named("worker:").values()
            for name in found
            if name.startswith("drain:")
        },
        paused=content.get("paused", set()),
        breakers=server_breakers(dump),
        slowed=server_slowed(dump),
        wakes=times(content.get("wakes", {})),
        **server_budgets(dump),
        **server_tenants(dump),
        cancelling={n: rule.split(" ")[0] for n, rule in content.get("cancelling", {}).items()},
        draining={int(lane): kept for lane, kept in content.get("draining", {}).items()},
        unblocking=content.get("unblocking", set()),
        orphans=content.get("orphans", set()),
        outbox=[
            sorted((task, " ".join(line.split(" ")[:2])) for task, line in found.items())
            for _, found in content.get("outbox", [])
        ],
        reviews=[found for _, found in content.get("reviews", [])],
    )


def server_breakers(dump: Dump) -> dict[str, dict[str, str]]:
    """The breakers by type; each must be listed."""
    found = dump.named("breaker:")
    assert set(found) == dump.content.get("breakers", set()), "a breaker is not listed, or gone"
    for row in found.values():
        row.pop("request", None)
    return found


def model_breakers(model: Model) -> dict[str, dict[str, str]]:
    """The breakers by type, in the server's format."""
    return {type: breaker_row(breaker) for type, breaker in model.breakers.items()}


def breaker_row(breaker: Breaker) -> dict[str, str]:
    """A breaker in the server's format."""
    row: dict[str, str] = {}
    if breaker.failures:
        row |= {"failures": str(breaker.failures), "last_failure": str(breaker.last_failure_ms)}
    if breaker.state:
        row |= {
            "state": breaker.state,
            "opened": str(breaker.opened_ms),
            "until": str(breaker.until_ms),
        }
    if breaker.probe is not None:
        row["probe"] = " ".join(breaker.probe)
    return row


def server_slowed(dump: Dump) -> dict[str, dict[str, str]]:
    """The slow-downs; each must be listed."""
    found = dump.named("slow:")
    assert set(found) == dump.content.get("slowed", set()), "a slowed type is not listed, or gone"
    return found


def slow_row(slow: Slowdown) -> dict[str, str]:
    """A slow-down in the server's format."""
    row = {"until": str(slow.until_ms), "span": str(slow.span_ms)}
    return row | ({"step": str(slow.step), "passed": str(slow.passed)} if slow.passed else {})


def open_deliveries(content: dict[str, Any], found: dict[str, int]) -> dict[str, int]:
    """Deliveries of tasks that have not completed: a completion leaves its own to the
    next recall.
    """
    return {
        member: at
        for member, at in found.items()
        if content.get(f"task:{member.partition(':')[0]}", {}).get("state") != "COMPLETED"
    }


def first_line(mail: str) -> str:
    """The message of a mailbox line, without the task data behind it."""
    return mail.partition("\n")[0]


def server_task(dump: Dump, task: str, found: dict[str, str]) -> dict[str, Any]:
    """One task from its keys."""
    more = json.loads(found.get("more", "{}"))
    pieces = [found[name] for name in sorted(found) if name.startswith("def")]
    holder = found.get("holder", "0 0 ").split(" ")
    leased = found["state"] in LEASED
    token = found.get("token", "")
    return {
        "state": found["state"],
        "lane": int(found["lane"]),
        "tenant": found.get("key", ""),
        "score": int(found["score"]),
        "token": token,
        "epoch": int(token.split(":")[0] or 0),
        "holder": (int(holder[0]), int(holder[1]), holder[2]) if leased else None,
        "attempts": int(found.get("attempts", 0)),
        "reclaims": int(found.get("reclaims", 0)),
        "parks": int(found.get("parks", 0)),
        "failed_by": found.get("failed_by", ""),
        "poison": found.get("poison", ""),
        "resolution": found.get("resolution", ""),
        "reviewed": int(found.get("reviewed", 0)),
        "life": more.get("life", 1),
        "settled": found.get("settled", ""),
        "definition": "".join(pieces) or dump.content.get(f"def:{task}", ""),
        "result": dump.content.get(f"result:{task}", ""),
        "failures": dump.content.get(f"failures:{task}", []),
        "expires": f"task:{task}" in dump.expiring,
        "dag": dag_in(found.get("flags", "")),
        "rank": int(found.get("rank", 0)),
        "suspended": "suspended" in found and found["state"] == State.PENDING,
        "lost": "lost" in found,
        "fired": "fired" in found,
        **server_price(dump, task, found),
    }


def model_view(model: Model) -> View:
    """The view of the model, whose indexes follow from the states of its tasks."""
    tasks = model.tasks
    numbers = sorted({record.lane for record in model.ready()})
    return View(
        tasks={task: model_task(record) for task, record in tasks.items()},
        lanes={signature(lane): number for lane, number in model.lanes.items()},
        order={number: model.lane(number) for number in numbers},
        delayed=model.delayed(),
        blocked={record.id for record in model.among(State.PENDING)},
        dead={record.id for record in model.among(State.DEAD_LETTERED)},
        deadlines=dict(model.deadlines),
        **model_edges(model),
        **model_dags(model),
        unfinished=dict(model.unfinished),
        telling=set(model.telling),
        spawned={task: record.spawned for task, record in tasks.items() if record.spawned},
        gathering={t: record.gathering for t, record in tasks.items() if record.gathering},
        deliveries={f"{task}:{epoch}": due for (task, epoch), due in model.deliveries.items()},
        stream=Counter(record.id for record in model.among(State.READY, *LEASED)),
        pending=Counter((record.id, record.owner) for record in model.leased()),
        keys={sha: (key.task, key.until_ms is not None) for sha, key in model.keys.items()},
        names=dict(model.names),
        counters=model_counters(model),
        waiting={
            name: waiter.since_ms
            for name, waiter in model.waiters.items()
            if waiter.since_ms is not None
        },
        memos={
            name: (waiter.claim.seq, line(waiter.given), line(waiter.mailed))
            for name, waiter in model.waiters.items()
        },
        boxes={
            box: with_sorted_dags(lane_turns)
            for box, lane_turns in model.mailboxes.items()
            if lane_turns
        },
        watchers=dict(model.watchers),
        exclusive=dict(model.exclusive),
        drained=set(model.drained),
        paused=set(model.paused),
        breakers=model_breakers(model),
        slowed={type: slow_row(slow) for type, slow in model.slowed.items()},
        wakes=dict(model.wakes),
        **model_budgets(model),
        **model_tenants(model),
        cancelling={name: rule for name, (rule, _) in model.cancelling.items()},
        draining={lane: f"{until} {by}" for lane, (until, by) in model.draining.items()},
        unblocking=set(),
        orphans=set(),
        outbox=[
            sorted((task, f"{life} {state}") for task, life, state in entry)
            for entry in model.outbox
        ],
        reviews=list(model.reviews.values()),
    )


def line(leases: list[tuple[str, str]]) -> str:
    return " ".join(word for lease in leases for word in lease)


def model_counters(model: Model) -> dict[str, int]:
    """A recount: READY is the length of the lane; only tasks that are held back are counted."""
    found = {
        f"{lane}:{state}": number
        for (lane, state), number in model.counters().items()
        if state is not State.READY
    }
    found |= {f"{lane}:READY": number for lane, number in model.held().items()}
    found["submitted"] = model.submitted
    found["outbox"] = sum(len(entry) for entry in model.outbox)
    return {name: number for name, number in found.items() if number}


def model_task(record: Record) -> dict[str, Any]:
    """One task of the model, in the server's format."""
    holder = (record.claimed_ms, record.started_ms, record.owner)
    return {
        "state": record.state.value,
        "lane": record.lane,
        "tenant": record.tenant,
        "score": record.score,
        "token": record.token,
        "epoch": record.epoch,
        "holder": holder if record.leased else None,
        "attempts": record.attempts,
        "reclaims": record.reclaims,
        "parks": record.parks,
        "failed_by": record.failed_by,
        "poison": record.poison,
        "resolution": record.resolution,
        "reviewed": record.reviewed_ms,
        "life": record.life,
        "settled": record.settled,
        "definition": record.definition.decode(),
        "result": record.result.decode(),
        "failures": record.failures,
        "expires": record.expires_ms is not None,
        "dag": record.dag,
        "rank": record.rank,
        "suspended": record.suspended is not None and record.state is State.PENDING,
        "lost": bool(record.doomed),
        "fired": record.fired,
        **model_price(record),
    }


def with_sorted_dags(mail: Iterable[str]) -> list[str]:
    """The lines of a mailbox in order; the order of DAGs that end in one call is not defined."""
    lane_turns = list(mail)
    dags = sorted(line for line in lane_turns if line.startswith("ended dag_"))
    return [line for line in lane_turns if not line.startswith("ended dag_")] + dags
