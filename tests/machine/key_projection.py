"""What can be seen of limits and lanes of keys, in one shape for the server and for the model."""

from __future__ import annotations

from typing import Any

from rqueue.testing.model import Model
from rqueue.testing.turning import by_key
from tests.machine.wire import Dump

NOW = "@now"
Keyed = dict[int, dict[str, list[str]]]


def server_keys(dump: Dump) -> dict[str, Any]:
    """The keys of the server."""
    content = dump.content
    keyed: Keyed = {}
    for name, found in dump.named("keyed:").items():
        lane, _, key = name.partition(":")
        keyed.setdefault(int(lane), {})[key] = list(found)
    turned = numbers(dump.named("turned:"))
    view = {
        "keyed": keyed,
        "turns": numbers(dump.named("turns:")),
        "turned": {lane: found[NOW] for lane, found in turned.items() if found.get(NOW)},
        "shut": numbers(dump.named("shut:")),
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


def numbers(zsets: dict[str, dict[str, str]]) -> dict[int, dict[str, float]]:
    """Sorted sets by lane."""
    return {
        int(lane): {member: float(score) for member, score in found.items()}
        for lane, found in zsets.items()
    }


def check_heads(dump: Dump, keyed: Keyed) -> None:
    """Every key that may be given a turn has its first task among the heads, and all of those may
    be claimed.
    """
    heads = {int(lane): set(found) for lane, found in dump.named("heads:").items()}
    for lane, found in heads.items():
        assert found <= set(dump.content.get(f"lane:{lane}", {})), f"heads of {lane}: {found}"
    for name, keys in dump.named("turns:").items():
        firsts = {keyed.get(int(name), {}).get(key, ["?"])[0] for key in keys}
        assert firsts <= heads.get(int(name), set()), f"{firsts} are not among the heads"


def model_keys(model: Model) -> dict[str, Any]:
    """The same of the model, where most of it follows from the tasks' states."""
    ready = {n: by_key(model, n) for lane, n in model.lanes.items() if lane.keyed}
    keyed = {n: {k: [r.id for r in own] for k, own in keys.items()} for n, keys in ready.items()}
    turns = {
        n: {k: float(line.at(k)) for k in ready[n] if k not in line.shut}
        for n, line in model.lines.items()
    }
    fresh = {n: dict.fromkeys(keys, 0.0) for n, keys in ready.items() if n not in model.lines}
    hand: dict[str, dict[str, int]] = {}
    for record in model.in_hand():
        if record.key:
            hand.setdefault(record.key, {})[record.id] = record.lane
    return {
        "keyed": {n: keys for n, keys in keyed.items() if keys},
        "turns": {n: keys for n, keys in (turns | fresh).items() if keys},
        "turned": {n: line.now for n, line in model.lines.items() if line.now},
        "shut": {n: dict(line.shut) for n, line in model.lines.items() if line.shut},
        "hand": hand,
        "full": set(model.crowds.keys),
        "crowded": set(model.crowds.types),
        "begun": {what: dict(slots) for what, slots in model.begun.items() if slots},
    }
