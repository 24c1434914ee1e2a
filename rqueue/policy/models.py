"""Which model an attempt is to use: what its task asks for, among what its worker has."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from rqueue.model.attempt import Cause, Failed, Reason

if TYPE_CHECKING:
    from rqueue.model.spec import TaskSpec

# So many failed attempts, and the next ones use the models to fall back on.
FALLS_BACK_AFTER = 2


def wanted(spec: TaskSpec, attempts: int) -> tuple[str, ...]:
    """The models that would do for the next attempt, the best first; none where any would."""
    if spec.fallback_models and attempts >= FALLS_BACK_AFTER:
        return spec.fallback_models
    return spec.model_preferences


def model_for(spec: TaskSpec, attempts: int, offered: Collection[str]) -> str | Failed | None:
    """The model of an attempt after so many failed; None where the task names none, and how the
    attempt fails where its worker has none of them. A worker that names no models has any.
    """
    names = wanted(spec, attempts)
    if not names:
        return None
    if not offered:
        return names[0]
    found = next((name for name in names if name in offered), None)
    if found is not None:
        return found
    rule = f"the task wants one of the models {', '.join(names)}; this worker has"
    way_out = "start a worker with --model for one of them, or change the task's preferences"
    why = f"{rule} {', '.join(sorted(offered))}: {way_out}"
    return Failed(Reason.ERROR, why, cause=Cause.OUTSIDE)
