"""The interface of all senders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rqueue.notices.wording import Message

# Messages that one sink is sent concurrently.
CONCURRENCY = 4


class Undelivered(Exception):
    """A message that has not arrived, as far as is known; the reason contains no secret. `refused`
    where the receiver refuses this message, or some of its recipients.
    """

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused


class Sender(Protocol):
    """Sends messages to one sink."""

    async def send(self, message: Message) -> None:
        """Returns when the message has arrived; raises Undelivered. May be cancelled anywhere."""
        ...
