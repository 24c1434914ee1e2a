"""The kinds of field that only a task has: priorities, rates, references, lists of names."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from rqueue.errors import InvalidTask
from rqueue.model.checked import Label, Line, Name, refusal, storable, unique
from rqueue.model.ids import DagId, TaskId
from rqueue.model.reference import RULE, artifact_in, task_in
from rqueue.model.scale import to_native


def task_reference(text: str) -> str:
    """A TaskId where it is one of ours, else the caller's own id as it stands."""
    return reference(TaskId, text)


def dag_reference(text: str) -> str:
    """A DagId where it is one of ours, else the caller's own id as it stands."""
    return reference(DagId, text)


def reference(kind: type[TaskId] | type[DagId], text: str) -> str:
    """The id that a text stands for, or the text: whether anything has it, the store knows."""
    try:
        return kind.parse(text)
    except InvalidTask:
        return text


def native_priority(value: object) -> float:
    """A native priority."""
    try:
        return to_native(value)
    except InvalidTask as error:
        raise refusal(error.rule) from None


def rounded(rate: float) -> float:
    """The ageing rate as lanes know it: to the hundredth."""
    return round(rate, 2)


def output_reference(text: str) -> str:
    """The text, if it refers to the output of a task or to an artifact."""
    if task_in(text) is None and artifact_in(text) is None:
        raise refusal(RULE)
    return text


Priority = Annotated[float, BeforeValidator(native_priority)]
Rate = Annotated[
    float, Field(ge=0, le=100, strict=True, allow_inf_nan=False), AfterValidator(rounded)
]
TaskReference = Annotated[Line, AfterValidator(task_reference)]
DagReference = Annotated[Line, AfterValidator(dag_reference)]
Capabilities = Annotated[tuple[Name, ...], Field(max_length=32), AfterValidator(unique)]
Models = Annotated[tuple[Label, ...], Field(max_length=32), AfterValidator(unique)]
Lines = Annotated[tuple[Line, ...], Field(max_length=256), AfterValidator(unique)]
Tags = Annotated[tuple[Label, ...], Field(max_length=64), AfterValidator(unique)]
# As long as the longest that tracing sends, which is W3C baggage.
Header = Annotated[str, Field(max_length=8192, strict=True), AfterValidator(storable)]
Headers = Annotated[dict[Label, Header], Field(max_length=32)]
Dependencies = Annotated[
    tuple[TaskReference, ...], Field(max_length=10_000), AfterValidator(unique)
]
Reference = Annotated[Line, AfterValidator(output_reference)]
# What fills arguments when the task is claimed: the output of a task, the facts of an artifact, or
# a list of them.
Inputs = Annotated[
    dict[Label, Reference | Annotated[tuple[Reference, ...], Field(max_length=10_000)]],
    Field(max_length=256),
]
