"""From what a producer asks for to what the store is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rqueue.model.definition import plain
from rqueue.model.forms import Form, form_of, read
from rqueue.model.ids import TaskId, external_key
from rqueue.model.lane import Lane, micro
from rqueue.model.scale import DEFAULT_PRIORITY, to_native
from rqueue.model.spec import TaskSpec
from rqueue.policy.priority import deadline_boost
from rqueue.store.submits import Draft

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.clock import Clock
    from rqueue.settings import Settings

PLAIN_BASE = micro(DEFAULT_PRIORITY)


@dataclass(frozen=True, slots=True)
class Call:
    """A task to be enqueued: its type, its payload, and the model's own fields as options."""

    type: str
    payload: object = None
    options: Mapping[str, Any] = field(default_factory=dict)


class Drafter:
    """Makes drafts by one queue's settings."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self.by_content = settings.dedupe == "content"
        rate = round(settings.priority_boost_per_minute, 2)
        # One lane object a type: the plain way makes none anew.
        self.plain_lane = lru_cache(maxsize=4096)(lambda type: Lane(type, rate))

    def draft(self, call: Call | Mapping[str, Any]) -> Draft:
        """The draft of a call, or of a mapping that says the same; raises InvalidTask."""
        if not isinstance(call, Call):
            return self.of_mapping(call)
        payload = {} if call.payload is None else call.payload
        if not call.options and not self.by_content:
            definition = plain(call.type, payload, self.settings.max_payload_bytes)
            return Draft(self.plain_lane(call.type), PLAIN_BASE, definition)
        return self.of_spec(self.spec({**call.options, "type": call.type, "payload": payload}))

    def of_mapping(self, fields: Mapping[str, Any]) -> Draft:
        """The draft of a call written as a mapping, or of a document that bears a form's marks."""
        if not isinstance(fields, Mapping) or form_of(fields) != "native":
            return self.of_document(fields, None)
        return self.of_spec(self.spec(fields))

    def of_document(self, document: Mapping[str, Any] | str | bytes, form: Form | None) -> Draft:
        """The draft of a task written as a document; its own scale holds, not the queue's."""
        return self.of_spec(read(document, form))

    def spec(self, fields: Mapping[str, Any]) -> TaskSpec:
        """The spec of a call; a priority is read on the queue's scale where none is named."""
        given = dict(fields)
        if "priority" in given:
            scale = given.pop("scale", None) or self.settings.scale
            given["priority"] = to_native(given["priority"], scale)
        return TaskSpec.parse(given)

    def of_spec(self, spec: TaskSpec) -> Draft:
        """The draft of a spec."""
        now = self.clock.now()
        spec.admit(now)
        if self.by_content and spec.idempotency_key is None and spec.dedupe is None:
            spec = spec.model_copy(update={"dedupe": "content"})
        return Draft(
            lane=lane_for(spec, self.settings),
            base=micro(spec.priority - boost(spec, now)),
            definition=spec.definition(max_bytes=self.settings.max_payload_bytes),
            more=compact(self.more(spec)),
            ask=compact(ask(spec)),
        )

    def more(self, spec: TaskSpec) -> dict[str, object]:
        """What scripts must know of the task beyond the plain."""
        found: dict[str, object] = {}
        identity = spec.identity(self.settings.namespace)
        if identity is not None:
            found["idem"] = identity
            found["window"] = round(self.settings.dedupe_window_sec * 1000)
            found["unique"] = spec.unique
        if spec.external_id is not None:
            found["ext"] = external_key(spec.external_id)
        if spec.tags:
            found["tags"] = list(spec.tags)
        if spec.time_limit_sec is not None:
            own = spec.timeout_sec or self.settings.timeout_sec
            found["timeout"] = round(min(own, spec.max_duration_sec or own) * 1000)
        if spec.deadline is not None:
            # One that runs late all the same is in the list too: its urgency moves with time.
            found["deadline"] = to_ms(spec.deadline)
            if spec.on_deadline != "run":
                found["on_deadline"] = spec.on_deadline
        if spec.result_ttl_sec is not None:
            # Kept at least until no call that is sent again can find the task missing.
            shortest = 2 * self.settings.call_timeout_sec
            found["ttl"] = round(max(spec.result_ttl_sec, shortest) * 1000)
        return found


def lane_for(spec: TaskSpec, settings: Settings) -> Lane:
    """Where the task competes."""
    rate = spec.priority_boost_per_minute
    if rate is None:
        rate = round(settings.priority_boost_per_minute, 2)
    capabilities = tuple(sorted(spec.required_capabilities))
    return Lane(spec.type, rate, spec.agent_name, capabilities)


def ask(spec: TaskSpec) -> dict[str, object]:
    """What the submit alone must know."""
    found: dict[str, object] = {}
    if spec.delay_sec:
        found["delay"] = round(spec.delay_sec * 1000)
    if spec.at is not None:
        found["at"] = to_ms(spec.at)
    if spec.depends_on:
        found["parents"] = [parent_key(parent) for parent in spec.depends_on]
    if spec.if_exists != "keep":
        found["if_exists"] = spec.if_exists
    return found


def parent_key(parent: str) -> str:
    """How a script finds a parent: by our id, or by the caller's own."""
    return parent.ulid if isinstance(parent, TaskId) else f"@{external_key(parent)}"


def boost(spec: TaskSpec, now: datetime) -> float:
    """The urgency that the deadline gives the task at this moment."""
    if spec.deadline is None:
        return 0.0
    slack = (spec.deadline - now).total_seconds() - (spec.expected_duration_sec or 0.0)
    return deadline_boost(slack)


def compact(found: dict[str, object]) -> str:
    """Facts as JSON, or nothing."""
    return json.dumps(found, separators=(",", ":")) if found else ""


def to_ms(at: datetime) -> int:
    """An instant as the server counts."""
    return round(at.timestamp() * 1000)
