"""A scene as it was: both sides kept at one moment, to be gone on from again and again."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

from tests.machine.twin import Twin
from tests.machine.wire import Wire

KEEP = """
local found = {}
for _, key in ipairs(redis.call("KEYS", "*")) do
  found[#found + 1] = key
  found[#found + 1] = tostring(math.max(redis.call("PTTL", key), 0))
  found[#found + 1] = redis.call("DUMP", key)
end
return found
"""
BRING_BACK = """
redis.call("FLUSHALL")
for at = 1, #ARGV, 3 do
  redis.call("RESTORE", ARGV[at], ARGV[at + 1], ARGV[at + 2])
end
"""


class Staged(Protocol):
    """Two sides, and the moves that they make together."""

    @property
    def twin(self) -> Twin: ...

    def move(self, name: str) -> None: ...


Scene = TypeVar("Scene", bound=Staged)


def any_two(scene: Staged, wire: Wire, moves: Iterable[str]) -> None:
    """Every move from here, and after each of them every move: the second is compared."""
    begun = Kept(scene, wire)
    for first in moves:
        done = "nothing"
        try:
            scene = begun.again()
            scene.move(first)
            scene.twin.look()
            moved = Kept(scene, wire)
            for second in moves:
                done = second
                moved.again().move(second)
        except AssertionError as error:
            raise AssertionError(f"{first}, then {done}: {error}") from error


class Kept(Generic[Scene]):
    """A scene and its server at the moment this was made."""

    def __init__(self, scene: Scene, wire: Wire) -> None:
        self.wire, self.now_ms = wire, wire.now_ms
        found: Any = wire.client.eval(KEEP, 0)
        self.server = list(found)
        written = io.BytesIO()
        Sharing(written, wire).dump(scene)
        self.scene = written.getvalue()

    def again(self) -> Scene:
        """The scene as it was then, and the server too."""
        self.wire.client.eval(BRING_BACK, 0, *self.server)
        self.wire.now_ms = self.now_ms
        scene: Scene = Shared(io.BytesIO(self.scene), self.wire).load()
        return scene


class Sharing(pickle.Pickler):
    """Writes all but the wire: there is one."""

    def __init__(self, file: io.BytesIO, wire: Wire) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.wire = wire

    def persistent_id(self, thing: object) -> str | None:
        return "wire" if thing is self.wire else None


class Shared(pickle.Unpickler):
    """Reads it with the wire that there is."""

    def __init__(self, file: io.BytesIO, wire: Wire) -> None:
        super().__init__(file)
        self.wire = wire

    def persistent_load(self, name: str) -> Wire:
        assert name == "wire"
        return self.wire
