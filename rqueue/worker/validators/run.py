"""Runs the validators of an output before its task is completed, and turns a failed check into a
failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from rqueue.core import leases
from rqueue.errors import ConfigError
from rqueue.task.attempt.outcome import Cause, Failed, Reason
from rqueue.task.codec import decode
from rqueue.task.schema import is_installed
from rqueue.task.spec import TaskSpec
from rqueue.task.validation import Check, Command, Validator, command_of
from rqueue.worker.attempt import failure_of, until_answered
from rqueue.worker.validators.checkers import Checkers
from rqueue.worker.validators.commands import folder_of, run
from rqueue.worker.validators.judge import HttpJudge, InvalidJudgement, refusal

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.core.leases import HeldLease
    from rqueue.middleware import Hooks, Judge
    from rqueue.settings.load import Settings
    from rqueue.store.shard import Shard
    from rqueue.worker.context import Context
    from rqueue.worker.handler import Handler


# In the settings it means every type; at the end of an allowed command, any arguments.
ANY = "*"
REPORT = "decisionReport"
MAX_WHY = 4000
# The options of a task that choose its validators.
VALIDATION_OPTIONS = ("validation", "validation_schema")
EXTRA = "install rqueue[validation] for its worker"
NO_JUDGE = "this worker has no judge: give the queue one with @queue.judge, or set judge_url"
NO_COMMAND = "this worker does not run {}: add it to its setting test_commands"
NO_FOLDER = "{!r} is outside of this worker's test_dir"


class ValidationTerms(Protocol):
    """What a queue's settings require of outputs."""

    @property
    def validation(self) -> Mapping[str, tuple[Validator, ...]]: ...


def validators_of(type: str, spec: TaskSpec | None, terms: ValidationTerms) -> tuple[Check, ...]:
    """The validators of a task: its own, then those that its queue requires of its type. A plain
    task has no spec.
    """
    own = () if spec is None or spec.validation == "none" else spec.checks
    if not terms.validation:
        return tuple(check for check in own if is_needed(check))
    kinds = [*terms.validation.get(type, ()), *terms.validation.get(ANY, ())]
    named = {check.kind for check in own}
    required = [Check(kind) for kind in dict.fromkeys(kinds) if kind not in named]
    return tuple(check for check in (*own, *required) if is_needed(check))


def is_needed(check: Check) -> bool:
    """Whether there is anything to check; a schema that is not given accepts everything."""
    return check.kind != "json-schema" or check.value is not None


def allowed(command: Command, commands: Sequence[Sequence[str]]) -> bool:
    """Whether a worker may run a command: listed exactly, or with a prefix that ends with
    a star.
    """
    words = list(command.words)
    for listed in map(list, commands):
        if words == listed:
            return True
        if listed[-1:] == [ANY] and words[: len(listed) - 1] == listed[:-1]:
            return True
    return False


def report_fault(output: JsonValue) -> str:
    """What is wrong with the decision report of an output; empty if it is valid."""
    report = output.get(REPORT) if isinstance(output, dict) else None
    if report is None:
        return f"missing: return an object with {REPORT}, which states the decision and its reasons"
    if not isinstance(report, dict) or not report:
        return f"{REPORT} must be an object that is not empty"
    return ""


def failed(kind: Validator, why: str) -> Failed:
    """The failure of an output that does not pass; retried as the task's policy says."""
    reason = Reason.INCOMPLETE if kind == "decision-report" else Reason.INVALID_OUTPUT
    return Failed(reason, f"{kind}: {bounded(why)}")


def unchecked(kind: Validator, why: str, reason: Reason = Reason.ERROR) -> Failed:
    """The failure of an output that could not be checked; the output may be good."""
    message = f"{kind} could not be checked: {bounded(why)}"
    return Failed(reason, message, cause=Cause.OUTSIDE)


def bounded(why: str) -> str:
    """A text shortened to its beginning and its end."""
    if len(why) <= MAX_WHY:
        return why
    half = MAX_WHY // 2
    return f"{why[:half]}\n... {len(why) - 2 * half} characters ...\n{why[-half:]}"


