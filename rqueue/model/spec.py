"""What a producer asks for: the union of the three documents' fields, under one set of names."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, PrivateAttr, SkipValidation, model_validator

from rqueue.errors import InvalidTask
from rqueue.model.checked import (
    NAME,
    YEAR_SEC,
    Checked,
    Instant,
    Label,
    Line,
    Name,
    PositiveSeconds,
    Principal,
    Prose,
    Seconds,
    Usd,
)
from rqueue.model.codec import MAX_PAYLOAD_BYTES, content_key, encode
from rqueue.model.dag import Trigger
from rqueue.model.definition import compose, fields_of
from rqueue.model.expiry import written_out
from rqueue.model.field import (
    Capabilities,
    DagReference,
    Dependencies,
    Headers,
    Inputs,
    Lines,
    Models,
    Priority,
    Rate,
    Tags,
    TaskReference,
)
from rqueue.model.ids import TaskId
from rqueue.model.proof import Check, Validation, checks_of
from rqueue.model.reference import listed
from rqueue.model.retry import RetryPolicy
from rqueue.model.scale import DEFAULT_PRIORITY, check_scale, to_native

ALIASES = {"timeout": "timeout_sec", "delay": "delay_sec"}
# No payload's size is judged when a spec is made: the limit is the queue's, see `definition`.
NO_LIMIT = 1 << 62
# The type of a task that nothing says the type of.
UNKNOWN = "unknown"
MAX_REASON = 500


class TaskSpec(Checked):
    """One task as a producer describes it; it cannot change. Make it by `of` or `parse`.

    Where the default is None the queue's own setting holds.
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
        """The spec a mapping describes; `timeout`, `delay`, `expires` and `scale` are understood
        too.
        """
        given = {ALIASES.get(key, key): value for key, value in written_out(fields).items()}
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

        A field that is not known is a newer release's: it is passed over, and stays in the bytes.
        """
        given = known(cls, fields_of(data))
        retry, dedupe_fields = given.get("retry"), given.get("dedupe_fields")
        if isinstance(retry, dict):
            given["retry"] = known(RetryPolicy, retry)
        if isinstance(dedupe_fields, list):
            given["dedupe_fields"] = [
                name for name in dedupe_fields if str(name) in cls.model_fields
            ]
        return super().parse(given)

    @classmethod
    def salvage(cls, data: bytes, type: str | None = None) -> tuple[Self, str | None]:
        """The spec of a definition, or one of the same type without payload, and why it is not
        the real one. `type` is what the task is known as elsewhere.
        """
        try:
            return cls.from_definition(data), None
        except InvalidTask as error:
            name = name_of(type) or name_of(type_in(data)) or UNKNOWN
            return cls.parse({"type": name, "payload": None}), str(error)[:MAX_REASON]

    @model_validator(mode="after")
    def check_whole(self) -> Self:
        """The rules between fields."""
        if self.delay_sec is not None and self.at is not None:
            raise InvalidTask("at", "is given with delay_sec; give one of them")
        if self.expires_sec is not None and (self.deadline or self.on_deadline != "run"):
            raise InvalidTask("expires_sec", "is given with a deadline; give one of them")
        if self.inputs and not isinstance(self.payload, Mapping):
            raise InvalidTask("inputs", "fill arguments of a payload that is an object")
        checks_of(self.validation, self.validation_schema)
        for field in self.dedupe_fields:
            if field not in TaskSpec.model_fields or field.startswith("dedupe"):
                raise InvalidTask("dedupe_fields", f"names {field!r}, which is no field of a task")
        return self

    def model_post_init(self, context: object, /) -> None:
        """Encode the payload once: what is stored is what was checked, whatever becomes of it."""
        self._body = encode(self.payload, max_bytes=NO_LIMIT)
        if self.validation_schema is not None:
            encode(self.validation_schema, field="validation_schema")

    def definition(self, *, max_bytes: int = MAX_PAYLOAD_BYTES) -> bytes:
        """The bytes that are stored, if the payload is within the queue's limit."""
        if len(self._body) > max_bytes:
            size = len(self._body)
            raise InvalidTask("payload", f"has {size} bytes of JSON; {max_bytes} are allowed")
        options = self.model_dump(mode="json", exclude_defaults=True, exclude={"type", "payload"})
        return compose(self.type, self._body, options)

    def admit(self, now: datetime) -> None:
        """Check what needs the time, and that it waits neither for itself nor for ever."""
        if self.external_id in self.depends_on:
            raise InvalidTask("depends_on", "names the task itself")
        if self.at is not None and self.at - now > timedelta(seconds=YEAR_SEC):
            raise InvalidTask("at", "is more than a year away")

    def dated(self, now: datetime) -> Self:
        """The spec with the instant that its `expires_sec` means, counted from now."""
        if self.expires_sec is None:
            return self
        instant = now + timedelta(seconds=self.expires_sec)
        changes = {"deadline": instant, "on_deadline": "cancel", "expires_sec": None}
        return self.model_copy(update=changes)

    def identity(self, namespace: str) -> str | None:
        """The hash under which a second task like this one is known, if it is to be unique."""
        if self.idempotency_key is not None:
            return content_key("key", self.idempotency_key)
        if self.dedupe_fields:
            # To name the fields is to ask for it.
            chosen = self.model_dump(mode="json", include=set(self.dedupe_fields))
            return content_key("content", chosen)
        if self.dedupe is None:
            return None
        return content_key("content", namespace, self.type, self.payload)

    def references(self) -> list[str]:
        """What its arguments are filled with."""
        return [one for given in self.inputs.values() for one in listed(given)]

    @property
    def checks(self) -> tuple[Check, ...]:
        """What its output must pass, one after the other."""
        return checks_of(self.validation, self.validation_schema)

    @property
    def estimate_usd(self) -> float:
        """What a claim sets aside: the estimate, else the most it may cost, else nothing."""
        return self.estimated_cost_usd or self.max_cost_usd or 0.0

    @property
    def time_limit_sec(self) -> float | None:
        """How long an attempt may run: the smaller of its two limits; None is the queue's."""
        limits = [sec for sec in (self.timeout_sec, self.max_duration_sec) if sec is not None]
        return min(limits, default=None)


def known(model: type[Checked], given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What is given of the fields that this release has."""
    fields = model.model_fields
    return {field: value for field, value in given.items() if field in fields}


def type_in(data: bytes) -> object:
    """The type that a definition gives, if that much of it can be read."""
    try:
        return fields_of(data).get("type")
    except InvalidTask:
        return None


def name_of(value: object) -> str | None:
    """The value, if it is a name."""
    return value if isinstance(value, str) and NAME.fullmatch(value) else None
