"""Which queues one worker process serves, and in what order."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rqueue.errors import ConfigError
from rqueue.queue import Queue
from rqueue.runtime import assemble, open_runtime
from rqueue.services.seats import Seats
from rqueue.settings import Settings

# One queue's share is at most so many times another's.
MAX_WEIGHT = 1000


@dataclass(frozen=True, slots=True)
class Served:
    """The queues of a worker process, and the seats that they share."""

    queues: Sequence[Queue]
    seats: Seats

    @property
    def names(self) -> str:
        """The queues by name."""
        return ",".join(queue.name for queue in self.queues)


def served(app: Queue, module: str, wanted: Sequence[str], concurrency: int) -> Served:
    """What `--queue NAME[:WEIGHT]` asks for; without it the application's own queue.

    Without weights the queues are served in strict order, the first first.
    """
    if not wanted:
        return Served([app], Seats(concurrency))
    shares = [share_of(word) for word in wanted]
    names = [name for name, _ in shares]
    if len(set(names)) != len(names):
        raise ConfigError("--queue", "names a queue twice")
    weights = [weight for _, weight in shares]
    if any(weights) and not all(weights):
        raise ConfigError("--queue", "has a weight for some queues; give all of them one, or none")
    return Served([queue_of(app, module, name) for name in names], Seats(concurrency, weights))


def check_types(queues: Sequence[Queue], types: Sequence[str]) -> None:
    """Raises ConfigError for a type that some queue has no handler for: its tasks would be claimed
    and could only fail.
    """
    for queue in queues:
        known = queue.registry.handlers
        unknown = [type for type in types if type not in known]
        if unknown:
            names = ", ".join(sorted(known))
            rule = f"{unknown[0]!r} has no handler in queue {queue.name}, which knows {names}"
            raise ConfigError("--type", rule)


def share_of(word: str) -> tuple[str, int]:
    """The name and the weight in NAME[:WEIGHT]; 0 where there is none."""
    name, colon, weight = word.partition(":")
    if not colon:
        return name, 0
    if not weight.isdecimal() or not 1 <= int(weight) <= MAX_WEIGHT:
        raise ConfigError("--queue", f"{word!r}: a weight is a number from 1 to {MAX_WEIGHT}")
    return name, int(weight)


def queue_of(app: Queue, module: str, name: str) -> Queue:
    """The queue of a name: one that stands in the module with handlers of its own, or else one
    that is served by the application's handlers, on the same server.
    """
    for found in vars(sys.modules[module]).values():
        if isinstance(found, Queue) and found.name == name and found.registry.handlers:
            return found
    settings = Settings.load(name, **app.given)
    same = settings.server() == app.settings.server()
    runtime = assemble(settings, app.runtime.connection) if same else open_runtime(settings)
    queue = Queue(name, runtime=runtime)
    queue.registry, queue.hooks = app.registry, app.hooks
    return queue
