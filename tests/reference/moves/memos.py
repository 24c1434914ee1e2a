"""Calls of operators: repeated calls return the first reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.moves.call import Call, Reply


# Results for a task that was changed.
DONE = ("OK", "LATE", "budget_exceeded")


def once(verb: Callable[[Model, Call], Reply]) -> Callable[[Model, Call], Reply]:
    """Runs a move once for each call name. Refusals are not stored."""

    def answer(model: Model, call: Call) -> Reply:
        if str(call.args.get("begin", 1)) == "0":
            # It continues another call and depends on its progress.
            return verb(model, call)
        request = call.text("request")
        model.answers = {
            name: kept for name, kept in model.answers.items() if kept[0] > model.now_ms
        }
        if request in model.answers:
            return model.answers[request][1]
        reply = verb(model, call)
        done = not call.rows or any(word in DONE for word in reply[1:])
        if request and reply[0] == "OK" and done:
            model.answers[request] = (model.now_ms + call.number("memo_ms"), reply)
        return reply

    return answer
