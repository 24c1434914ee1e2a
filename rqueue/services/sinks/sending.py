"""What all senders have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rqueue.policy.telling import Letter

# Letters that one sink is sent at once.
AT_ONCE = 4


class Undelivered(Exception):
    """A letter has not arrived, as far as is known; why, in a line that holds no secret. `refused`
    where the other side has said that it will not have this one, or not for all who are to have it.
    """

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused


class Sender(Protocol):
    """Tells one sink."""

    async def send(self, letter: Letter) -> None:
        """Returns when the letter has arrived; raises Undelivered. May be cancelled anywhere."""
        ...
