"""Every script as the model speaks it: the call's names in, the server's reply out."""

from __future__ import annotations

from collections.abc import Callable

from rqueue.testing.model import Model
from rqueue.testing.verbs import (
    breakers,
    budgets,
    dags,
    holding,
    looking,
    passing,
    reasons,
    roles,
    submitting,
    working,
)
from rqueue.testing.verbs.words import Asked, Reply

Verb = Callable[[Model, Asked], Reply]

VERBS: dict[str, Verb] = {
    "breaker/close": breakers.closed,
    "breaker/open": breakers.opened,
    "breaker/read": breakers.read,
    "budget/read": budgets.read,
    "budget/set": budgets.given,
    "dag/budget": dags.budget,
    "dag/cancel": dags.cancel,
    "dag/commit": dags.commit,
    "dag/drop": dags.drop,
    "dag/edges": dags.edges,
    "dag/follow": dags.follow,
    "dag/forget": dags.forget,
    "dag/hold": dags.hold,
    "dag/list": dags.listed,
    "dag/rank": dags.rank,
    "dag/read": dags.read,
    "dag/spawn": dags.spawn,
    "dag/steps": dags.steps,
    "dag/submit": dags.submit,
    "dag/unhold": dags.unhold,
    "queue/answer": passing.answer,
    "queue/archived": passing.archived,
    "queue/counts": looking.counts,
    "queue/in_hand": looking.in_hand,
    "queue/lead": passing.lead,
    "queue/pause": passing.pause,
    "queue/resume": passing.resume,
    "queue/yield": passing.yield_lead,
    "role/drop": roles.dropped,
    "role/list": roles.listed,
    "role/set": roles.given,
    "task/cancel": submitting.cancel,
    "task/claim": holding.claim,
    "task/complete": holding.complete,
    "task/discard": submitting.discard,
    "task/edit": submitting.edit,
    "task/expire": passing.expire,
    "task/explain": looking.explain,
    "task/fail": holding.fail,
    "task/note": holding.note,
    "task/outputs": looking.outputs,
    "task/park": holding.park,
    "task/promote": passing.promote,
    "task/read": looking.read,
    "task/reap": holding.reap,
    "task/recall": passing.recall,
    "task/release": holding.release,
    "task/renew": holding.renew,
    "task/reschedule": submitting.reschedule,
    "task/rescore": submitting.rescore,
    "task/revive": submitting.revive,
    "task/run_now": submitting.run_now,
    "task/set_priority": submitting.set_priority,
    "task/start": holding.start,
    "task/step": holding.step,
    "task/submit": submitting.submit,
    "task/turn": holding.turn,
    "task/unblock": passing.unblock,
    "task/validate": holding.validate,
    "task/watch": submitting.watch,
    "task/why": reasons.why,
    "worker/drain": working.drain,
    "worker/leave": working.leave,
    "worker/list": working.listed,
    "worker/register": working.register,
}

# The model has no indexes, no stream and no inbox: these find nothing to do in it. The reaper is
# told of no look before this one, since a memory never stands still by itself.
IDLE: dict[str, Reply] = {
    "queue/dismiss": ["OK", 0],
    "queue/mend": ["OK", 0],
    "queue/prune": ["OK", "0", 0],
    "queue/receive": ["OK", "0-0"],
    "queue/received": ["OK", 0],
    "queue/restamp": ["OK", ""],
    "queue/see": ["OK"],
    "queue/sweep": ["OK", "", 0],
    "queue/tidy": ["OK", 0],
    "queue/unserved": ["OK", 0],
    "queue/walk": ["OK", "0"],
}

# What shows a server to an operator: there is none to show.
SERVER_ONLY = frozenset({"queue/look"})