class ValidatorRunner:
    """Runs the validators of one worker."""

    def __init__(self, shard: Shard, settings: Settings, hooks: Hooks) -> None:
        self.shard = shard
        self.settings = settings
        self.hooks = hooks
        self.checkers = Checkers()
        url = settings.judge_url
        self.http = None if url is None else HttpJudge(url)

    @property
    def judge(self) -> Judge | HttpJudge | None:
        """The judge: a function of the queue, else the endpoint."""
        return self.hooks.judge or self.http

    def check(self, handler: Handler) -> None:
        """Raises ConfigError if a handler's tasks require a validator that this worker
        cannot run.
        """
        if handler.ack == "before":
            return
        options = {
            name: handler.options[name] for name in VALIDATION_OPTIONS if name in handler.options
        }
        spec = TaskSpec.parse({"type": handler.type, **options})
        for check in validators_of(handler.type, spec, self.settings):
            why = self.obstacle(check)
            if why:
                raise ConfigError(f"task {handler.type}", f"{check.kind}: {why}")

    def refused(self, checks: Sequence[Check]) -> Failed | None:
        """The failure of an attempt whose output this worker could not check; found before the
        handler runs.
        """
        for check in checks:
            why = self.obstacle(check)
            if why:
                return unchecked(check.kind, why)
        return None

    def obstacle(self, check: Check) -> str:
        """Why this worker cannot run a check; empty if it can."""
        match check.kind:
            case "json-schema":
                return "" if is_installed() else EXTRA
            case "llm-judge":
                return NO_JUDGE if self.judge is None else ""
            case "test-pass":
                command = command_of(check.value)
                if not allowed(command, self.settings.test_commands):
                    return NO_COMMAND.format(" ".join(command.words))
                inside = folder_of(self.settings.test_dir, command.cwd)
                return "" if inside else NO_FOLDER.format(command.cwd)
            case _:
                return ""

    async def start(self, lease: HeldLease) -> bool:
        """Reports that the output is being checked; False if the lease is lost."""
        words = await until_answered(lambda: leases.validate(self.shard, [lease]))
        return words == ["OK"]

    async def fault(self, ctx: Context, checks: Sequence[Check], data: bytes) -> Failed | None:
        """The failure of an output, from the first check that it does not pass. A check that raises
        means that the output is unchecked. Only the cancel of the attempt itself is raised.
        """
        output = decode(data, field="result") if data else None
        for check in checks:
            try:
                why = await self.why(check, ctx, output, data)
            except asyncio.CancelledError:
                if ctx.stopped:
                    raise
                return unchecked(check.kind, "it was cancelled by its own code", Reason.CANCELLED)
            except (OSError, InvalidJudgement) as error:
                return unchecked(check.kind, str(error) or type(error).__name__)
            except BaseException as error:
                # A judge is user code: it ends the attempt, never the worker.
                fault = failure_of(error)
                return replace(fault, message=unchecked(check.kind, fault.message).message)
            if why:
                return failed(check.kind, why)
        return None

    async def why(self, check: Check, ctx: Context, output: Any, data: bytes) -> str:
        """Why an output does not pass a check; empty if it does."""
        match check.kind:
            case "decision-report":
                return report_fault(output)
            case "regex" | "json-schema":
                return await self.matched(check, output)
            case "llm-judge":
                return await self.judged(check, ctx, output)
            case "test-pass":
                return await self.tested(check, data)
            case _:
                assert_never(check.kind)

    async def matched(self, check: Check, output: Any) -> str:
        """Checks a pattern or a schema; a timeout counts as not passed."""
        limit_sec = self.settings.validation_timeout_sec
        try:
            return await self.checkers.check(check, output, limit_sec)
        except TimeoutError:
            return f"not done within {limit_sec:g} s (validation_timeout_sec): it was stopped"

    async def judged(self, check: Check, ctx: Context, output: Any) -> str:
        """Calls the judge."""
        judge = self.judge
        if judge is None:
            return NO_JUDGE
        limit_sec = self.settings.judge_timeout_sec
        clock = asyncio.timeout(limit_sec)
        try:
            async with clock:
                return refusal(await judge(ctx, output, check.value))
        except TimeoutError:
            if not clock.expired():
                raise
            raise InvalidJudgement(
                f"no answer within {limit_sec:g} s (judge_timeout_sec)"
            ) from None

    async def tested(self, check: Check, data: bytes) -> str:
        """Runs a program with the result on standard input; exit code 0 passes."""
        command = command_of(check.value)
        folder = folder_of(self.settings.test_dir, command.cwd)
        if folder is None:
            return NO_FOLDER.format(command.cwd)
        limit_sec = command.timeout_sec or self.settings.test_timeout_sec
        ran = await run(command.words, Path(folder), data or b"null", limit_sec)
        if ran.code == 0:
            return ""
        how = f"killed after {limit_sec:g} s" if ran.code is None else f"exit code {ran.code}"
        return f"{how}\n{ran.tail}".strip()

    async def aclose(self) -> None:
        """Ends the processes and closes the connections."""
        await self.checkers.aclose()
        if self.http is not None:
            await self.http.aclose()
