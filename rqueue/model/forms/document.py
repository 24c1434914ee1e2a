"""Documents before they mean anything: text to mapping, and taking a mapping apart."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import TypeAlias

import yaml

from rqueue.errors import InvalidTask
from rqueue.model import codec

Document: TypeAlias = Mapping[str, object]

MAX_DOCUMENT_BYTES = 1024 * 1024
# A payload as deep as it may be, and what stands around it.
MAX_DOCUMENT_DEPTH = codec.MAX_DEPTH + 8
# The parser in C, where there is one: the other takes many seconds for a megabyte.
LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
NO_MAPPING = "is not a mapping of names to values"
KEPT = "is kept by the queue; leave it out, or as it is in a new task"
# What the queue has not filled in yet.
NOTHING: tuple[object, ...] = (None, "", [], {}, ())


def parse(text: str | bytes) -> Document:
    """The mapping that a text holds: JSON if it begins with a brace, else YAML."""
    if not isinstance(text, str | bytes):
        raise InvalidTask("document", NO_MAPPING)
    data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    if len(data) > MAX_DOCUMENT_BYTES:
        raise InvalidTask("document", f"has more than {MAX_DOCUMENT_BYTES} bytes")
    if data.startswith(BOM_UTF8):
        raise InvalidTask("document", "begins with a byte order mark; send plain UTF-8")
    is_json = data.lstrip().startswith(b"{")
    found = (
        codec.decode(data, field="document", max_depth=MAX_DOCUMENT_DEPTH)
        if is_json
        else parse_yaml(data)
    )
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise InvalidTask("document", NO_MAPPING)
    return found


def parse_yaml(data: bytes, *, before: int = 0) -> object:
    """The value of a YAML text: plain data, no aliases, which can blow up, and no key twice. So
    many lines are `before` it where it comes from.
    """
    try:
        text = data.decode()
        check_events(text)
        loader = LOADER(text)
        node = loader.get_single_node()
        check_keys(node)
        return None if node is None else loader.construct_document(node)
    except UnicodeDecodeError as error:
        raise InvalidTask("document", "is not UTF-8") from error
    # An explicit tag on a text it does not fit makes PyYAML's own constructors stumble.
    except (yaml.YAMLError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        raise InvalidTask(
            "document", f"is neither JSON nor YAML{place_of(error, before)}"
        ) from error


def place_of(error: Exception, before: int) -> str:
    """Where a text of YAML breaks off, if that is known."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    return "" if mark is None else f": see line {before + mark.line + 1}, column {mark.column + 1}"


def check_events(text: str) -> None:
    """Refuse aliases and depth before anything is built: building is recursive."""
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise InvalidTask("document", "uses YAML aliases, which are not understood")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DOCUMENT_DEPTH:
            raise InvalidTask("document", "is nested too deeply")


def check_keys(node: yaml.Node | None) -> None:
    """Refuse a key that comes twice, of which PyYAML would keep the last."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            check_keys(item)
    elif isinstance(node, yaml.MappingNode):
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(names)) != len(names):
            raise InvalidTask("document", "has a mapping with the same key twice")
        for _, value in node.value:
            check_keys(value)


class Parts:
    """A document being taken apart: what is not taken in the end was not known."""

    def __init__(self, document: object, path: str = "") -> None:
        if not isinstance(document, Mapping):
            raise InvalidTask(path or "document", "is a mapping")
        self._rest: dict[str, object] = dict(document)
        self._path = path

    def inner(self, name: str) -> Parts:
        """The parts of a mapping within; none if it is not there."""
        return Parts(self._rest.pop(name, None) or {}, self.path(name))

    def take(self, name: str) -> object:
        """The value of a field, None if it is not there."""
        return self._rest.pop(name, None)

    def fields(self, names: Mapping[str, str]) -> dict[str, object]:
        """The fields given under these names, under ours; null is not given."""
        found = {ours: self.take(theirs) for theirs, ours in names.items()}
        return {ours: value for ours, value in found.items() if value is not None}

    def expect(self, name: str, *allowed: object) -> None:
        """A field of the queue's own may be there, as it is in a new task."""
        value = self._rest.pop(name, None)
        if value not in NOTHING and value not in allowed:
            raise InvalidTask(self.path(name), KEPT)

    def ignore(self, *names: str) -> None:
        """Fields that inform and decide nothing."""
        for name in names:
            self._rest.pop(name, None)

    def end(self) -> None:
        """Nothing may be left."""
        for name in self._rest:
            raise InvalidTask(self.path(name), "is not a field of this form")

    def path(self, name: object) -> str:
        """Where a field stands, for people."""
        return f"{self._path}.{name}" if self._path else str(name)
