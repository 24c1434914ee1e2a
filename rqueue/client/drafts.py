"""From what a producer asks for to what the store is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rqueue.client.schemas import check_schema
from rqueue.errors import InvalidTask
from rqueue.model.call import Call, merged, written
from rqueue.model.definition import plain, signed
from rqueue.model.forms import Form, form_of, read
from rqueue.model.ids import TaskId, external_key
from rqueue.model.lane import Lane, micro
from rqueue.model.money import cost_class, price_of, set_aside
from rqueue.model.reference import tasks_in
from rqueue.model.scale import DEFAULT_PRIORITY, to_native
from rqueue.model.spec import TaskSpec
from rqueue.policy.priority import deadline_boost
from rqueue.store.submits import Draft

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.clock import Clock
    from rqueue.registry import Handler
    from rqueue.settings import Settings

PLAIN_BASE = micro(DEFAULT_PRIORITY)
NO_HANDLERS: Mapping[str, Handler] = {}


class Drafter:
    """Makes drafts by one queue's settings. Where it knows the handler of a call's type, the
    handler's options hold for what the call does not say. All are asked for by one principal, who
    is their creator where they name none, or by those who they name.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        handlers: Mapping[str, Handler] = NO_HANDLERS,
        *,
        by: str | None = None,
    ) -> None:
        self.settings = settings
        self.by = by or ""
        self.clock = clock
        self.handlers = handlers
        self.by_content = settings.dedupe == "content"
        rate = round(settings.priority_boost_per_minute, 2)
        # One lane object a type: the plain way makes none anew.
        self.plain_lane = lru_cache(maxsize=4096)(lambda type: Lane(type, rate))

    def draft(self, asked: Call | Mapping[str, Any]) -> Draft:
        """The draft of a call, of a mapping that says the same, or of a document that bears a
        form's marks; raises InvalidTask.
        """
        if not isinstance(asked, Call):
            if is_document(asked):
                return self.of_document(asked, None)
            asked = written(asked)
        return self.of_call(self.completed(asked) if self.handlers else asked)

    def call(self, asked: Call | Mapping[str, Any]) -> Call:
        """The whole call that is asked for in any of these ways."""
        if isinstance(asked, Call):
            return self.completed(asked)
        if is_document(asked):
            return self.call_of_document(asked, None)
        return self.completed(written(asked))

    def completed(self, call: Call) -> Call:
        """The call with its handler's options where it gives none of its own."""
        handler = self.handlers.get(call.type) if isinstance(call.type, str) else None
        if handler is None or not handler.options or handler.options is call.options:
            return call
        return Call(call.type, call.payload, merged(handler.options, call.options))

    def of_call(self, call: Call) -> Draft:
        """The draft of a call that is whole."""
        if not call.options and not self.by_content:
            return self.plainly(call)
        return self.of_spec(self.spec({"payload": {}, **call.fields()}))

    def of_member(self, call: Call) -> Draft:
        """The draft of a task of a DAG, which says for itself what the task waits for."""
        if not call.options:
            return self.plainly(call)
        return self.drawn(self.spec({"payload": {}, **call.fields()}))

    def plainly(self, call: Call) -> Draft:
        """The draft of a call without options: the quick way."""
        payload = {} if call.payload is None else call.payload
        definition = plain(call.type, payload, self.settings.max_payload_bytes)
        if self.by:
            definition = signed(definition, self.by)
        return Draft(self.plain_lane(call.type), PLAIN_BASE, definition, by=self.by)

    def of_document(self, document: Mapping[str, Any] | str | bytes, form: Form | None) -> Draft:
        """The draft of a task written as a document: its own scale and defaults hold, not the
        queue's or a handler's.
        """
        return self.of_spec(read(document, form))

    def call_of_document(
        self, document: Mapping[str, Any] | str | bytes, form: Form | None
    ) -> Call:
        """The call that says what a document says; raises InvalidTask."""
        spec = read(document, form)
        fields = {name: getattr(spec, name) for name in spec.model_fields_set}
        return written({**fields, "scale": "native"} if "priority" in fields else fields)

    def spec(self, fields: Mapping[str, Any]) -> TaskSpec:
        """The spec of a call; a priority is read on the queue's scale where none is named."""
        given = dict(fields)
        if "priority" in given:
            scale = given.pop("scale", None) or self.settings.scale
            given["priority"] = to_native(given["priority"], scale)
        return TaskSpec.parse(given)

    def of_spec(self, spec: TaskSpec) -> Draft:
        """The draft of a spec; it waits for those whose outputs it is given."""
        if self.by_content and spec.idempotency_key is None and spec.dedupe is None:
            spec = spec.model_copy(update={"dedupe": "content"})
        if spec.inputs:
            above = dict.fromkeys([*spec.depends_on, *tasks_in(spec.references())])
            spec = spec.model_copy(update={"depends_on": tuple(above)})
        self.refuse_many("depends_on", len(spec.depends_on))
        return self.drawn(spec)

    def refuse_many(self, field: str, number: int) -> None:
        """Raises InvalidTask where a task is to wait for too many that are there already: each is
        looked at in the one call that takes it.
        """
        most = self.settings.max_depends_on
        if number > most:
            way_out = "submit them as one DAG, or let tasks between them wait for a part each"
            rule = f"names {number} tasks; {most} are allowed (max_depends_on): {way_out}"
            raise InvalidTask(field, rule)

    def drawn(self, spec: TaskSpec) -> Draft:
        """The draft of a spec as it stands."""
        now = self.clock.now()
        if self.by and spec.created_by is None:
            spec = spec.model_copy(update={"created_by": self.by})
        spec = spec.dated(now)
        spec.admit(now)
        if spec.validation != "none":
            check_schemas(spec)
        return Draft(
            lane=lane_for(spec, self.settings),
            base=micro(spec.priority - boost(spec, now)),
            definition=spec.definition(max_bytes=self.settings.max_payload_bytes),
            more=compact(self.more(spec)),
            ask=compact(ask(spec)),
            by=self.by or spec.created_by or "",
            key=spec.limit_key or "",
        )

    def more(self, spec: TaskSpec) -> dict[str, object]:
        """What scripts must know of the task beyond the plain."""
        found: dict[str, object] = triggered(spec)
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


def check_schemas(spec: TaskSpec) -> None:
    """Raises InvalidTask where a JSON Schema is none, if that can be known here."""
    for check in spec.checks:
        if check.kind == "json-schema" and check.value is not None:
            check_schema(check.value)


def triggered(spec: TaskSpec) -> dict[str, object]:
    """By what a task is freed that waits for others, where that is not their success."""
    return {} if spec.trigger == "all_success" else {"trigger": spec.trigger}


def is_document(asked: object) -> bool:
    """Whether it is no call written as a mapping: a text, or a mapping with a form's marks."""
    return not isinstance(asked, Mapping) or form_of(asked) != "native"


def lane_for(spec: TaskSpec, settings: Settings) -> Lane:
    """Where the task competes."""
    rate = spec.priority_boost_per_minute
    if rate is None:
        rate = round(settings.priority_boost_per_minute, 2)
    capabilities = tuple(sorted(spec.required_capabilities))
    price = price_of(spec.estimate_usd, spec.max_cost_usd)
    cost = cost_class(set_aside(spec.estimate_usd))
    return Lane(
        spec.type,
        rate,
        spec.agent_name,
        capabilities,
        keyed=spec.limit_key is not None,
        cost=cost,
        price=price,
    )


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
