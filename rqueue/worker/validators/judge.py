"""Judges of outputs: a function of the queue, or an HTTP endpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rqueue.errors import ConfigError
from rqueue.task.codec import encode

if TYPE_CHECKING:
    import httpx

    from rqueue.worker.context import Context

MAX_ANSWER = 65536
NO_LIMIT = 1 << 62
OK, TOO_MANY = 200, 429


class InvalidJudgement(ValueError):
    """A judge returned something other than the expected verdict."""


class HttpJudge:
    """Sends a POST request with the arguments of a judge function as JSON; the answer is `{"pass":
    true, "reason": "..."}`.
    """

    def __init__(self, url: str) -> None:
        self.httpx = imported()
        address = self.httpx.URL(url)
        # Logs show the address of each call, so the password is sent separately.
        self.auth = (address.username, address.password) if address.userinfo else None
        self.address = address.copy_with(userinfo=b"")
        self.client: httpx.AsyncClient | None = None

    async def __call__(self, ctx: Context, output: Any, criteria: Any) -> object:
        """The endpoint's verdict; raises httpx.HTTPError, or InvalidJudgement for an invalid
        answer.
        """
        task = ctx.task
        document = {
            "task": str(task.id),
            "type": task.type,
            "attempt": ctx.attempt,
            "payload": task.payload,
            "output": output,
            "criteria": criteria,
        }
        if self.client is None:
            # The caller sets the time limit.
            self.client = self.httpx.AsyncClient(timeout=None)
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        request = self.client.stream(
            "POST",
            self.address,
            content=encode(document, field="judge", max_bytes=NO_LIMIT),
            headers=headers,
            auth=self.auth,
        )
        async with request as response:
            if response.status_code == TOO_MANY:
                # Raised with its Retry-After, so that the task is parked as for a rate-limited
                # handler.
                response.raise_for_status()
            if response.status_code != OK:
                raise InvalidJudgement(f"it answered with HTTP status {response.status_code}")
            found = bytearray()
            # Without decompression: a small compressed answer could be very large.
            async for more in response.aiter_raw():
                found += more
                if len(found) > MAX_ANSWER:
                    raise InvalidJudgement(f"its answer is longer than {MAX_ANSWER} bytes")
        return pair_in(bytes(found))

    async def aclose(self) -> None:
        """Closes the connections."""
        if self.client is not None:
            await self.client.aclose()
            self.client = None


def pair_in(data: bytes) -> tuple[object, object]:
    """An endpoint's answer in the form of a judge function's."""
    try:
        answer = json.loads(data)
    except ValueError:
        raise InvalidJudgement("its answer is not JSON") from None
    if not isinstance(answer, dict):
        raise InvalidJudgement("its answer is not a JSON object")
    return answer.get("pass"), answer.get("reason", "")


def refusal(answer: object) -> str:
    """Why a judge refuses an output; empty if it does not."""
    match answer:
        case True | (True, str()):
            return ""
        case False:
            return "refused without a reason"
        case (False, str(reason)):
            return reason or "refused without a reason"
        case _:
            raise InvalidJudgement(
                "a judge returns True or False, or one of them with a reason as text"
            )


def imported() -> Any:
    """The httpx module; raises ConfigError if it is not installed."""
    try:
        import httpx  # noqa: PLC0415  # only where there is such a judge
    except ImportError:
        rule = "needs httpx: install rqueue[validation]"
        raise ConfigError("judge_url", rule) from None
    return httpx
