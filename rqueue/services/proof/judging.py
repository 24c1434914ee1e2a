"""Asks a judge whether an output is good: a function of the queue, or an HTTP endpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rqueue.errors import ConfigError
from rqueue.model.codec import encode

if TYPE_CHECKING:
    import httpx

    from rqueue.context import Context

MAX_ANSWER = 65536
NO_LIMIT = 1 << 62
OK, TOO_MANY = 200, 429


class Judgement(ValueError):
    """A judge answered what means neither yes nor no."""


class HttpJudge:
    """Asks an endpoint: a POST with what a function would be told, as JSON, which is answered with
    `{"pass": true, "reason": "..."}`.
    """

    def __init__(self, url: str) -> None:
        self.httpx = imported()
        address = self.httpx.URL(url)
        # Logs show the address of each call: the password is sent beside it.
        self.auth = (address.username, address.password) if address.userinfo else None
        self.address = address.copy_with(userinfo=b"")
        self.client: httpx.AsyncClient | None = None

    async def __call__(self, ctx: Context, output: Any, criteria: Any) -> object:
        """What the endpoint says; raises httpx.HTTPError, or Judgement where that is no answer."""
        task = ctx.task
        told = {
            "task": str(task.id),
            "type": task.type,
            "attempt": ctx.attempt,
            "payload": task.payload,
            "output": output,
            "criteria": criteria,
        }
        if self.client is None:
            # How long it may take is the business of who asks.
            self.client = self.httpx.AsyncClient(timeout=None)
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        asked = self.client.stream(
            "POST",
            self.address,
            content=encode(told, field="judge", max_bytes=NO_LIMIT),
            headers=headers,
            auth=self.auth,
        )
        async with asked as response:
            if response.status_code == TOO_MANY:
                # Its Retry-After goes along: the task is set aside, as one whose handler met this.
                response.raise_for_status()
            if response.status_code != OK:
                raise Judgement(f"it answered with HTTP status {response.status_code}")
            found = bytearray()
            # As it comes: what was packed small could be large.
            async for more in response.aiter_raw():
                found += more
                if len(found) > MAX_ANSWER:
                    raise Judgement(f"its answer is longer than {MAX_ANSWER} bytes")
        return pair_in(bytes(found))

    async def aclose(self) -> None:
        """Closes its connections."""
        if self.client is not None:
            await self.client.aclose()
            self.client = None


def pair_in(data: bytes) -> tuple[object, object]:
    """An endpoint's answer as a function would give it."""
    try:
        answer = json.loads(data)
    except ValueError:
        raise Judgement("its answer is no JSON") from None
    if not isinstance(answer, dict):
        raise Judgement("its answer is no object")
    return answer.get("pass"), answer.get("reason", "")


def refusal(answer: object) -> str:
    """Why a judge that answered so refuses an output; nothing where it does not."""
    match answer:
        case True | (True, str()):
            return ""
        case False:
            return "refused without a reason"
        case (False, str(reason)):
            return reason or "refused without a reason"
        case _:
            raise Judgement("a judge gives True or False, or one of them with a reason as text")


def imported() -> Any:
    """httpx, or ConfigError where it is not installed."""
    try:
        import httpx  # noqa: PLC0415  # only where there is such a judge
    except ImportError:
        rule = "needs httpx: install rqueue[validation]"
        raise ConfigError("judge_url", rule) from None
    return httpx
