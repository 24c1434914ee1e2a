"""Loads the settings of a queue from arguments, environment, rqueue.yaml and defaults."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from rqueue.archive.maintenance.retention import Retention
from rqueue.artifacts.place import place_of
from rqueue.errors import ConfigError
from rqueue.notices.destination import refused_target, target_of
from rqueue.notices.sink import Destinations, Sinks, WebSink
from rqueue.settings.profiles import DEFAULT_PROFILE, Profile, profile_of
from rqueue.task.attempt.blame import BadWorkers, Poison, PoisonRule, WorkerRule
from rqueue.task.attempt.breaker import NO_BREAKERS, Breakers
from rqueue.task.attempt.retry import RetryPolicy
from rqueue.task.dag import SpawnRule
from rqueue.task.fields import NAME, Name, Principal, Role
from rqueue.task.limits import Limit, Turns, has_duplicates
from rqueue.task.priority import Scale
from rqueue.task.validation import Validator

if TYPE_CHECKING:
    from rqueue.settings.live import LiveSettings

DAY_SEC = 86_400
Seconds = Annotated[float, Field(gt=0, le=365 * DAY_SEC, allow_inf_nan=False)]
SecondsOrNone = Annotated[float, Field(ge=0, le=365 * DAY_SEC, allow_inf_nan=False)]
# An archiver may be this far behind; a shorter window could lose completed tasks before they are
# archived.
SHORTEST_WINDOW_SEC = 3600
# Validators without settings of their own: a queue may require them of its types.
REQUIRABLE: tuple[Validator, ...] = ("decision-report", "llm-judge")
Bytes = Annotated[int, Field(ge=1024, le=64 * 1024 * 1024)]


class Settings(BaseModel):
    """All settings of one queue. A bad value is a ConfigError that names the setting."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Name = Field(description="the queue's name")
    url: str | None = Field(
        None,
        repr=False,
        description="the server: redis://, rediss://, unix://, redis+sentinel://, redis+cluster://",
    )
    embedded: bool = Field(False, description="use the Valkey of the `embedded` extra instead")
    data_dir: Path = Field(Path(".rqueue"), description="where embedded servers keep their data")
    namespace: Name = Field("rq", description="first part of every key")
    profile: str = Field(
        DEFAULT_PROFILE.name,
        description="the profile, whose defaults apply to settings that are not given",
    )
    scale: Scale = Field("native", description="how priorities are written")
    priority_boost_per_minute: float = Field(
        0.1, ge=0, le=1000, description="ageing: points of urgency a waiting task gains"
    )
    retry: RetryPolicy | None = Field(None, description="delays between attempts")
    dedupe: Literal["key", "content"] = Field(
        "key", description="what makes two tasks the same: their key, or type and payload"
    )
    dedupe_window_sec: SecondsOrNone = Field(
        7 * DAY_SEC, description="how long a completed task still counts as the same"
    )
    dedupe_archive: bool = Field(
        False,
        description="whether tasks that completed in the archive count as the same, without limit",
    )
    lease_sec: Seconds = Field(30, description="how long a worker may be silent")
    claim_ttl_sec: Seconds = Field(60, description="how soon a claimed task must be started")
    timeout_sec: Seconds = Field(
        3600, description="how long an attempt may run, unless its task has its own timeout"
    )
    timeout_grace_sec: SecondsOrNone = Field(
        10, description="time between the timeout and the end of the attempt"
    )
    kill_grace_sec: SecondsOrNone = Field(
        5, description="how long a process handler that is stopped may take to end"
    )
    lost_worker_counts: bool = Field(True, description="whether a lost worker spends an attempt")
    max_reclaims: int = Field(10, ge=1, le=1000, description="lost workers a task may have")
    breakers: Breakers = Field(
        NO_BREAKERS,
        description="when tasks of a failing type cannot be claimed: defaults and overrides; off"
        " where it is not given, except in the profile `reference`",
    )
    poison: Poison = Field(
        PoisonRule(), description="when a task is dead because it failed on several workers"
    )
    bad_workers: BadWorkers = Field(
        WorkerRule(),
        description="when a worker is drained because it fails tasks that others complete",
    )
    limits: tuple[Limit, ...] = Field(
        (), description="how many tasks of a type, a tenant or the queue, in a time and at once"
    )
    turns: Turns = Field(Turns(), description="turns between tenants: enabled, and weights")
    rate_limit_counts: bool = Field(False, description="whether a parked attempt is spent")
    max_rate_limit_parks: int = Field(20, ge=0, le=1000, description="parks a task may have")
    max_slowdown_sec: Seconds = Field(
        3600, description="how long a rate limit slows down a type or tenant at most"
    )
    result_ttl_sec: SecondsOrNone = Field(DAY_SEC, description="how long an ended task is kept")
    archive: Literal["none", "postgres"] | None = Field(
        None,
        description="where ended tasks go; by default the PostgreSQL of postgres_url or data_dir",
    )
    postgres_url: str | None = Field(
        None,
        pattern="^postgres(ql)?://",
        repr=False,
        description="the archive's PostgreSQL: postgresql://, where it is not an embedded one",
    )
    max_outbox: int = Field(
        1_000_000,
        ge=0,
        description="ended tasks that wait for the archive; then submits are refused",
    )
    agent_events: bool = Field(False, description="whether the archive has a row for agents' work")
    embedding_jobs: bool = Field(False, description="whether completed tasks get embeddings")
    retention: Retention = Field(Retention(), description="days that the archive keeps ended tasks")
    keep_reviews: int = Field(
        10_000, ge=1, le=1_000_000, description="reviews of dead tasks kept, without an archive"
    )
    max_payload_bytes: Bytes = Field(262_144, description="largest payload")
    max_result_bytes: Bytes = Field(262_144, description="largest result")
    artifacts_url: str | None = Field(
        None,
        description="where artifacts are kept: file:///... or s3://bucket/prefix?endpoint=...;"
        " else in `artifacts` below data_dir, and large results only where the queue is embedded",
    )
    artifacts_max_bytes: int = Field(1 << 30, ge=1, description="largest artifact")
    artifacts_max_result_bytes: int = Field(
        64 << 20, ge=0, le=1 << 30, description="largest result that becomes one; 0 for none"
    )
    artifacts_timeout_sec: Seconds = Field(30, description="how long one request may take")
    max_artifacts: int = Field(100, ge=1, le=1000, description="artifacts that one task may put")
    max_steps: int = Field(1000, ge=1, le=10_000, description="steps that one task may keep")
    max_lanes: int = Field(512, ge=1, le=4096, description="kinds of task in one shard")
    max_dag_nodes: int = Field(10_000, ge=2, le=1_000_000, description="tasks in one DAG")
    max_dag_edges: int = Field(100_000, ge=1, le=10_000_000, description="edges in one DAG")
    max_depends_on: int = Field(
        500, ge=1, le=1000, description="tasks outside its DAG that one task may wait for"
    )
    rank_interval_sec: SecondsOrNone = Field(
        10, description="how often at most the critical path of a changing DAG is computed again"
    )
    spawn_policy: SpawnRule = Field(
        "own_dag", description="what a task may spawn: any, those of its own agent, or none"
    )
    principal: Principal | None = Field(
        None, description="the principal of this process, as kind:name, such as agent:coder"
    )
    default_role: Role = Field("orchestrator", description="the role of a principal without one")
    inbox_role: Role = Field(
        "orchestrator", description="the role of the inbox, which submits as service:inbox"
    )
    validation: dict[str, tuple[Validator, ...]] = Field(
        default_factory=dict,
        description="validators of outputs in addition to those of the tasks: type, or * -> kinds",
    )
    validation_timeout_sec: Seconds = Field(
        10, description="how long an output may be matched by a pattern or a schema"
    )
    test_commands: tuple[tuple[str, ...], ...] = Field(
        (), description="what `test-pass` may run: lists of words; a last * is any more words"
    )
    test_dir: Path = Field(
        Path("."), description="where `test-pass` may run commands: here or below"
    )
    test_timeout_sec: Seconds = Field(600, description="how long such a command may take")
    judge_url: str | None = Field(
        None, repr=False, description="the HTTP endpoint of `llm-judge`, http:// or https://"
    )
    judge_timeout_sec: Seconds = Field(60, description="how long a judge may take")
    call_timeout_sec: Seconds = Field(10, description="how long a call is tried and re-sent")
    wait_replicas: int = Field(0, ge=0, le=100, description="replicas that must have a submit")
    claim_wait_sec: Seconds = Field(5, description="how long a claim waits at the server")
    delivery_sec: Seconds = Field(
        2, description="how soon a delivered task must be started; at most a third of lease_sec"
    )
    unserved_after_sec: Seconds = Field(
        60, description="how long tasks that no live worker can run wait before that is an event"
    )
    claim_memo_sec: Seconds = Field(120, description="how long a claim by hand may be re-sent")
    sinks: Sinks = Field((), description="receivers of notices, see the guide on notices")
    notice_destinations: Destinations = Field(
        Destinations(), description="where webhooks may go: origins, and private networks"
    )
    notice_keep_sec: Seconds = Field(
        7 * DAY_SEC, description="how long the notices of a sink without a notifier are kept"
    )

    @classmethod
    def load(cls, name: str, **arguments: object) -> Self:
        """The settings of a queue from all sources; arguments that are None count as not given."""
        given = {field: value for field, value in arguments.items() if value is not None}
        sources = [given, from_environment(cls), *from_file(cls, name)]
        return cls.model_validate({**merged(sources), "name": name})

    def server(self) -> str | Path:
        """The URL to connect to, or the data directory of the embedded server."""
        if self.embedded:
            return self.data_dir
        if self.url is None:
            raise ConfigError(
                "url",
                f"no server is set: pass url=..., set {VARIABLES['url']} or write url: into {FILE}"
                " (redis://host:6379); or pass embedded=True or set RQUEUE_EMBEDDED=1",
            )
        return self.url

    def archive_server(self) -> str | Path | None:
        """The archive's URL, or the data directory of its embedded server; None without archive."""
        if self.archive == "none":
            return None
        if self.postgres_url is None and not self.embedded:
            raise ConfigError(
                "postgres_url",
                "the archive has no server: pass postgres_url=..., set RQUEUE_POSTGRES_URL or write"
                f" postgres_url: into {FILE} (postgresql://host/database); or set archive to none",
            )
        return self.postgres_url or self.data_dir

    @property
    def archive_known(self) -> bool:
        """Whether there is an archive, and this process can reach it."""
        return self.archive != "none" and (self.embedded or self.postgres_url is not None)

    @property
    def preset(self) -> Profile:
        """The profile itself."""
        return profile_of(self.profile)

    def live(self) -> LiveSettings:
        """The settings that may change while a process runs."""
        from rqueue.settings.live import LiveSettings  # noqa: PLC0415 - it needs this class first

        return LiveSettings(self)

    @model_validator(mode="wrap")
    @classmethod
    def check(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """The profile's defaults below what was given; errors become ConfigError."""
        try:
            if isinstance(data, Mapping):
                name = str(data.get("profile", DEFAULT_PROFILE.name))
                data = {**profile_defaults(profile_of(name)), **data}
            settings = handler(data)
            # A task delivered to a lost worker is taken back before the reaper counts a loss.
            longest = settings.lease_sec / 3
            if isinstance(data, Mapping):
                found = {"delivery_sec": min(settings.delivery_sec, longest), **data}
                settings = handler({**found, "archive": archive_of(settings)})
        except ValidationError as error:
            raise broken(error) from None
        check_validation(settings)
        check_dedupe(settings)
        place_of(settings.artifacts_url or "file:///")
        check_sinks(settings)
        if settings.embedded and settings.url is not None:
            raise ConfigError("embedded", "is given together with url; one server is enough")
        if has_duplicates(settings.limits):
            raise ConfigError("limits", "has two for the same type and key, or two for the queue")
        if settings.claim_memo_sec < 2 * settings.claim_wait_sec:
            raise ConfigError("claim_memo_sec", "is at least twice claim_wait_sec")
        if settings.delivery_sec > longest:
            raise ConfigError("delivery_sec", "is at most a third of lease_sec")
        return settings


def profile_defaults(profile: Profile) -> dict[str, object]:
    """The defaults that a profile gives."""
    return {
        "scale": profile.scale,
        "retry": profile.retry,
        "priority_boost_per_minute": profile.ageing_per_minute,
        "dedupe": profile.dedupe or "key",
        "lease_sec": profile.lease_sec,
        "claim_ttl_sec": profile.claim_ttl_sec,
        "timeout_sec": profile.timeout_sec,
        "spawn_policy": profile.spawn_policy,
        "breakers": Breakers() if profile.breakers else NO_BREAKERS,
        "poison": profile.poison,
        "validation": {"*": ("decision-report",)} if profile.decision_report else {},
        "agent_events": profile.agent_events,
        "embedding_jobs": profile.embedding_jobs,
    }


def archive_of(settings: Settings) -> Literal["none", "postgres"]:
    """Where ended tasks go; by default to a configured or existing PostgreSQL."""
    if settings.archive is not None:
        return settings.archive
    own = settings.embedded and (settings.data_dir / "postgres").is_dir()
    return "postgres" if own or settings.postgres_url is not None else "none"


def check_validation(settings: Settings) -> None:
    """Checks the validators that the queue requires, and their settings."""
    for type, kinds in settings.validation.items():
        if type != "*" and NAME.fullmatch(type) is None:
            raise ConfigError(
                "validation", f"{type!r} is not the name of a type, and not * for all"
            )
        for kind in kinds:
            if kind not in REQUIRABLE:
                rule = f"{kind} can be required by a task only; a queue may require "
                raise ConfigError(f"validation.{type}", rule + ", ".join(REQUIRABLE))
    if not all(settings.test_commands):
        raise ConfigError("test_commands", "has a command without words")
    if not (settings.judge_url or "http://").startswith(("http://", "https://")):
        raise ConfigError("judge_url", "begins with http:// or https://")


def check_dedupe(settings: Settings) -> None:
    """Checks that the archive can be searched for completed tasks, and that Redis keeps them until
    they are archived.
    """
    if not settings.dedupe_archive:
        return
    if not settings.archive_known:
        raise ConfigError("dedupe_archive", "needs an archive and its server: set postgres_url")
    if settings.dedupe_window_sec < SHORTEST_WINDOW_SEC:
        rule = f"is at least {SHORTEST_WINDOW_SEC} with dedupe_archive"
        raise ConfigError("dedupe_window_sec", rule)


def check_sinks(settings: Settings) -> None:
    """Checks where sinks may be; a URL that is a secret is checked when it is read."""
    for sink in settings.sinks:
        url = sink.url if isinstance(sink, WebSink) else None
        why = refused_target(target_of(url), settings.notice_destinations) if url else ""
        if why:
            raise ConfigError(f"sinks.{sink.name}.url", why)


FILE = "rqueue.yaml"
PREFIX = "RQUEUE_"
# The usual name of this variable, instead of our own pattern.
VARIABLES = {"url": "RQUEUE_REDIS_URL"}
WHERE = ("url", "embedded")
# Settings whose environment variables are JSON.
IN_JSON = frozenset(
    {"retry", "breakers", "limits", "turns", "validation", "test_commands", "sinks"}
    | {"notice_destinations", "retention"}
)


def merged(sources: list[dict[str, object]]) -> dict[str, object]:
    """The first source that has a setting decides it; url and embedded are one decision."""
    found: dict[str, object] = {}
    for source in sources:
        decided = any(found.get(field) for field in WHERE)
        for field, value in source.items():
            if field not in found and not (decided and field in WHERE):
                found[field] = value
    return found


def from_environment(model: type[BaseModel]) -> dict[str, object]:
    """The settings in RQUEUE_* variables; an empty one is not set."""
    found: dict[str, object] = {}
    for field in model.model_fields:
        variable = variable_of(field)
        text = os.environ.get(variable, "")
        if not text or field == "name":
            continue
        found[field] = from_json(variable, text) if field in IN_JSON else text
    return found


def variable_of(field: str) -> str:
    """The environment variable of a setting."""
    return VARIABLES.get(field, f"{PREFIX}{field.upper()}")


def from_json(variable: str, text: str) -> object:
    """A variable's JSON value."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(variable, "is not JSON") from error


def from_file(model: type[BaseModel], name: str) -> list[dict[str, object]]:
    """The settings of this queue in rqueue.yaml, and then those of all queues."""
    path = Path(FILE)
    if not path.is_file():
        return []
    import yaml  # noqa: PLC0415 - it loads slowly, and many queues have no file

    try:
        content = yaml.safe_load(path.read_text("utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(FILE, "cannot be read as YAML") from error
    everything = mapping(content, FILE)
    queues = mapping(everything.pop("queues", None) or {}, f"{FILE}: queues")
    own = mapping(queues.get(name) or {}, f"{FILE}: queues.{name}")
    # Sections for other parts are mappings that are no setting.
    common = {
        field: value
        for field, value in everything.items()
        if field in model.model_fields or not isinstance(value, Mapping)
    }
    return [own, common]


def mapping(value: object, where: str) -> dict[str, object]:
    """A part of the file that must be a mapping."""
    if not isinstance(value, Mapping):
        raise ConfigError(where, "is a mapping of names to values")
    return {str(key): item for key, item in value.items() if item is not None}


def broken(error: ValidationError) -> ConfigError:
    """The first of pydantic's errors as ConfigError."""
    found = error.errors(include_url=False, include_input=False)[0]
    setting = ".".join(str(step) for step in found["loc"]) or "settings"
    match found["type"]:
        case "missing":
            return ConfigError(setting, "is required")
        case "extra_forbidden":
            return ConfigError(setting, "is not a known setting")
        case _:
            rule = found["msg"].removeprefix("Value error, ")
            return ConfigError(setting, rule[:1].lower() + rule[1:])
