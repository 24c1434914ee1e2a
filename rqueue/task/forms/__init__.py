"""The forms in which documents describe a task: parsed into a spec, and written again.

`native` is flat and has our names. `A` is the Task Queue Reference's camelCase, `B` the Task Queue
& Work Distribution's nested `task:`, `C` AutoMechanica's table row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, get_args

from rqueue.errors import InvalidTask
from rqueue.task.forms import automechanica, factory, reference
from rqueue.task.forms.document import Document, parse
from rqueue.task.spec import TaskSpec

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rqueue.task.task import Task

__all__ = ["FORMS", "Form", "form_of", "read", "view"]

Form = Literal["native", "A", "B", "C"]
FORMS: tuple[Form, ...] = get_args(Form)

MARKS: tuple[tuple[Form, frozenset[str]], ...] = (
    ("B", frozenset({"task"})),
    ("C", frozenset({"task_type", "workflow_id"})),
    ("A", frozenset({"maxRetries", "idempotencyKey", "backoffSeconds", "createdAt"})),
)


def native_view(task: Task) -> dict[str, JsonValue]:
    """The fields of the spec and of the state together; no name is in both."""
    state: dict[str, JsonValue] = task.model_dump(mode="json", exclude={"spec"})
    spec: dict[str, JsonValue] = task.spec.model_dump(mode="json")
    return {**state, **spec, "tier": task.tier.value}


READERS: dict[Form, Callable[[Document], TaskSpec]] = {
    "native": TaskSpec.parse,
    "A": reference.read,
    "B": factory.read,
    "C": automechanica.read,
}
VIEWS: dict[Form, Callable[[Task], dict[str, JsonValue]]] = {
    "native": native_view,
    "A": reference.view,
    "B": factory.view,
    "C": automechanica.view,
}


def read(document: Mapping[str, object] | str | bytes, form: Form | None = None) -> TaskSpec:
    """The spec of a document, a mapping or its JSON or YAML text; without a form, its
    keys decide.
    """
    found = document if isinstance(document, Mapping) else parse(document)
    return READERS[known(form) if form else form_of(found)](found)


def view(task: Task, form: Form = "native") -> dict[str, JsonValue]:
    """The task in this form, as JSON values."""
    return VIEWS[known(form)](task)


def form_of(document: Document) -> Form:
    """The form whose marking fields the document has; without any it is native."""
    for form, marks in MARKS:
        if not marks.isdisjoint(document):
            return form
    return "native"


def known(form: Form) -> Form:
    """The form, if it exists."""
    if form not in FORMS:
        raise InvalidTask("form", f"is one of {', '.join(FORMS)}")
    return form
