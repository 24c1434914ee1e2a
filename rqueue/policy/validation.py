"""What an output must pass before its task is completed, and what a failed check means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from rqueue.model.attempt import Cause, Failed, Reason
from rqueue.model.proof import Check, Command, Validator

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.model.spec import TaskSpec

# In the settings: for every type; in an allowed command: whatever words follow.
ANY = "*"
REPORT = "decisionReport"
MAX_WHY = 4000


class ValidationTerms(Protocol):
    """What a queue's settings say about proofs."""

    @property
    def validation(self) -> Mapping[str, tuple[Validator, ...]]: ...


def demanded(type: str, spec: TaskSpec | None, terms: ValidationTerms) -> tuple[Check, ...]:
    """The validators of a task, its own first, then those that its queue asks of its type. A plain
    task has no spec.
    """
    own = () if spec is None or spec.validation == "none" else spec.checks
    if not terms.validation:
        return tuple(check for check in own if is_needed(check))
    kinds = [*terms.validation.get(type, ()), *terms.validation.get(ANY, ())]
    named = {check.kind for check in own}
    asked = [Check(kind) for kind in dict.fromkeys(kinds) if kind not in named]
    return tuple(check for check in (*own, *asked) if is_needed(check))


def is_needed(check: Check) -> bool:
    """Whether there is anything to check: a schema that is not given lets all pass."""
    return check.kind != "json-schema" or check.value is not None


def allowed(command: Command, commands: Sequence[Sequence[str]]) -> bool:
    """Whether a worker may run it: one that is listed word for word, or begins as one that ends
    with a star.
    """
    words = list(command.words)
    for listed in map(list, commands):
        if words == listed:
            return True
        if listed[-1:] == [ANY] and words[: len(listed) - 1] == listed[:-1]:
            return True
    return False


def report_fault(output: JsonValue) -> str:
    """What is wrong with the decision report of an output; nothing where it has one."""
    report = output.get(REPORT) if isinstance(output, dict) else None
    if report is None:
        return f"missing: return an object with {REPORT}, which says what was decided and why"
    if not isinstance(report, dict) or not report:
        return f"{REPORT} is an object that is not empty"
    return ""


def failed(kind: Validator, why: str) -> Failed:
    """An output that did not pass; tried again as the policy of the task says."""
    reason = Reason.INCOMPLETE if kind == "decision-report" else Reason.INVALID_OUTPUT
    return Failed(reason, f"{kind}: {bounded(why)}")


def unchecked(kind: Validator, why: str, reason: Reason = Reason.ERROR) -> Failed:
    """An output that nobody could check: it may be good."""
    message = f"{kind} could not be checked: {bounded(why)}"
    return Failed(reason, message, cause=Cause.OUTSIDE)


def bounded(why: str) -> str:
    """A text of which the beginning and the end are kept."""
    if len(why) <= MAX_WHY:
        return why
    half = MAX_WHY // 2
    return f"{why[:half]}\n... {len(why) - 2 * half} characters ...\n{why[-half:]}"
