"""Turns calls, mappings and documents into drafts, which are sent to the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rqueue.core.submit import Draft
from rqueue.errors import InvalidTask
from rqueue.producer.arguments import check_schema
from rqueue.task.definition import plain, signed
from rqueue.task.fields import cost_class, price_of, reserve_for
from rqueue.task.forms import Form, form_of, read
from rqueue.task.ids import TaskId, external_key
from rqueue.task.lane import Lane, micro
from rqueue.task.priority import DEFAULT_PRIORITY, deadline_boost, to_native
from rqueue.task.references import tasks_in
from rqueue.task.spec import Call, TaskSpec, call_of, merged

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.clock import Clock
    from rqueue.settings.load import Settings
    from rqueue.worker.handler import Handler

PLAIN_BASE = micro(DEFAULT_PRIORITY)
NO_HANDLERS: Mapping[str, Handler] = {}


class Drafter:
    """Makes drafts by one queue's settings. Where it has the handler of a call's type, the
    handler's options are the defaults of the call. `by` is the principal who submits; without it,
    the `created_by` of each task.
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
        # One lane object per type, for the fast path.
        self.plain_lane = lru_cache(maxsize=4096)(lambda type: Lane(type, rate))

    def draft(self, given: Call | Mapping[str, Any]) -> Draft:
        """The draft of a call, of an equal mapping, or of a document with the fields of a form;
        raises InvalidTask.
        """
        if not isinstance(given, Call):
            if is_document(given):
                return self.of_document(given, None)
            given = call_of(given)
        return self.of_call(self.completed(given) if self.handlers else given)

    def call(self, given: Call | Mapping[str, Any]) -> Call:
        """The whole call, from any of these."""
        if isinstance(given, Call):
            return self.completed(given)
        if is_document(given):
            return self.call_of_document(given, None)
        return self.completed(call_of(given))

    def completed(self, call: Call) -> Call:
        """The call with its handler's options as defaults."""
        handler = self.handlers.get(call.type) if isinstance(call.type, str) else None
        if handler is None or not handler.options or handler.options is call.options:
            return call
        return Call(call.type, call.payload, merged(handler.options, call.options))

    def of_call(self, call: Call) -> Draft:
        """The draft of a completed call."""
        if not call.options and not self.by_content:
            return self.plain_draft(call)
        return self.of_spec(self.spec({"payload": {}, **call.fields()}))

    def of_member(self, call: Call) -> Draft:
        """The draft of a task of a DAG; the DAG has its dependencies."""
        if not call.options:
            return self.plain_draft(call)
        return self.draft_of(self.spec({"payload": {}, **call.fields()}))

    def plain_draft(self, call: Call) -> Draft:
        """The draft of a call without options: the fast path."""
        payload = {} if call.payload is None else call.payload
        definition = plain(call.type, payload, self.settings.max_payload_bytes)
        if self.by:
            definition = signed(definition, self.by)
        return Draft(self.plain_lane(call.type), PLAIN_BASE, definition, by=self.by)

    def of_document(self, document: Mapping[str, Any] | str | bytes, form: Form | None) -> Draft:
        """The draft of a task written as a document: its form's scale and defaults hold, not the
        queue's or a handler's.
        """
        return self.of_spec(read(document, form))

    def call_of_document(
        self, document: Mapping[str, Any] | str | bytes, form: Form | None
    ) -> Call:
        """The call with a document's fields; raises InvalidTask."""
        spec = read(document, form)
        fields = {name: getattr(spec, name) for name in spec.model_fields_set}
        return call_of({**fields, "scale": "native"} if "priority" in fields else fields)

    def spec(self, fields: Mapping[str, Any]) -> TaskSpec:
        """The spec of a call; without a `scale`, a priority is read on the queue's scale."""
        given = dict(fields)
        if "priority" in given:
            scale = given.pop("scale", None) or self.settings.scale
            given["priority"] = to_native(given["priority"], scale)
        return TaskSpec.parse(given)

    def of_spec(self, spec: TaskSpec) -> Draft:
        """The draft of a spec; it depends on the tasks whose outputs are its inputs."""
        if self.by_content and spec.idempotency_key is None and spec.dedupe is None:
            spec = spec.model_copy(update={"dedupe": "content"})
        if spec.inputs:
            above = dict.fromkeys([*spec.depends_on, *tasks_in(spec.references())])
            spec = spec.model_copy(update={"depends_on": tuple(above)})
        self.refuse_many("depends_on", len(spec.depends_on))
        return self.draft_of(spec)

    def refuse_many(self, field: str, number: int) -> None:
        """Raises InvalidTask where a task has too many dependencies that exist already: each is
        checked in the one call that submits it.
        """
        most = self.settings.max_depends_on
        if number > most:
            way_out = "submit them as one DAG, or let tasks between them wait for a part each"
            rule = f"names {number} tasks; {most} are allowed (max_depends_on): {way_out}"
            raise InvalidTask(field, rule)

    def draft_of(self, spec: TaskSpec) -> Draft:
        """The draft of a final spec."""
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
            submit_facts=compact(submit_facts(spec)),
            by=self.by or spec.created_by or "",
            key=spec.limit_key or "",
        )

    def more(self, spec: TaskSpec) -> dict[str, object]:
        """The facts of a task that moves need and a plain task does not have."""
        found: dict[str, object] = trigger_facts(spec)
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
            # A task that runs late all the same is listed too: its urgency changes with time.
            found["deadline"] = to_ms(spec.deadline)
            if spec.on_deadline != "run":
                found["on_deadline"] = spec.on_deadline
        if spec.result_ttl_sec is not None:
            # Kept at least until no repeated call can find the task missing.
            shortest = 2 * self.settings.call_timeout_sec
            found["ttl"] = round(max(spec.result_ttl_sec, shortest) * 1000)
        return found


