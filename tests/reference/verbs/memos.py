"""Calls by hand: answered as before where they are sent again, whatever came between."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.verbs.words import Asked, Reply


# What is said of a task for which something was done.
DONE = ("OK", "LATE", "budget_exceeded")


def once(verb: Callable[[Model, Asked], Reply]) -> Callable[[Model, Asked], Reply]:
    """The verb, which is done once under the name of its call; a refusal is not remembered, nor
    one of all that a call is about.
    """

    def answer(model: Model, asked: Asked) -> Reply:
        if str(asked.args.get("begin", 1)) == "0":
            # It goes on with what another call has begun, and finds how far that is.
            return verb(model, asked)
        request = asked.text("request")
        model.answers = {
            name: kept for name, kept in model.answers.items() if kept[0] > model.now_ms
        }
        if request in model.answers:
            return model.answers[request][1]
        reply = verb(model, asked)
        done = not asked.rows or any(word in DONE for word in reply[1:])
        if request and reply[0] == "OK" and done:
            model.answers[request] = (model.now_ms + asked.number("memo_ms"), reply)
        return reply

    return answer
