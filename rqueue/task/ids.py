"""Ids: ULIDs, 128 bits as 26 characters of Crockford's base 32, upper case, without aliases."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, Self
from uuid import UUID

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from rqueue.clock import SYSTEM
from rqueue.errors import ConfigError, InvalidTask

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler


ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# Ten bits are two characters: one look-up instead of two shifts.
PAIRS = tuple(high + low for high in ALPHABET for low in ALPHABET)
NUMBER_OF = {pair: number for number, pair in enumerate(PAIRS)}
TO_BASE_32 = str.maketrans(ALPHABET, "0123456789ABCDEFGHIJKLMNOPQRSTUV")
TEXT = re.compile(
    r"(?:(?P<prefix>[a-z]+)_)?(?:"
    r"(?P<ulid>[0-7][0-9A-HJKMNP-TV-Z]{25})|"
    r"(?P<uuid>[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}))",
    re.IGNORECASE | re.ASCII,
)


def pairs(value: int, count: int) -> str:
    """The low 10 * count bits as 2 * count characters."""
    return "".join(PAIRS[value >> 10 * place & 1023] for place in reversed(range(count)))


def ulid_of(value: int) -> str:
    """The ULID of 128 bits."""
    return pairs(value, 13)


def number_of(ulid: str) -> int:
    """The 128 bits of a ULID in upper case."""
    return int(ulid.translate(TO_BASE_32), 32)


def value_of(prefix: str, text: object) -> int:
    """The 128 bits of a ULID or UUID in text of any case, with this prefix or none."""
    found = TEXT.fullmatch(text) if isinstance(text, str) else None
    if found is None or (found["prefix"] or prefix).lower() != prefix:
        raise InvalidTask("id", f"is not {prefix}_<ULID>, a bare ULID or a UUID")
    if found["uuid"]:
        return int(found["uuid"].replace("-", ""), 16)
    return number_of(found["ulid"].upper())


SHARDS = 1024
# The version and variant bits, and their values in a UUIDv7.
MARKS, MARKED = (0xF << 76) | (0x3 << 62), (0x7 << 76) | (0x2 << 62)
LOW_BITS = 40
WORDS = 256


class Id(str):
    """An id in its canonical text. Calling the class parses a text; `from_ulid` does not check."""

    __slots__ = ()
    PREFIX: ClassVar[str] = ""

    def __new__(cls, text: str | UUID) -> Self:
        return cls.parse(text)

    @classmethod
    def parse(cls, text: str | UUID) -> Self:
        """The id in a prefixed or bare ULID or UUID; raises InvalidTask("id", ...)."""
        if isinstance(text, cls):
            return text
        value = text.int if isinstance(text, UUID) else value_of(cls.PREFIX, text)
        if value & MARKS != MARKED:
            raise InvalidTask("id", "is not a version 7 UUID, as the queue's ids are")
        return cls.from_ulid(ulid_of(value))

    @classmethod
    def from_ulid(cls, ulid: str) -> Self:
        """The id of a ULID that is known to be valid; nothing is checked."""
        return str.__new__(cls, f"{cls.PREFIX}_{ulid}")

    @property
    def ulid(self) -> str:
        """The 26 characters after the prefix."""
        return self[-26:]

    @property
    def uuid(self) -> UUID:
        """The same 128 bits as a UUID of version 7."""
        return UUID(int=number_of(self.ulid))

    @property
    def shard(self) -> int:
        """The number of the shard that the id belongs to."""
        return NUMBER_OF[self[-2:]]

    @property
    def created_ms(self) -> int:
        """When it was made, by the clock of the process that made it."""
        return number_of(self.ulid) >> 80

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            cls.of_field, core_schema.str_schema(), serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def of_field(cls, text: str) -> Self:
        """`parse` for a pydantic field; pydantic adds the field's name to the error."""
        try:
            return cls.parse(text)
        except InvalidTask as error:
            raise PydanticCustomError("id", "{rule}", {"rule": error.rule}) from error


class TaskId(Id):
    """The id of a task, `task_<ULID>`."""

    __slots__ = ()
    PREFIX = "task"


