"""The settings of one queue, from arguments, environment, rqueue.yaml and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from rqueue.errors import ConfigError
from rqueue.model.blame import BadWorkers, Poison, PoisonRule, WorkerRule
from rqueue.model.breaker import NO_BREAKERS, Breakers
from rqueue.model.checked import Name, Principal
from rqueue.model.dag import SpawnRule
from rqueue.model.dedupe import check_window
from rqueue.model.limit import Limit, doubled
from rqueue.model.profile import DEFAULT_PROFILE, Profile, profile_of
from rqueue.model.proof import Validator, check_asked
from rqueue.model.retention import Retention
from rqueue.model.retry import RetryPolicy
from rqueue.model.role import Role
from rqueue.model.scale import Scale
from rqueue.model.shelf import place_of
from rqueue.model.sink import Destinations, Sinks, WebSink
from rqueue.model.turns import Turns
from rqueue.policy.destination import refused_target, target_of
from rqueue.sources import FILE, VARIABLES, broken, from_environment, from_file, merged

DAY_SEC = 86_400

Seconds = Annotated[float, Field(gt=0, le=365 * DAY_SEC, allow_inf_nan=False)]
SecondsOrNone = Annotated[float, Field(ge=0, le=365 * DAY_SEC, allow_inf_nan=False)]
Bytes = Annotated[int, Field(ge=1024, le=64 * 1024 * 1024)]


class Settings(BaseModel):
    """Every knob of one queue. A bad value is a ConfigError that names the setting."""

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
        DEFAULT_PROFILE.name, description="whose defaults hold where nothing else is said"
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
        False, description="whether one counts for ever that the archive has as completed"
    )
    lease_sec: Seconds = Field(30, description="how long a worker may be silent")
    claim_ttl_sec: Seconds = Field(60, description="how long a claimed task may not be started")
    timeout_sec: Seconds = Field(3600, description="how long an attempt may run, unless it says so")
    timeout_grace_sec: SecondsOrNone = Field(10, description="added to the timeout before the end")
    kill_grace_sec: SecondsOrNone = Field(
        5, description="how long a process handler that is stopped may take to end"
    )
    lost_worker_counts: bool = Field(True, description="whether a lost worker spends an attempt")
    max_reclaims: int = Field(10, ge=1, le=1000, description="lost workers a task may have")
    breakers: Breakers = Field(
        NO_BREAKERS,
        description="when a type that fails is given a rest: defaults and overrides; off where"
        " nothing is said, but for the profile `reference`",
    )
    poison: Poison = Field(PoisonRule(), description="when a task that fails is given up at once")
    bad_workers: BadWorkers = Field(WorkerRule(), description="when a worker is sent home")
    limits: tuple[Limit, ...] = Field(
        (), description="how many tasks of a type, a key or the queue, in a time and at once"
    )
    turns: Turns = Field(Turns(), description="turns between limit keys: enabled, and weights")
    rate_limit_counts: bool = Field(False, description="whether a parked attempt is spent")
    max_rate_limit_parks: int = Field(20, ge=0, le=1000, description="parks a task may have")
    max_slowdown_sec: Seconds = Field(3600, description="how long a limit rests a type or key")
    result_ttl_sec: SecondsOrNone = Field(DAY_SEC, description="how long an ended task is kept")
    archive: Literal["none", "postgres"] | None = Field(
        None,
        description="where ended tasks go; to the PostgreSQL that is named or in data_dir if any",
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
    embedding_jobs: bool = Field(False, description="whether what completes is to be embedded")
    retention: Retention = Field(Retention(), description="days that the archive keeps what ended")
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
        10, description="how often at most the critical path of a DAG that changes is found anew"
    )
    spawn_policy: SpawnRule = Field(
        "own_dag", description="what a task may spawn: any, those of its own agent, or none"
    )
    principal: Principal | None = Field(
        None, description="who this process is to the queue, as kind:name, such as agent:coder"
    )
    default_role: Role = Field(
        "orchestrator", description="the role of a principal that was given none"
    )
    inbox_role: Role = Field(
        "orchestrator", description="that of the inbox, which submits as service:inbox"
    )
    validation: dict[str, tuple[Validator, ...]] = Field(
        default_factory=dict,
        description="what outputs must pass beside what their tasks ask for: type, or * -> kinds",
    )
    validation_timeout_sec: Seconds = Field(
        10, description="how long an output may be matched by a pattern or a schema"
    )
    test_commands: tuple[tuple[str, ...], ...] = Field(
        (), description="what `test-pass` may run: lists of words; a last * is any more words"
    )
    test_dir: Path = Field(Path("."), description="where it may run that: here or below")
    test_timeout_sec: Seconds = Field(600, description="how long that may take")
    judge_url: str | None = Field(
        None, repr=False, description="the HTTP endpoint of `llm-judge`, http:// or https://"
    )
    judge_timeout_sec: Seconds = Field(60, description="how long a judge may take")
    call_timeout_sec: Seconds = Field(10, description="how long a call is tried and re-sent")
    wait_replicas: int = Field(0, ge=0, le=100, description="replicas that must have a submit")
    park_sec: Seconds = Field(5, description="how long a claim waits at the server")
    handoff_sec: Seconds = Field(
        2, description="how soon a mailed task must be started; at most a third of lease_sec"
    )
    unserved_after_sec: Seconds = Field(
        60, description="how long tasks that no live worker can do wait before that is an event"
    )
    claim_memo_sec: Seconds = Field(120, description="how long a claim by hand may be re-sent")
    sinks: Sinks = Field((), description="who is told of what happens, see the guide on notices")
    notice_destinations: Destinations = Field(
        Destinations(), description="where webhooks may go: origins, and private networks"
    )
    notice_keep_sec: Seconds = Field(
        7 * DAY_SEC, description="how long the notices of a sink are kept that nobody serves"
    )

    @classmethod
    def load(cls, name: str, **arguments: object) -> Self:
        """The settings of a queue from all sources; arguments that are None count as not given."""
        given = {field: value for field, value in arguments.items() if value is not None}
        sources = [given, from_environment(cls), *from_file(cls, name)]
        return cls.model_validate({**merged(sources), "name": name})

    def server(self) -> str | Path:
        """The URL to connect to, or the data directory whose embedded server is wanted."""
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
        """Whether there is an archive, and this process knows where."""
        return self.archive != "none" and (self.embedded or self.postgres_url is not None)

    @property
    def preset(self) -> Profile:
        """The profile itself, for what it says beside the settings."""
        return profile_of(self.profile)

    @model_validator(mode="wrap")
    @classmethod
    def check(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """The profile's defaults below what was given; what is wrong leaves as ConfigError."""
        try:
            if isinstance(data, Mapping):
                name = str(data.get("profile", DEFAULT_PROFILE.name))
                data = {**profile_defaults(profile_of(name)), **data}
            settings = handler(data)
            # What was mailed to a lost worker comes back free before the reaper counts it.
            longest = settings.lease_sec / 3
            if isinstance(data, Mapping):
                found = {"handoff_sec": min(settings.handoff_sec, longest), **data}
                settings = handler({**found, "archive": archive_of(settings)})
        except ValidationError as error:
            raise broken(error) from None
        check_asked(settings.validation, settings.test_commands, settings.judge_url)
        window = settings.dedupe_window_sec if settings.dedupe_archive else None
        check_window(settings.archive_known, window)
        place_of(settings.artifacts_url or "file:///")
        check_sinks(settings)
        if settings.embedded and settings.url is not None:
            raise ConfigError("embedded", "is given together with url; one server is enough")
        if doubled(settings.limits):
            raise ConfigError("limits", "has two for the same type and key, or two for the queue")
        if settings.claim_memo_sec < 2 * settings.park_sec:
            raise ConfigError("claim_memo_sec", "is at least twice park_sec")
        if settings.handoff_sec > longest:
            raise ConfigError("handoff_sec", "is at most a third of lease_sec")
        return settings


def profile_defaults(profile: Profile) -> dict[str, object]:
    """The settings that a profile decides when nobody else does."""
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
    """Where ended tasks go; when nobody says so, to the PostgreSQL that is there."""
    if settings.archive is not None:
        return settings.archive
    own = settings.embedded and (settings.data_dir / "postgres").is_dir()
    return "postgres" if own or settings.postgres_url is not None else "none"


def check_sinks(settings: Settings) -> None:
    """The rules for where sinks may be; of those whose URL is a secret when it is read."""
    for sink in settings.sinks:
        url = sink.url if isinstance(sink, WebSink) else None
        why = refused_target(target_of(url), settings.notice_destinations) if url else ""
        if why:
            raise ConfigError(f"sinks.{sink.name}.url", why)
