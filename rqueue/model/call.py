"""A task as code asks for it: a type, a payload, and options by the model's own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rqueue.errors import InvalidTask

WHEN = ("delay", "delay_sec", "at")
SAME_TASK = ("idempotency_key", "dedupe", "dedupe_fields")
DEADLINE = ("deadline", "expires", "expires_sec")
# What an option speaks of, these speak of too: given, it stands above all of them.
RIVALS = {
    "priority": ("scale",),
    "timeout": ("timeout_sec",),
    "timeout_sec": ("timeout",),
    **dict.fromkeys(WHEN, WHEN),
    **dict.fromkeys(SAME_TASK, SAME_TASK),
    "deadline": DEADLINE,
    **dict.fromkeys(("expires", "expires_sec"), (*DEADLINE, "on_deadline")),
}


@dataclass(frozen=True, slots=True)
class Call:
    """A task to be enqueued: its type, its payload, and the model's own fields as options."""

    type: str
    payload: object = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        """The mapping that `written` makes this call of."""
        found = {**self.options, "type": self.type}
        if self.payload is not None:
            found["payload"] = self.payload
        return found

    def with_options(self, **options: Any) -> Call:
        """The same call with these options above its own."""
        return replace(self, options=merged(self.options, options))

    def with_headers(self, headers: Mapping[str, str]) -> Call:
        """The same call with these headers beside its own."""
        own = self.options.get("headers") or {}
        return self.with_options(headers={**own, **headers})


def merged(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options given, and of the defaults those that nothing given speaks of."""
    hidden = {rival for name in given for rival in RIVALS.get(name, ())}
    kept = {name: value for name, value in defaults.items() if name not in hidden}
    return {**kept, **given}


def written(fields: Mapping[str, Any]) -> Call:
    """The call that a mapping of a task's fields means; raises InvalidTask without a type.

    A payload of null stays among the options: as the call's own it would mean that there is none.
    """
    if "type" not in fields:
        raise InvalidTask("type", "is required")
    options = dict(fields)
    type, payload = options.pop("type"), options.pop("payload", None)
    if payload is None and "payload" in fields:
        options["payload"] = None
    return Call(type, payload, options)
