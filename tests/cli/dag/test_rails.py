"""Rails: graphs drawn as lines of text, and read back from them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqueue.cli.dag.rails import MARKED, TASK, drawn

Graph = dict[str, list[str]]

PICTURES: dict[str, tuple[Graph, list[str]]] = {
    "nothing": ({}, []),
    "a chain": ({"a": [], "b": ["a"], "c": ["b"]}, ["● a", "● b", "● c"]),
    "two alone": ({"a": [], "b": []}, ["● a", "  ● b"]),
    "a fan": (
        {"a": [], "b": ["a"], "c": ["a"], "d": ["a"], "e": ["b", "c", "d"], "f": ["e"]},
        [
            "● a",
            "├─●─╮ b",
            "├─●─┤ c",
            "●───┤ d",
            "●───╯ e",
            "● f",
        ],
    ),
    "two chains": (
        {"a": [], "b": ["a"], "c": ["b"], "d": ["a"], "e": ["d"], "f": ["c", "e"]},
        [
            "● a",
            "├─● b",
            "│ ●─╮ c",
            "●   │ d",
            "●───┤ e",
            "●───╯ f",
        ],
    ),
    "a way past another": (
        {"a": [], "b": ["a"], "c": ["a", "b"], "d": ["a", "b", "c"]},
        [
            "● a",
            "├─● b",
            "├─┼─● c",
            "●─┴─╯ d",
        ],
    ),
    "all with all": (
        {"a": [], "b": [], "c": ["a", "b"], "d": ["a", "b"], "e": ["c", "d"]},
        [
            "●─╮ a",
            "●─┤ b",
            "  ├─●─╮ c",
            "●─╯   │ d",
            "●─────╯ e",
        ],
    ),
    "a line behind a rail": (
        {"a": [], "b": [], "x": ["a", "b"], "y": ["a"], "z": ["b"], "e": ["x", "y", "z"]},
        [
            "● a",
            "├─●─╮ y",
            "│ ● │ b",
            "╰─┼─│─●─╮ x",
            "●─╯ │   │ z",
            "●───┴───╯ e",
        ],
    ),
}


@pytest.mark.parametrize(("graph", "picture"), PICTURES.values(), ids=PICTURES)
def test_a_graph_is_drawn_as_expected(graph: Graph, picture: list[str]) -> None:
    assert [f"{line} {id}" for id, line in drawn(graph)] == picture


def test_marked_tasks_have_a_different_sign() -> None:
    found = drawn({"a": [], "b": ["a"], "c": ["a", "b"]}, {"a", "c"})

    assert [line for _, line in found] == ["◆", "├─●", "◆─╯"]


def test_a_wide_fan_takes_two_rails() -> None:
    middle = [str(number) for number in range(80)]

    lines = drawn({"first": [], **{id: ["first"] for id in middle}, "last": middle})

    assert len(lines) == 82
    assert max(len(line) for _, line in lines) == 5


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    names = [str(number) for number in range(draw(st.integers(1, 12)))]
    return {
        name: sorted(draw(st.sets(st.sampled_from(names[:at]), max_size=4))) if at else []
        for at, name in enumerate(names)
    }


@given(graphs())
def test_the_graph_can_be_read_back_from_its_picture(graph: Graph) -> None:
    lines = drawn(graph)

    assert read(lines) == {id: set(above) for id, above in graph.items()}
    order = [id for id, _ in lines]
    assert all(order.index(parent) < order.index(id) for id in graph for parent in graph[id])


@dataclass
class Down:
    """The tasks that a rail in a column comes from, and whether one is directly above."""

    tasks: set[str] = field(default_factory=set)
    direct: bool = False


def read(lines: list[tuple[str, str]]) -> dict[str, set[str]]:
    """The dependencies of each task by the rules in the module's docstring, read from its line and
    the rails of the line before.
    """
    found: dict[str, set[str]] = {}
    rails: dict[int, Down] = {}
    for id, line in lines:
        at = next(place for place, sign in enumerate(line) if sign in (TASK, MARKED))
        left = joined(line, range(at - 1, -1, -1), "├┼╰┴")
        ended = joined(line, range(at + 1, len(line)), "╯┴")
        above = rails.get(at, Down())
        sources = {task for place in [*left, *ended] for task in rails[place].tasks}
        if not (above.direct and left):
            sources |= above.tasks
        found[id] = sources
        rails = below(id, line, rails)
    return found


def joined(line: str, places: range, signs: str) -> list[int]:
    """The columns of the rails that a task's line meets."""
    found = []
    for place in places:
        sign = line[place]
        if place % 2 and sign != "─":
            break
        if sign in signs:
            found.append(place)
    return found


def below(id: str, line: str, rails: dict[int, Down]) -> dict[int, Down]:
    """The rails below a line."""
    after: dict[int, Down] = {}
    to_the_right = any(sign in line for sign in "╮┤")
    for place, sign in enumerate(line):
        if sign in "│├┼":
            after[place] = Down(rails[place].tasks)
        elif sign in "╮┤":
            after[place] = Down({id} | (rails[place].tasks if sign == "┤" else set()))
        elif sign in (TASK, MARKED) and not to_the_right:
            after[place] = Down({id}, direct=True)
    return after
