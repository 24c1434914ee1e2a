"""An artifact: bytes that are kept beside the queue, and what is known of them."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterable
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, Field, PrivateAttr

from rqueue.errors import ArtifactRefused, ConfigError, InvalidTask
from rqueue.model.checked import Checked, Line, printable, refusal
from rqueue.model.codec import decode, encode
from rqueue.model.ids import ArtifactId, TaskId
from rqueue.model.reference import ARTIFACT, artifact_in

# A text is kept as UTF-8; a Path is a file that is read.
Data = bytes | bytearray | memoryview | str | Path | AsyncIterable[bytes]

BINARY = "application/octet-stream"
JSON = "application/json"
# The name of a result that was too large for the queue.
RESULT = "result"
# Small, so that a task's list of them is.
MAX_NAME = 200
# Spelled out, for \w is every letter of Unicode: refused in a header, and slow to build at start.
MEDIA = (
    r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}/[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}"
    r"(?:; ?[A-Za-z0-9_.=\"+-]{1,64})?$"
)
# No JSON begins so: a result that does is the place of one.
STOWED = re.compile(rf"{ARTIFACT}(art_[0-9A-Z]{{26}}) ([0-9]{{1,19}}) ([0-9a-f]{{64}})".encode())

# What leads out of a directory, or makes a name look like another (right-to-left marks).
ASTRAY = re.compile(r"[/\\\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
NOWHERE = (".", "..")


def file_name(text: str) -> str:
    """The text, if a file in any directory may be called so."""
    if text in NOWHERE or ASTRAY.search(text):
        raise refusal("is a file's name: no / or \\, not . or .., no right-to-left marks")
    return printable(text)


FileName = Annotated[str, Field(min_length=1, max_length=MAX_NAME), AfterValidator(file_name)]
MediaType = Annotated[str, Field(pattern=MEDIA)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Reads(Protocol):
    """What an artifact asks of the store that it came from."""

    async def get(self, artifact: str | Artifact) -> bytes: ...

    async def save(self, artifact: str | Artifact, path: str | Path) -> Path: ...

    def open(self, artifact: str | Artifact) -> AsyncGenerator[bytes, None]: ...


class Artifact(Checked):
    """What is known of an artifact; `task` is who put it, None for a producer, and
    `queue` whose it is. Its bytes are read
    when they are asked for, and checked against `sha256`.

    In JSON it is these facts: a handler may return one, and another may take it as an argument.
    """

    id: ArtifactId
    name: FileName
    media_type: MediaType = BINARY
    size: Annotated[int, Field(ge=0)]
    sha256: Sha256
    task: TaskId | None = None
    queue: Line | None = None

    _home: Reads | None = PrivateAttr(default=None)

    def __str__(self) -> str:
        return self.reference

    def __eq__(self, other: object) -> bool:
        # By its facts: wherever it can be read, it is the same.
        return isinstance(other, Artifact) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(self.id)

    def __getstate__(self) -> dict[Any, Any]:
        # Where it can be read is not for another process.
        return {**super().__getstate__(), "__pydantic_private__": {"_home": None}}

    @property
    def reference(self) -> str:
        """The text that stands for it in inputs, references and outputs."""
        return f"{ARTIFACT}{self.id}"

    def at(self, home: Reads) -> Artifact:
        """The same, able to read itself."""
        found = self.model_copy()
        found._home = home
        return found

    async def get(self) -> bytes:
        """Its bytes; raises ArtifactNotFound, ArtifactDamaged, ArtifactsUnavailable."""
        return await self.home.get(self)

    async def save(self, path: str | Path) -> Path:
        """Writes it into a file, which is there whole or not at all."""
        return await self.home.save(self, path)

    def open(self) -> AsyncGenerator[bytes, None]:
        """Its bytes in pieces; that they are damaged is said after the last."""
        return self.home.open(self)

    @property
    def home(self) -> Reads:
        """Where it is read; ConfigError for one that was given as an argument or read back."""
        if self._home is None:
            rule = "stands alone here: pass it to ctx.artifacts or queue.artifacts to read it"
            raise ConfigError(self.reference, rule)
        return self._home


def id_of(artifact: str | Artifact) -> ArtifactId:
    """The id that a reference, an id or an artifact means; ArtifactRefused where it is none."""
    if isinstance(artifact, Artifact):
        return artifact.id
    found = artifact_in(artifact) if isinstance(artifact, str) else None
    if found is None:
        try:
            return ArtifactId.parse(artifact)
        except InvalidTask:
            rule = f"{str(artifact)[:100]!r} is not artifact:<id>, as `put` gives it"
            raise ArtifactRefused("artifact", rule) from None
    return found


def described(**facts: object) -> Artifact:
    """An artifact with these facts; ArtifactRefused where one breaks a rule."""
    try:
        return Artifact.of(**facts)
    except InvalidTask as error:
        raise ArtifactRefused(error.field, error.rule) from None


def written(artifact: Artifact) -> bytes:
    """Its facts as they are kept: one line of JSON."""
    return encode(artifact.model_dump(mode="json", exclude_none=True), field="artifact")


def read(line: bytes) -> Artifact:
    """The artifact of such a line, without what only a newer release knows, and under a name that
    is none of a path; else InvalidTask.
    """
    found = decode(line, field="artifact")
    if not isinstance(found, dict):
        raise InvalidTask("artifact", "is no object")
    known = {name: found[name] for name in Artifact.model_fields if name in found}
    return Artifact.parse({**known, "name": mended(known.get("name"))})


def mended(name: object) -> object:
    """A name that was taken by an earlier release, without what is refused now."""
    if not isinstance(name, str):
        return name
    return "_" * len(name) if name in NOWHERE else ASTRAY.sub("_", name)


def listed(lines: bytes) -> tuple[Artifact, ...]:
    """The artifacts of such lines, each once."""
    return tuple({found.id: found for found in map(read, lines.splitlines())}.values())


def stowed(artifact: Artifact) -> bytes:
    """What is stored in place of a result that an artifact holds."""
    return f"{artifact.reference} {artifact.size} {artifact.sha256}".encode()


def stowed_in(result: bytes) -> Artifact | None:
    """The artifact that holds a result; None for a result that stands there itself."""
    found = STOWED.fullmatch(result)
    if found is None:
        return None
    id, size, sha256 = (word.decode() for word in found.groups())
    facts = {"id": ArtifactId.from_ulid(id[-26:]), "size": int(size), "sha256": sha256}
    return Artifact.of(name=RESULT, media_type=JSON, **facts)
