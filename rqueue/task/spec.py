"""A task as its producer describes it: the fields of all three documents, under one set
of names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    SkipValidation,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from rqueue.errors import InvalidTask
from rqueue.task.attempt.retry import RetryPolicy
from rqueue.task.codec import MAX_PAYLOAD_BYTES, content_key, encode
from rqueue.task.dag import Trigger
from rqueue.task.definition import compose, fields_of
from rqueue.task.fields import (
    NAME,
    YEAR_SEC,
    Capabilities,
    Checked,
    DagReference,
    Dependencies,
    Headers,
    Inputs,
    Instant,
    Label,
    Line,
    Lines,
    Models,
    Name,
    PositiveSeconds,
    Principal,
    Priority,
    Prose,
    Rate,
    Seconds,
    Tags,
    TaskReference,
    Usd,
    instant,
)
from rqueue.task.ids import TaskId
from rqueue.task.priority import DEFAULT_PRIORITY, check_scale, to_native
from rqueue.task.references import as_list
from rqueue.task.validation import Check, Validation, checks_of

ALIASES = {"timeout": "timeout_sec", "delay": "delay_sec"}
# No limit while a spec is made: it is the queue's, see `definition`.
NO_LIMIT = 1 << 62
# The type of a task whose type cannot be read.
UNKNOWN = "unknown"
MAX_REASON = 500


class TaskSpec(Checked):
    """One task as a producer describes it; immutable. Made by `of` or `parse`.

    Where the default is None, the queue's setting applies.
    """

    type: Name
    payload: Annotated[JsonValue, SkipValidation] = Field(default_factory=dict)
    title: Line | None = None
    prompt: Prose | None = None
    context_refs: Lines = ()

    priority: Priority = DEFAULT_PRIORITY
    priority_boost_per_minute: Rate | None = None
    deadline: Instant | None = None
    on_deadline: Literal["run", "fail", "cancel"] = "run"
    expires_sec: PositiveSeconds | None = None
    expected_duration_sec: Seconds | None = None
    delay_sec: Seconds | None = None
    at: Instant | None = None

    agent_name: Name | None = None
    required_capabilities: Capabilities = ()
    limit_key: Label | None = None

    parent_id: TaskId | None = None
    dag_id: DagReference | None = None
    name: Name | None = None
    depends_on: Dependencies = ()
    trigger: Trigger = "all_success"
    inputs: Inputs = Field(default_factory=dict)

    idempotency_key: Line | None = None
    dedupe: Literal["content"] | None = None
    dedupe_fields: tuple[str, ...] = ()
    if_exists: Literal["keep", "replace", "debounce"] = "keep"
    unique: Literal["until_start", "until_done"] = "until_done"
    external_id: TaskReference | None = None

    max_attempts: Annotated[int, Field(ge=1, le=1000, strict=True)] = 3
    retry: RetryPolicy | None = None
    timeout_sec: PositiveSeconds | None = None
    max_duration_sec: PositiveSeconds | None = None
    heartbeat_interval_sec: PositiveSeconds | None = None

    max_cost_usd: Usd | None = None
    estimated_cost_usd: Usd | None = None
    model_preferences: Models = ()
    fallback_models: Models = ()

    output_type: Literal["code", "markdown", "json", "artifact"] | None = None
    validation: Validation = "none"
    validation_schema: Annotated[JsonValue, SkipValidation] = None
    artifacts: Lines = ()
    result_ttl_sec: Seconds | None = None

    created_by: Principal | None = None
    tags: Tags = ()
    headers: Headers = Field(default_factory=dict)

    _body: bytes = PrivateAttr(default=b"{}")

    @classmethod
    def parse(cls, fields: Mapping[str, object], *, within: str = "") -> Self:
        """The spec in a mapping, which may also have `timeout`, `delay`, `expires` and `scale`."""
        given = {ALIASES.get(key, key): value for key, value in with_expires(fields).items()}
        for alias, field in ALIASES.items():
            if alias in fields and field in fields:
                raise InvalidTask(alias, f"is another word for {field}; give one of them")
        scale = given.pop("scale", None)
        if scale is not None:
            check_scale(str(scale))
            if "priority" in given:
                given["priority"] = to_native(given["priority"], str(scale))
        return super().parse(given, within=within)

    @classmethod
    def from_definition(cls, data: bytes) -> Self:
        """The spec that `definition` wrote; the bytes are not trusted.

        Unknown fields are those of a newer release: they are ignored, and stay in the bytes.
        """
        given = known_fields(cls, fields_of(data))
        retry, dedupe_fields = given.get("retry"), given.get("dedupe_fields")
        if isinstance(retry, dict):
            given["retry"] = known_fields(RetryPolicy, retry)
        if isinstance(dedupe_fields, list):
            given["dedupe_fields"] = [
                name for name in dedupe_fields if str(name) in cls.model_fields
            ]
        return super().parse(given)

    @classmethod
    def salvage(cls, data: bytes, type: str | None = None) -> tuple[Self, str | None]:
        """The spec of a definition and None; or a replacement of the same type without payload, and
        the reason why the definition cannot be read. `type` is the type as stored elsewhere.
        """
        try:
            return cls.from_definition(data), None
        except InvalidTask as error:
            name = name_of(type) or name_of(type_in(data)) or UNKNOWN
            return cls.parse({"type": name, "payload": None}), str(error)[:MAX_REASON]

    @model_validator(mode="after")
    def check_whole(self) -> Self:
        """Checks the rules between fields."""
        if self.delay_sec is not None and self.at is not None:
            raise InvalidTask("at", "is given with delay_sec; give one of them")
        if self.expires_sec is not None and (self.deadline or self.on_deadline != "run"):
            raise InvalidTask("expires_sec", "is given with a deadline; give one of them")
        if self.inputs and not isinstance(self.payload, Mapping):
            raise InvalidTask("inputs", "fill arguments of a payload that is an object")
        checks_of(self.validation, self.validation_schema)
        for field in self.dedupe_fields:
            if field not in TaskSpec.model_fields or field.startswith("dedupe"):
                raise InvalidTask(
                    "dedupe_fields", f"names {field!r}, which is not a field of a task"
                )
        return self

    def model_post_init(self, context: object, /) -> None:
        """Encodes the payload once: later changes to it do not change what is stored."""
        self._body = encode(self.payload, max_bytes=NO_LIMIT)
        if self.validation_schema is not None:
            encode(self.validation_schema, field="validation_schema")

    def definition(self, *, max_bytes: int = MAX_PAYLOAD_BYTES) -> bytes:
        """The bytes to store, if the payload is within the queue's limit."""
        if len(self._body) > max_bytes:
            size = len(self._body)
            raise InvalidTask("payload", f"has {size} bytes of JSON; {max_bytes} are allowed")
        options = self.model_dump(mode="json", exclude_defaults=True, exclude={"type", "payload"})
        return compose(self.type, self._body, options)

    def admit(self, now: datetime) -> None:
        """Checks what needs the time, and that the task does not depend on itself."""
        if self.external_id in self.depends_on:
            raise InvalidTask("depends_on", "names the task itself")
        if self.at is not None and self.at - now > timedelta(seconds=YEAR_SEC):
            raise InvalidTask("at", "is more than a year away")

    def dated(self, now: datetime) -> Self:
        """The spec with `expires_sec` turned into a deadline, counted from now."""
        if self.expires_sec is None:
            return self
        instant = now + timedelta(seconds=self.expires_sec)
        changes = {"deadline": instant, "on_deadline": "cancel", "expires_sec": None}
        return self.model_copy(update=changes)

    def identity(self, namespace: str) -> str | None:
        """The hash that identifies an equal task, if the task is to be unique."""
        if self.idempotency_key is not None:
            return content_key("key", self.idempotency_key)
        if self.dedupe_fields:
            # Naming the fields implies `dedupe="content"`.
            chosen = self.model_dump(mode="json", include=set(self.dedupe_fields))
            return content_key("content", chosen)
        if self.dedupe is None:
            return None
        return content_key("content", namespace, self.type, self.payload)

    def references(self) -> list[str]:
        """The references in its inputs."""
        return [one for given in self.inputs.values() for one in as_list(given)]

    @property
    def checks(self) -> tuple[Check, ...]:
        """The validators of its output, in order."""
        return checks_of(self.validation, self.validation_schema)

    @property
    def estimate_usd(self) -> float:
        """What a claim reserves: the estimate, else the most it may cost, else nothing."""
        return self.estimated_cost_usd or self.max_cost_usd or 0.0

    @property
    def time_limit_sec(self) -> float | None:
        """How long an attempt may run: the smaller of its two limits; None: the queue's."""
        limits = [sec for sec in (self.timeout_sec, self.max_duration_sec) if sec is not None]
        return min(limits, default=None)


