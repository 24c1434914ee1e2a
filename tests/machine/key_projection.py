"""What can be seen of limits and lanes of keys, in one shape for the server and for the model."""

from __future__ import annotations

from typing import Any

from tests.machine.wire import Dump
from tests.reference.model import Model
from tests.reference.rounds import by_key

NOW = "@now"
Keyed = dict[int, dict[str, list[str]]]


def server_keys(dump: Dump) -> dict[str, Any]:
    """The keys of the server. One whose time has come counts as open: whoever looks next finds it
    so, which a call that brings a plain task to a claim does not.
    """
    content = dump.content
    keyed: Keyed = {}
    for name, found in dump.named("keyed:").items():
        lane, _, key = name.partition(":")
        keyed.setdefault(int(lane), {})[key] = list(found)
    turned = {key: float(at) for key, at in content.get("turned", {}).items()}
    view = {
        "keyed": keyed,
        "turns": with_due(numbers(dump.named("turns:")), dump, keyed, turned),
        "turned": further(turned),
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


def further(turned: dict[str, float]) -> dict[str, float]:
    """How far all turns have come, if at all, and those of the keys that are further on."""
    return {key: at for key, at in turned.items() if at > turned.get(NOW, 0) or (key == NOW and at)}


def later(shut: dict[int, dict[str, float]], now_ms: int) -> dict[int, dict[str, float]]:
    """The keys that are shut, but for those whose time has come."""
    found = {n: {k: at for k, at in keys.items() if at > now_ms} for n, keys in shut.items()}
    return {n: keys for n, keys in found.items() if keys}


def with_due(
    turns: dict[int, dict[str, float]],
    dump: Dump,
    keyed: Keyed,
    turned: dict[str, float],
) -> dict[int, dict[str, float]]:
    """The turns of a lane with those of the keys whose time has come."""
    for lane, shut in numbers(dump.named("shut:")).items():
        for key in (key for key, at in shut.items() if at <= dump.now_ms):
            if key in keyed.get(lane, {}):
                begins = max(turned.get(NOW, 0.0), turned.get(key, 0.0))
                turns.setdefault(lane, {})[key] = begins
    return turns


def numbers(zsets: dict[str, dict[str, str]]) -> dict[int, dict[str, float]]:
    """Sorted sets by lane."""
    return {
        int(lane): {member: float(score) for member, score in found.items()}
        for lane, found in zsets.items()
    }


def check_heads(dump: Dump, keyed: Keyed) -> None:
    """Every key that may be given a turn has its first task among the heads, no key that is shut
    has, and all of those may be claimed.
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


def model_keys(model: Model) -> dict[str, Any]:
    """The same of the model, where most of it follows from the tasks' states."""
    ready = {n: by_key(model, n) for lane, n in model.lanes.items() if lane.keyed}
    keyed = {n: {k: [r.id for r in own] for k, own in keys.items()} for n, keys in ready.items()}
    turns = {n: dict(line.turns) for n, line in model.lines.items()}
    for number, line in model.lines.items():
        due = (key for key, at in line.shut.items() if at <= model.now_ms)
        begin = {key: model.turned.begins(key) for key in due if key in ready[number]}
        turns[number] |= begin
    hand: dict[str, dict[str, int]] = {}
    for record in model.in_hand():
        if record.key:
            hand.setdefault(record.key, {})[record.id] = record.lane
    return {
        "keyed": {n: keys for n, keys in keyed.items() if keys},
        "turns": {n: keys for n, keys in turns.items() if keys},
        "turned": further({NOW: float(model.turned.now), **model.turned.keys}),
        "shut": later({n: dict(line.shut) for n, line in model.lines.items()}, model.now_ms),
        "hand": hand,
        "full": set(model.crowds.keys),
        "crowded": set(model.crowds.types),
        "begun": {what: dict(slots) for what, slots in model.begun.items() if slots},
    }
