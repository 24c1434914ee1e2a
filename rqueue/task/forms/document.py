"""What the forms share: parsing a document, taking it apart, and writing ids and instants."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from rqueue.errors import InvalidTask
from rqueue.task import codec
from rqueue.task.ids import TaskId

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.task.ids import DagId
    from rqueue.task.task import Task

Document: TypeAlias = Mapping[str, object]

MAX_DOCUMENT_BYTES = 1024 * 1024
# The maximum depth of a payload, and of what surrounds it.
MAX_DOCUMENT_DEPTH = codec.MAX_DEPTH + 8
NO_MAPPING = "is not a mapping of names to values"
KEPT = "is set by the queue; leave it out, or as it is in a new task"
# Values of fields that the queue sets later.
NOTHING: tuple[object, ...] = (None, "", [], {}, ())


def parse(text: str | bytes) -> Document:
    """The mapping in a text: JSON if it begins with a brace, else YAML."""
    if not isinstance(text, str | bytes):
        raise InvalidTask("document", NO_MAPPING)
    data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    if len(data) > MAX_DOCUMENT_BYTES:
        raise InvalidTask("document", f"has more than {MAX_DOCUMENT_BYTES} bytes")
    if data.startswith(BOM_UTF8):
        raise InvalidTask("document", "begins with a byte order mark; send plain UTF-8")
    found: object
    if data.lstrip().startswith(b"{"):
        found = codec.decode(data, field="document", max_depth=MAX_DOCUMENT_DEPTH)
    else:
        from rqueue.task.forms.yaml_text import parse_yaml  # noqa: PLC0415 - PyYAML loads slowly

        found = parse_yaml(data)
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise InvalidTask("document", NO_MAPPING)
    return found


class Parts:
    """A document whose fields are taken one by one; the remaining ones are unknown."""

    def __init__(self, document: object, path: str = "") -> None:
        if not isinstance(document, Mapping):
            raise InvalidTask(path or "document", "is a mapping")
        self._rest: dict[str, object] = dict(document)
        self._path = path

    def inner(self, name: str) -> Parts:
        """The parts of a nested mapping; empty if it is missing."""
        return Parts(self._rest.pop(name, None) or {}, self.path(name))

    def take(self, name: str) -> object:
        """The value of a field, None if it is missing."""
        return self._rest.pop(name, None)

    def fields(self, names: Mapping[str, str]) -> dict[str, object]:
        """The fields with these names, renamed to ours; null counts as missing."""
        found = {ours: self.take(theirs) for theirs, ours in names.items()}
        return {ours: value for ours, value in found.items() if value is not None}

    def expect(self, name: str, *allowed: object) -> None:
        """A field that the queue sets; it may only have the value of a new task."""
        value = self._rest.pop(name, None)
        if value not in NOTHING and value not in allowed:
            raise InvalidTask(self.path(name), KEPT)

    def ignore(self, *names: str) -> None:
        """Fields that are informational."""
        for name in names:
            self._rest.pop(name, None)

    def end(self) -> None:
        """Raises InvalidTask for fields that are left over."""
        for name in self._rest:
            raise InvalidTask(self.path(name), "is not a field of this form")

    def path(self, name: object) -> str:
        """The path of a field, for messages."""
        return f"{self._path}.{name}" if self._path else str(name)


def own_id(task: Task) -> str:
    """The external id, else ours; ours are written as UUIDs."""
    return shown_id(TaskId, task.spec.external_id or task.id)


def owning_dag(task: Task) -> str | None:
    """The DAG that its producer named, else the one that it is in; None for a single task."""
    return task.spec.dag_id or task.dag


def shown_id(kind: type[TaskId] | type[DagId], text: str) -> str:
    """One of our ids as a UUID, an external id unchanged."""
    try:
        return str(kind.parse(text).uuid)
    except InvalidTask:
        return text


def moment(instant: datetime | None) -> str | None:
    """An instant in ISO 8601, UTC written as Z."""
    return None if instant is None else instant.isoformat().replace("+00:00", "Z")
