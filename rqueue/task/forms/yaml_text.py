"""Documents in YAML, without aliases and duplicate keys. Imported at first use: PyYAML loads
slowly.
"""

from __future__ import annotations

import yaml

from rqueue.errors import InvalidTask
from rqueue.task.forms.document import MAX_DOCUMENT_DEPTH

# The C parser, where available: the other takes many seconds for a megabyte.
LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


def parse_yaml(data: bytes, *, before: int = 0) -> object:
    """The value of a YAML text: plain data, without aliases, which can expand without bound, and
    without duplicate keys. `before` is the number of lines before it in its file.
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
    # An explicit tag on a text that does not fit makes PyYAML's constructors fail.
    except (yaml.YAMLError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        raise InvalidTask(
            "document", f"is neither JSON nor YAML{place_of(error, before)}"
        ) from error


def place_of(error: Exception, before: int) -> str:
    """Where a YAML text is invalid, if known."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    return "" if mark is None else f": see line {before + mark.line + 1}, column {mark.column + 1}"


def check_events(text: str) -> None:
    """Refuses aliases and depth before anything is built: building is recursive."""
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise InvalidTask("document", "uses YAML aliases, which are not allowed")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DOCUMENT_DEPTH:
            raise InvalidTask("document", "is nested too deeply")


def check_keys(node: yaml.Node | None) -> None:
    """Refuses duplicate keys, of which PyYAML would keep the last."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            check_keys(item)
    elif isinstance(node, yaml.MappingNode):
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(names)) != len(names):
            raise InvalidTask("document", "has a mapping with the same key twice")
        for _, value in node.value:
            check_keys(value)