def check_schemas(spec: TaskSpec) -> None:
    """Raises InvalidTask where a JSON Schema is invalid, if that can be checked here."""
    for check in spec.checks:
        if check.kind == "json-schema" and check.value is not None:
            check_schema(check.value)


def trigger_facts(spec: TaskSpec) -> dict[str, object]:
    """The trigger of a task, where it is not all_success."""
    return {} if spec.trigger == "all_success" else {"trigger": spec.trigger}


def is_document(given: object) -> bool:
    """Whether a value is a text, or a mapping with the fields of another form."""
    return not isinstance(given, Mapping) or form_of(given) != "native"


def lane_for(spec: TaskSpec, settings: Settings) -> Lane:
    """The lane of a task."""
    rate = spec.priority_boost_per_minute
    if rate is None:
        rate = round(settings.priority_boost_per_minute, 2)
    capabilities = tuple(sorted(spec.required_capabilities))
    price = price_of(spec.estimate_usd, spec.max_cost_usd)
    cost = cost_class(reserve_for(spec.estimate_usd))
    return Lane(
        spec.type,
        rate,
        spec.agent_name,
        capabilities,
        keyed=spec.limit_key is not None,
        cost=cost,
        price=price,
    )


def submit_facts(spec: TaskSpec) -> dict[str, object]:
    """What only the submit move needs."""
    found: dict[str, object] = {}
    if spec.delay_sec:
        found["delay"] = round(spec.delay_sec * 1000)
    if spec.at is not None:
        found["at"] = to_ms(spec.at)
    if spec.depends_on:
        found["parents"] = [dependency_key(parent) for parent in spec.depends_on]
    if spec.if_exists != "keep":
        found["if_exists"] = spec.if_exists
    return found


def dependency_key(parent: str) -> str:
    """How a move finds a dependency: by ULID, or by external id."""
    return parent.ulid if isinstance(parent, TaskId) else f"@{external_key(parent)}"


def boost(spec: TaskSpec, now: datetime) -> float:
    """The urgency that the deadline gives the task now."""
    if spec.deadline is None:
        return 0.0
    slack = (spec.deadline - now).total_seconds() - (spec.expected_duration_sec or 0.0)
    return deadline_boost(slack)


def compact(found: dict[str, object]) -> str:
    """The facts as JSON, "" for none."""
    return json.dumps(found, separators=(",", ":")) if found else ""


def to_ms(at: datetime) -> int:
    """An instant in ms since the epoch."""
    return round(at.timestamp() * 1000)
