"""Has outputs prove themselves: RUNNING to VALIDATING, then one validator after the other."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from rqueue.client.schemas import is_installed
from rqueue.errors import ConfigError
from rqueue.model.attempt import Failed, Reason
from rqueue.model.codec import decode
from rqueue.model.proof import Check, command_of
from rqueue.model.spec import TaskSpec
from rqueue.policy.validation import allowed, demanded, failed, report_fault, unchecked
from rqueue.services.attempt import failure_of
from rqueue.services.outfit import in_the_end
from rqueue.services.proof.checkers import Checkers
from rqueue.services.proof.commands import folder_of, run
from rqueue.services.proof.judging import HttpJudge, Judgement, refusal
from rqueue.store import leases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rqueue.context import Context
    from rqueue.hooks import Hooks, Judge
    from rqueue.registry import Handler
    from rqueue.settings import Settings
    from rqueue.store.leases import Held
    from rqueue.store.shard import Shard

# The options of a task that say what its output must pass.
PROOF = ("validation", "validation_schema")
EXTRA = "install rqueue[validation] for its worker"
NO_JUDGE = "this worker has no judge: give the queue one with @queue.judge, or set judge_url"
NO_COMMAND = "this worker does not run {}: list it in its setting test_commands"
NO_FOLDER = "{!r} is outside of this worker's test_dir"


class Prover:
    """Checks the outputs of one worker."""

    def __init__(self, shard: Shard, settings: Settings, hooks: Hooks) -> None:
        self.shard = shard
        self.settings = settings
        self.hooks = hooks
        self.checkers = Checkers()
        url = settings.judge_url
        self.http = None if url is None else HttpJudge(url)

    @property
    def judge(self) -> Judge | HttpJudge | None:
        """Who judges: a function of the queue before an endpoint."""
        return self.hooks.judge or self.http

    def check(self, handler: Handler) -> None:
        """Raises ConfigError where the tasks of a handler ask for what this worker cannot check."""
        if handler.ack == "before":
            return
        told = {name: handler.options[name] for name in PROOF if name in handler.options}
        spec = TaskSpec.parse({"type": handler.type, **told})
        for check in demanded(handler.type, spec, self.settings):
            why = self.hindrance(check)
            if why:
                raise ConfigError(f"task {handler.type}", f"{check.kind}: {why}")

    def refused(self, checks: Sequence[Check]) -> Failed | None:
        """How an attempt fails whose output this worker could not check: before the work, not
        after it.
        """
        for check in checks:
            why = self.hindrance(check)
            if why:
                return unchecked(check.kind, why)
        return None

    def hindrance(self, check: Check) -> str:
        """Why this worker cannot check so, if it cannot."""
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

    async def begun(self, lease: Held) -> bool:
        """Says at the server that the output is being checked; False where the lease is lost."""
        words = await in_the_end(lambda: leases.validate(self.shard, [lease]))
        return words == ["OK"]

    async def fault(self, ctx: Context, checks: Sequence[Check], data: bytes) -> Failed | None:
        """How an output fails, by the first check that it does not pass. What a check raises means
        that it is not known; only the cancel of the code around it passes here.
        """
        output = decode(data, field="result") if data else None
        for check in checks:
            try:
                why = await self.why(check, ctx, output, data)
            except asyncio.CancelledError:
                if ctx.stopped:
                    raise
                return unchecked(check.kind, "it was cancelled from within", Reason.CANCELLED)
            except (OSError, Judgement) as error:
                return unchecked(check.kind, str(error) or type(error).__name__)
            except BaseException as error:
                # A judge is the user's code: it ends the attempt, never the worker.
                fault = failure_of(error)
                return replace(fault, message=unchecked(check.kind, fault.message).message)
            if why:
                return failed(check.kind, why)
        return None

    async def why(self, check: Check, ctx: Context, output: Any, data: bytes) -> str:
        """Why an output does not pass one check; nothing where it does."""
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
        """By a pattern or a schema; what takes too long has not passed."""
        limit_sec = self.settings.validation_timeout_sec
        try:
            return await self.checkers.check(check, output, limit_sec)
        except TimeoutError:
            return f"not done within {limit_sec:g} s (validation_timeout_sec): it was stopped"

    async def judged(self, check: Check, ctx: Context, output: Any) -> str:
        """By the judge."""
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
            raise Judgement(f"no answer within {limit_sec:g} s (judge_timeout_sec)") from None

    async def tested(self, check: Check, data: bytes) -> str:
        """By a program that ends with 0; the result is its input."""
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
        """Ends what it has started."""
        await self.checkers.aclose()
        if self.http is not None:
            await self.http.aclose()
