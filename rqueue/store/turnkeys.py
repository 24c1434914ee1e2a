"""The keys of lanes whose tasks have limit keys: whose turn it is, and who has none."""

from __future__ import annotations

from abc import ABC, abstractmethod


class TurnKeys(ABC):
    """A part of Keys."""

    __slots__ = ()

    @property
    @abstractmethod
    def root(self) -> str:
        """The prefix of every key."""

    def keyed(self, number: int, key: str) -> str:
        """zset: the READY tasks of a lane that have this limit key, by score as in the lane."""
        return f"{self.root}keyed:{number}:{key}"

    def heads(self, number: int) -> str:
        """zset: of a lane of keys the first task of each key that may be given a turn, by score;
        others that were first may be among them."""
        return f"{self.root}heads:{number}"

    def turns(self, number: int) -> str:
        """zset: the keys of a lane that may be given a turn, by how far their turns have come."""
        return f"{self.root}turns:{number}"

    def turned(self) -> str:
        """zset: how far the turns of the shard have come, `@now`, and those of keys that are
        further on, whatever their lanes. The janitor drops it when no lane of keys has anything to
        give."""
        return f"{self.root}turned"

    def shut(self, number: int) -> str:
        """zset: the keys of a lane that have no turns, by the time when they have them again:
        `inf` where one of those in hand must end first."""
        return f"{self.root}shut:{number}"

    def rules(self) -> str:
        """hash: number of a lane of keys -> the name of the rules by which keys were shut."""
        return f"{self.root}rules"

    def hand(self, key: str) -> str:
        """zset: the tasks of a key that are in hand, by the numbers of their lanes."""
        return f"{self.root}hand:{key}"

    def full(self) -> str:
        """set: keys of which somebody found as many in hand as may be."""
        return f"{self.root}full"