class DagId(Id):
    """The id of a DAG, `dag_<ULID>`."""

    __slots__ = ()
    PREFIX = "dag"


class ArtifactId(Id):
    """The id of an artifact, `art_<ULID>`. It belongs to no shard."""

    __slots__ = ()
    PREFIX = "art"


def external_key(external: str) -> str:
    """The key of an external id: its hash, or its ULID where it is the id of a task."""
    if isinstance(external, TaskId):
        return external.ulid
    return sha256(external.encode(errors="surrogatepass")).hexdigest()


class Ids:
    """Makes ULIDs, each above the one before, also when the clock goes backwards. Thread-safe.

    `random_bits(n)` returns n random bits; it is called for a block of them at a time.
    """

    def __init__(self, clock_ms: Callable[[], int], random_bits: Callable[[int], int]) -> None:
        self._clock_ms = clock_ms
        self._random_bits = random_bits
        self.reseed()

    def reseed(self) -> None:
        """Discards all randomness: a forked process must not make the ids of the original one."""
        self._lock = Lock()
        self._words: Iterator[int] = iter(())
        self._ms = self._era = -1
        self._head = self._time = ""
        self._low = 0

    def ulids(self, count: int, shard: int = 0) -> list[str]:
        """The next ULIDs, of this shard."""
        if not 0 <= shard < SHARDS:
            raise ConfigError("shard", f"is a number from 0 to {SHARDS - 1}")
        now_ms, end = self._clock_ms(), PAIRS[shard]
        found = []
        with self._lock:
            for _ in range(count):
                low = self._next(now_ms)
                found.append(
                    f"{self._head}{PAIRS[low >> 30]}{PAIRS[low >> 20 & 1023]}"
                    f"{PAIRS[low >> 10 & 1023]}{PAIRS[low & 1023]}{end}"
                )
        return found

    def _next(self, now_ms: int) -> int:
        """The next count within a millisecond, or the first of the next."""
        if now_ms > self._ms:
            self._begin(now_ms)
        else:
            # A random step, so that the next id cannot be guessed.
            self._low += 1 + (self._word() >> 40)
            if self._low >> LOW_BITS:
                self._begin(self._ms + 1)
        return self._low

    def _begin(self, ms: int) -> None:
        """Starts a millisecond: new random bits, the upper half of the count left free."""
        word = self._word()
        high = 0x7 << 26 | (word >> 52) << 14 | 0x2 << 12 | (word >> 40 & 0xFFF)
        if ms >> 20 != self._era:
            self._era, self._time = ms >> 20, pairs(ms >> 20, 3)
        # Written out for speed: it runs for every id that is the first of its millisecond.
        self._head = (
            f"{self._time}{PAIRS[ms >> 10 & 1023]}{PAIRS[ms & 1023]}"
            f"{PAIRS[high >> 20]}{PAIRS[high >> 10 & 1023]}{PAIRS[high & 1023]}"
        )
        self._low = word & ((1 << LOW_BITS) - 1) >> 1
        self._ms = ms

    def _word(self) -> int:
        word = next(self._words, None)
        if word is None:
            block = self._random_bits(64 * WORDS).to_bytes(8 * WORDS, "little")
            self._words = iter(memoryview(block).cast("Q"))
            word = next(self._words)
        return word


IDS = Ids(SYSTEM.now_ms, secrets.randbits)

os.register_at_fork(after_in_child=IDS.reseed)


def new_task_id(shard: int = 0) -> TaskId:
    """An id for a new task of this shard."""
    return new_task_ids(1, shard)[0]


def new_task_ids(count: int, shard: int = 0) -> list[TaskId]:
    """Ids for new tasks of this shard, each above the one before."""
    return [TaskId.from_ulid(ulid) for ulid in IDS.ulids(count, shard)]


def new_dag_id(shard: int = 0) -> DagId:
    """An id for a new DAG of this shard."""
    return DagId.from_ulid(IDS.ulids(1, shard)[0])


def new_artifact_id() -> ArtifactId:
    """An id for a new artifact."""
    return ArtifactId.from_ulid(IDS.ulids(1)[0])
