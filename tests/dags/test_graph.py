"""Graphs: a topological order, or the cycle that prevents one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqueue.dags.graph import critical_path, leaves, missing, ordered, remaining, roots
from rqueue.errors import InvalidGraph

DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}

Graph = dict[str, list[str]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Generates graphs without a cycle; their tasks are in any order."""
    number = draw(st.integers(1, 12))
    edges = {
        str(child): [str(p) for p in draw(st.sets(st.integers(0, child - 1)))] if child else []
        for child in range(number)
    }
    return {name: edges[name] for name in draw(st.permutations(list(edges)))}


@given(graphs())
def test_each_task_comes_after_its_dependencies(graph: Graph) -> None:
    order = ordered(graph)

    place = {name: at for at, name in enumerate(order)}
    assert sorted(order) == sorted(graph)
    assert all(place[p] < place[name] for name, above in graph.items() for p in above)


@given(graphs(), st.data())
def test_a_cycle_is_reported_with_existing_edges(graph: Graph, data: st.DataObject) -> None:
    order = ordered(graph)
    first = data.draw(st.sampled_from(order))
    last = data.draw(st.sampled_from(order[order.index(first) :]))
    if last == first:
        return
    closed = {name: [*above] for name, above in graph.items()}
    closed[last].append(first)
    closed[first].append(last)

    with pytest.raises(InvalidGraph) as error:
        ordered(closed)

    path = error.value.path
    assert path[0] == path[-1]
    assert all(up in closed[down] for up, down in pairwise(path))


def test_a_self_edge_is_a_cycle() -> None:
    with pytest.raises(InvalidGraph) as error:
        ordered({"a": [], "b": ["a", "b"]})

    assert error.value.path == ("b", "b")


def test_a_missing_dependency_is_found() -> None:
    with pytest.raises(InvalidGraph) as error:
        ordered({"a": ["x"]})

    assert error.value.path == ("a", "x")
    assert ordered({"a": ["x"]}, known=["x"]) == ["a"]
    assert missing({"a": ["x"]}) == {"x"}


def test_roots_and_leaves_are_found() -> None:
    assert (roots(DIAMOND), leaves(DIAMOND)) == (["a"], ["d"])
    assert roots({"a": ["outside"]}) == ["a"]


def test_ranks_are_the_longest_paths_from_each_task() -> None:
    chained = {**DIAMOND, "e": ["d"], "f": []}

    found = remaining(chained, ordered(chained))

    assert found == {"a": 4, "b": 3, "c": 3, "d": 2, "e": 1, "f": 1}


def test_the_critical_path_is_the_heaviest_path() -> None:
    assert critical_path(DIAMOND, {"a": 1, "b": 1, "c": 5, "d": 1}) == ["a", "c", "d"]
    assert critical_path({}, {}) == []
    assert critical_path({"a": ["outside"]}, {}) == ["a"]