def known_fields(model: type[Checked], given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The given fields without those of newer releases."""
    fields = model.model_fields
    return {field: value for field, value in given.items() if field in fields}


def type_in(data: bytes) -> object:
    """The type in a definition, if it can be read."""
    try:
        return fields_of(data).get("type")
    except InvalidTask:
        return None


def name_of(value: object) -> str | None:
    """The value, if it is a name."""
    return value if isinstance(value, str) and NAME.fullmatch(value) else None


WHEN = ("delay", "delay_sec", "at")
SAME_TASK = ("idempotency_key", "dedupe", "dedupe_fields")
DEADLINE = ("deadline", "expires", "expires_sec")
# Options that exclude each other: a given one replaces the defaults of all these.
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
    """A task to be enqueued: its type, its payload, and other fields as options."""

    type: str
    payload: object = None
    options: Mapping[str, Any] = dataclass_field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        """The mapping from which call_of makes this call."""
        found = {**self.options, "type": self.type}
        if self.payload is not None:
            found["payload"] = self.payload
        return found

    def with_options(self, **options: Any) -> Call:
        """The same call with these options over its own."""
        return replace(self, options=merged(self.options, options))

    def with_headers(self, headers: Mapping[str, str]) -> Call:
        """The same call with these headers added."""
        own = self.options.get("headers") or {}
        return self.with_options(headers={**own, **headers})


def merged(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options, and the defaults that none of them replaces."""
    hidden = {rival for name in given for rival in RIVALS.get(name, ())}
    kept = {name: value for name, value in defaults.items() if name not in hidden}
    return {**kept, **given}


def call_of(fields: Mapping[str, Any]) -> Call:
    """The call in a mapping of a task's fields; raises InvalidTask without a type.

    A payload of null stays among the options: as the call's payload, None means that there is none.
    """
    if "type" not in fields:
        raise InvalidTask("type", "is required")
    options = dict(fields)
    type, payload = options.pop("type"), options.pop("payload", None)
    if payload is None and "payload" in fields:
        options["payload"] = None
    return Call(type, payload, options)


SHORT, FIELD = "expires", "expires_sec"
# The fields that `expires` sets: given together, one would silently be ignored.
MEANT = ("deadline", "on_deadline")
RULE = "is a number of seconds, a timedelta, or an instant with its zone"
SPAN: TypeAdapter[timedelta] = TypeAdapter(timedelta, config=ConfigDict(defer_build=True))


def with_expires(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with `expires` replaced: an instant becomes the deadline of a task that is
    cancelled then, a time span (seconds, a timedelta, ISO 8601 text) becomes `expires_sec`, counted
    when the task is sent.
    """
    found = dict(fields)
    given = found.pop(SHORT, None)
    if given is None:
        return found
    for other in (FIELD, *MEANT):
        if found.get(other) is not None:
            raise InvalidTask(SHORT, f"is given with {other}, which it implies; give one of them")
    span = span_of(given)
    if span is not None:
        return {**found, FIELD: span}
    try:
        return {**found, "deadline": instant(given), "on_deadline": "cancel"}
    except PydanticCustomError:
        raise InvalidTask(SHORT, RULE) from None


def span_of(given: object) -> float | None:
    """A time span in seconds; None where the value is not a time span, but perhaps an instant."""
    if isinstance(given, str) and given.startswith("P"):
        try:
            given = SPAN.validate_python(given)
        except ValidationError:
            raise InvalidTask(SHORT, "is not a span of time in ISO 8601, such as PT15M") from None
    if isinstance(given, timedelta):
        given = given.total_seconds()
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    if not 0 < given <= YEAR_SEC:
        raise InvalidTask(SHORT, "is more than 0 seconds and at most a year")
    return float(given)
