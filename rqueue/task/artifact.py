"""An artifact: bytes that are stored beside the queue, and their metadata."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterable
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, Field, PrivateAttr

from rqueue.errors import ArtifactRefused, ConfigError, InvalidTask
from rqueue.task.codec import decode, encode
from rqueue.task.fields import Checked, Line, printable, refusal
from rqueue.task.ids import ArtifactId, TaskId
from rqueue.task.references import ARTIFACT, artifact_in

# A text is stored as UTF-8; a Path is a file that is read.
Data = bytes | bytearray | memoryview | str | Path | AsyncIterable[bytes]

BINARY = "application/octet-stream"
JSON = "application/json"
# The name of a result that was too large for the queue.
RESULT = "result"
# Short, because a task stores a list of its artifacts.
MAX_NAME = 200
# ASCII letters only: \w would match all letters of Unicode, which a header cannot contain.
MEDIA = (
    r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}/[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}"
    r"(?:; ?[A-Za-z0-9_.=\"+-]{1,64})?$"
)
# A stored result of this form is the reference to an artifact; no JSON text begins like this.
PLACEHOLDER = re.compile(
    rf"{ARTIFACT}(art_[0-9A-Z]{{26}}) ([0-9]{{1,19}}) ([0-9a-f]{{64}})".encode()
)

# Characters that separate directories, or that change how a name is displayed (right-to-left
# marks).
UNSAFE = re.compile(r"[/\\\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
RESERVED = (".", "..")


def file_name(text: str) -> str:
    """The text, if it is a valid file name in any directory."""
    if text in RESERVED or UNSAFE.search(text):
        raise refusal("is a file's name: no / or \\, not . or .., no right-to-left marks")
    return printable(text)


FileName = Annotated[str, Field(min_length=1, max_length=MAX_NAME), AfterValidator(file_name)]
MediaType = Annotated[str, Field(pattern=MEDIA)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class ArtifactSource(Protocol):
    """The methods of a store that an artifact uses."""

    async def get(self, artifact: str | Artifact) -> bytes: ...

    async def save(self, artifact: str | Artifact, path: str | Path) -> Path: ...

    def open(self, artifact: str | Artifact) -> AsyncGenerator[bytes, None]: ...


class Artifact(Checked):
    """The metadata of an artifact. `task` is the task that put it, None for a producer; `queue` is
    its queue. The bytes are read on request and checked against `sha256`.

    Its JSON is the metadata: a handler may return an artifact, and another may take it as an
    argument.
    """

    id: ArtifactId
    name: FileName
    media_type: MediaType = BINARY
    size: Annotated[int, Field(ge=0)]
    sha256: Sha256
    task: TaskId | None = None
    queue: Line | None = None

    _store: ArtifactSource | None = PrivateAttr(default=None)

    def __str__(self) -> str:
        return self.reference

    def __eq__(self, other: object) -> bool:
        # Two are equal if their metadata are; the store is not compared.
        return isinstance(other, Artifact) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(self.id)

    def __getstate__(self) -> dict[Any, Any]:
        # The store is not pickled.
        return {**super().__getstate__(), "__pydantic_private__": {"_store": None}}

    @property
    def reference(self) -> str:
        """The text `artifact:<id>`, which inputs, references and outputs contain."""
        return f"{ARTIFACT}{self.id}"

    def at(self, store: ArtifactSource) -> Artifact:
        """The same artifact, to be read from this store."""
        found = self.model_copy()
        found._store = store
        return found

    async def get(self) -> bytes:
        """Its bytes; raises ArtifactNotFound, ArtifactDamaged, ArtifactsUnavailable."""
        return await self.store.get(self)

    async def save(self, path: str | Path) -> Path:
        """Writes it into a file, completely or not at all."""
        return await self.store.save(self, path)

    def open(self) -> AsyncGenerator[bytes, None]:
        """Its bytes in chunks; damage is reported after the last."""
        return self.store.open(self)

    @property
    def store(self) -> ArtifactSource:
        """The store it is read from; ConfigError for one that was given as an argument
        or decoded.
        """
        if self._store is None:
            rule = "has no store here: pass it to ctx.artifacts or queue.artifacts to read it"
            raise ConfigError(self.reference, rule)
        return self._store


def id_of(artifact: str | Artifact) -> ArtifactId:
    """The id of a reference, an id or an artifact; ArtifactRefused for anything else."""
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


def artifact_of(**facts: object) -> Artifact:
    """An artifact with this metadata; ArtifactRefused where a rule is broken."""
    try:
        return Artifact.of(**facts)
    except InvalidTask as error:
        raise ArtifactRefused(error.field, error.rule) from None


def line_of(artifact: Artifact) -> bytes:
    """The metadata as stored: one line of JSON."""
    return encode(artifact.model_dump(mode="json", exclude_none=True), field="artifact")


def parse_line(line: bytes) -> Artifact:
    """The artifact in a line of `line_of`, without fields of newer releases and with a safe file
    name; raises InvalidTask.
    """
    found = decode(line, field="artifact")
    if not isinstance(found, dict):
        raise InvalidTask("artifact", "is not an object")
    known = {name: found[name] for name in Artifact.model_fields if name in found}
    return Artifact.parse({**known, "name": safe_name(known.get("name"))})


def safe_name(name: object) -> object:
    """A name that an earlier release accepted, with refused characters replaced."""
    if not isinstance(name, str):
        return name
    return "_" * len(name) if name in RESERVED else UNSAFE.sub("_", name)


def parse_lines(lines: bytes) -> tuple[Artifact, ...]:
    """The artifacts in lines of `line_of`, each once."""
    return tuple({found.id: found for found in map(parse_line, lines.splitlines())}.values())


def placeholder_of(artifact: Artifact) -> bytes:
    """What is stored in place of a result that an artifact holds."""
    return f"{artifact.reference} {artifact.size} {artifact.sha256}".encode()


def placeholder_in(result: bytes) -> Artifact | None:
    """The artifact that holds a result; None for a result that is stored itself."""
    found = PLACEHOLDER.fullmatch(result)
    if found is None:
        return None
    id, size, sha256 = (word.decode() for word in found.groups())
    facts = {"id": ArtifactId.from_ulid(id[-26:]), "size": int(size), "sha256": sha256}
    return Artifact.of(name=RESULT, media_type=JSON, **facts)
