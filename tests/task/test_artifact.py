"""Artifacts: stored metadata, references, and placeholders of results."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqueue.errors import ArtifactRefused, ConfigError, InvalidTask
from rqueue.task.artifact import (
    Artifact,
    artifact_of,
    id_of,
    line_of,
    parse_line,
    parse_lines,
    placeholder_in,
    placeholder_of,
)
from rqueue.task.codec import encode
from rqueue.task.ids import ArtifactId, new_artifact_id, new_task_id
from rqueue.task.references import artifact_in, artifacts_in, task_in
from rqueue.task.spec import TaskSpec

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
# Names with directory separators, or that are displayed as other names.
UNSAFE = [
    "../../evil",
    "/etc/passwd",
    "a/b",
    "a\\b",
    ".",
    "..",
    "\u202egpj.exe",
    "a\u2066b",
    "a\u200f",
]
JSON = st.recursive(st.none() | st.booleans() | TEXT | st.integers(0, 9), st.lists, max_leaves=5)


def an_artifact(**facts: Any) -> Artifact:
    given: dict[str, Any] = {"name": "a.txt", "media_type": "text/plain", "size": 3}
    return artifact_of(**{"id": new_artifact_id(), "sha256": "a" * 64, **given, **facts})


def test_an_id_has_a_prefix_of_its_own() -> None:
    id = new_artifact_id()

    assert id.startswith("art_")
    assert ArtifactId.parse(id.ulid) == ArtifactId.parse(id.lower()) == id
    assert ArtifactId.parse(id.uuid) == id
    with pytest.raises(InvalidTask):
        ArtifactId.parse(new_task_id())


def test_only_a_complete_reference_is_parsed_as_an_artifact() -> None:
    one, two = new_artifact_id(), new_artifact_id()

    assert artifact_in(f"artifact:{one}") == one
    for other in (one, f"artifact:{one.ulid}", "artifact:logo", f"artifact:{one}:x", "artifact:"):
        assert artifact_in(other) is None
    assert task_in(f"artifact:{one}") is None
    assert artifacts_in([f"artifact:{one}", "a", f"artifact:{two}", f"artifact:{one}"]) == [
        one,
        two,
    ]


def test_inputs_are_outputs_or_artifacts() -> None:
    reference = f"artifact:{new_artifact_id()}"

    assert TaskSpec.of(type="a", inputs={"x": reference}).references() == [reference]
    with pytest.raises(InvalidTask, match="artifact:<id>"):
        TaskSpec.of(type="a", inputs={"x": "artifact:logo"})


def test_an_artifact_is_identified_by_object_reference_or_id() -> None:
    artifact = an_artifact()

    assert id_of(artifact) == id_of(artifact.reference) == id_of(artifact.id) == artifact.id
    assert str(artifact) == artifact.reference == f"artifact:{artifact.id}"
    for wrong in ("artifact:x", "../x", "", str(new_task_id())):
        with pytest.raises(ArtifactRefused, match="as `put` gives it"):
            id_of(wrong)


def test_metadata_is_read_back_without_fields_of_newer_releases() -> None:
    artifact = an_artifact(task=new_task_id(), queue="rq/shop")
    newer = line_of(artifact).replace(b'{"id"', b'{"colour":"red","id"')

    assert parse_line(line_of(artifact)) == parse_line(newer) == artifact
    assert parse_lines(line_of(artifact) + b"\n" + newer + b"\n") == (artifact,)
    assert parse_lines(b"") == ()
    for bad in (b"", b"[]", b"{}", b"no"):
        with pytest.raises(InvalidTask):
            parse_line(bad)


@pytest.mark.parametrize(
    ("old", "now"),
    [
        ("../../evil", ".._.._evil"),
        ("/etc/passwd", "_etc_passwd"),
        ("a\\b", "a_b"),
        (".", "_"),
        ("..", "__"),
        ("\u202egpj.exe", "_gpj.exe"),
    ],
)
def test_a_path_as_a_name_of_an_earlier_release_is_read_as_a_safe_name(old: str, now: str) -> None:
    artifact = an_artifact()
    line = encode({**artifact.model_dump(mode="json"), "name": old})

    assert parse_line(line) == artifact.model_copy(update={"name": now})


def test_the_name_of_an_artifact_in_a_payload_is_checked() -> None:
    facts = an_artifact().model_dump(mode="json")

    with pytest.raises(InvalidTask, match="is a file's name"):
        Artifact.parse({**facts, "name": "../x"})


@pytest.mark.parametrize("name", ["page.md", ".hidden", "...", "a b", "é", "שלום.txt"])
def test_any_file_name_is_accepted(name: str) -> None:
    assert parse_line(line_of(an_artifact(name=name))).name == name


@pytest.mark.parametrize(
    "facts",
    [
        {"name": ""},
        {"name": "a\0b"},
        {"name": "x" * 201},
        *({"name": name} for name in UNSAFE),
        {"media_type": "text"},
        {"media_type": "text/plain\r\nX-Evil: 1"},
        {"media_type": "text/plän"},
        {"size": -1},
        {"sha256": "A" * 64},
    ],
)
def test_invalid_metadata_is_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(ArtifactRefused) as error:
        an_artifact(**facts)

    assert error.value.field == next(iter(facts))


@given(JSON)
def test_no_result_is_taken_for_a_placeholder(value: Any) -> None:
    assert placeholder_in(encode(value)) is None


def test_a_placeholder_contains_the_metadata_of_its_artifact() -> None:
    artifact = an_artifact(name="result", media_type="application/json")

    assert placeholder_in(placeholder_of(artifact)) == artifact
    assert placeholder_in(encode(artifact.reference)) is None
    for other in (b"", b"artifact:", placeholder_of(artifact) + b" ", artifact.reference.encode()):
        assert placeholder_in(other) is None


async def test_the_error_of_an_artifact_without_a_store_names_ctx_artifacts() -> None:
    with pytest.raises(ConfigError, match=r"ctx\.artifacts"):
        await an_artifact().get()


async def test_an_artifact_with_a_store_can_be_read_but_not_after_pickling() -> None:
    class Store:
        async def get(self, artifact: object) -> bytes:
            return b"abc"

        async def save(self, artifact: object, path: str | Path) -> Path:
            return Path(path)

        def open(self, artifact: object) -> Any:
            return iter([b"abc"])

    artifact = an_artifact()
    bound = artifact.at(Store())

    assert bound == artifact
    assert await bound.get() == b"abc"
    assert await bound.save("x") == Path("x")
    assert list(bound.open()) == [b"abc"]  # type: ignore[call-overload]
    unpickled = pickle.loads(pickle.dumps(bound))
    assert unpickled == artifact
    with pytest.raises(ConfigError):
        await unpickled.get()
