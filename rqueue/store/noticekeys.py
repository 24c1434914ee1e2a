"""The keys of what is told: events for who looks, and notices for sinks."""

from __future__ import annotations

from abc import ABC, abstractmethod


class NoticeKeys(ABC):
    """A part of Keys."""

    __slots__ = ()

    @property
    @abstractmethod
    def root(self) -> str:
        """The prefix of every key."""

    def events(self) -> str:
        """stream: what happened, for looking; capped."""
        return f"{self.root}events"

    def notices(self) -> str:
        """stream: the events that sinks are still to be told; each goes when all have had it."""
        return f"{self.root}notices"

    def noticed(self) -> str:
        """set: the names of the events that some sink wants."""
        return f"{self.root}noticed"

    def sinks(self) -> str:
        """zset: sinks by the last time that a notifier served them."""
        return f"{self.root}sinks"

    def sink(self, name: str) -> str:
        """hash: a sink: the `last` notice that it has come to, what it `wants`; and of each that
        was taken and not delivered `<tries> <who has it>`.
        """
        return f"{self.root}sink:{name}"

    def wanted(self, name: str) -> str:
        """zset: events by the last time that a notifier of a sink said it wants them."""
        return f"{self.root}wanted:{name}"

    def undelivered(self, name: str) -> str:
        """zset: notices that were taken for a sink, by the time when they may be tried again."""
        return f"{self.root}undelivered:{name}"
