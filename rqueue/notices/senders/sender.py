"""The interface of all senders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rqueue.notices.wording import Message

# Messages that one sink is sent concurrently.
CONCURRENCY = 4


class Undelivered(Exception):
    """A message that, as far as is known, has not arrived. The reason contains no secret. `refused`
    is true if the receiver refuses this message, or some of its recipients.
    """

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused


class Sender(Protocol):
    """Sends messages to one sink."""

    async def send(self, message: Message) -> None:
        """Sends a message. Returns when it has arrived, else raises Undelivered. May be cancelled
        at any point.
        """
        ...
