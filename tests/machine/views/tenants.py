"""Views of limits and tenants, of the server and of the model."""

from __future__ import annotations

from typing import Any

from tests.machine.server_shard import Dump
from tests.reference.model import Model
from tests.reference.turns import by_tenant

NOW = "@now"
Keyed = dict[int, dict[str, list[str]]]


def server_tenants(dump: Dump) -> dict[str, Any]:
    """The tenants of the server. One whose time has come counts as open: the next check reopens it,
    but a new plain task that is delivered to a waiting claim does not.
    """
    content = dump.content
    keyed: Keyed = {}
    for name, found in dump.named("keyed:").items():
        lane, _, key = name.partition(":")
        keyed.setdefault(int(lane), {})[key] = list(found)
    turn_clock = {key: float(at) for key, at in content.get("turned", {}).items()}
    view = {
        "keyed": keyed,
        "turns": with_due(numbers(dump.named("turns:")), dump, keyed, turn_clock),
        "turn_clock": further(turn_clock),
        "shut": later(numbers(dump.named("shut:")), dump.now_ms),
        "hand": {
            key: {t: int(n) for t, n in got.items()} for key, got in dump.named("hand:").items()
        },
        "full": content.get("full", set()),
        "crowded": content.get("crowded", set()),
        "begun": {
            what: {int(slot): int(number) for slot, number in slots.items()}
            for what, slots in dump.named("limit:").items()
        },
    }
    check_heads(dump, keyed)
    return view


def further(turn_clock: dict[str, float]) -> dict[str, float]:
    """The progress of all turns, if there is any, and of the tenants that are further."""
    return {
        key: at
        for key, at in turn_clock.items()
        if at > turn_clock.get(NOW, 0) or (key == NOW and at)
    }


def later(shut: dict[int, dict[str, float]], now_ms: int) -> dict[int, dict[str, float]]:
    """The closed tenants whose time has not come."""
    found = {n: {k: at for k, at in keys.items() if at > now_ms} for n, keys in shut.items()}
    return {n: keys for n, keys in found.items() if keys}


def with_due(
    turns: dict[int, dict[str, float]],
    dump: Dump,
    keyed: Keyed,
    turn_clock: dict[str, float],
) -> dict[int, dict[str, float]]:
    """The turns of a lane, with the tenants whose time has come."""
    for lane, shut in numbers(dump.named("shut:")).items():
        for key in (key for key, at in shut.items() if at <= dump.now_ms):
            if key in keyed.get(lane, {}):
                begins = max(turn_clock.get(NOW, 0.0), turn_clock.get(key, 0.0))
                turns.setdefault(lane, {})[key] = begins
    return turns


def numbers(zsets: dict[str, dict[str, str]]) -> dict[int, dict[str, float]]:
    """Sorted sets by lane."""
    return {
        int(lane): {member: float(score) for member, score in found.items()}
        for lane, found in zsets.items()
    }


def check_heads(dump: Dump, keyed: Keyed) -> None:
    """The first task of every tenant that may get a turn is a head of the lane, that of a closed
    tenant is not, and all heads may be claimed.
    """
    heads = {int(lane): set(found) for lane, found in dump.named("heads:").items()}
    for lane, found in heads.items():
        assert found <= set(dump.content.get(f"lane:{lane}", {})), f"heads of {lane}: {found}"
    for name, keys in dump.named("turns:").items():
        firsts = {keyed.get(int(name), {}).get(key, ["?"])[0] for key in keys}
        assert firsts <= heads.get(int(name), set()), f"{firsts} are not among the heads"
    for name, keys in dump.named("shut:").items():
        firsts = {keyed.get(int(name), {}).get(key, ["?"])[0] for key in keys}
        assert not firsts & heads.get(int(name), set()), f"{firsts} are among the heads"


def model_tenants(model: Model) -> dict[str, Any]:
    """The same of the model, where most of it follows from the states of its tasks."""
    ready = {n: by_tenant(model, n) for lane, n in model.lanes.items() if lane.keyed}
    keyed = {n: {k: [r.id for r in own] for k, own in keys.items()} for n, keys in ready.items()}
    turns = {n: dict(line.turns) for n, line in model.lane_turns.items()}
    for number, line in model.lane_turns.items():
        due = (key for key, at in line.closed.items() if at <= model.now_ms)
        begin = {key: model.turn_clock.begins(key) for key in due if key in ready[number]}
        turns[number] |= begin
    hand: dict[str, dict[str, int]] = {}
    for record in model.leased():
        if record.tenant:
            hand.setdefault(record.tenant, {})[record.id] = record.lane
    return {
        "keyed": {n: keys for n, keys in keyed.items() if keys},
        "turns": {n: keys for n, keys in turns.items() if keys},
        "turn_clock": further({NOW: float(model.turn_clock.now), **model.turn_clock.tenants}),
        "shut": later({n: dict(line.closed) for n, line in model.lane_turns.items()}, model.now_ms),
        "hand": hand,
        "full": set(model.full_gates.tenants),
        "crowded": set(model.full_gates.types),
        "begun": {what: dict(slots) for what, slots in model.begun.items() if slots},
    }
