"""Artifacts in a directory and in a bucket: the same tests for both."""

from __future__ import annotations

import os
import pickle
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from rqueue.artifacts.place import Rules
from rqueue.artifacts.shelf import FACTS, Shelf, one_piece
from rqueue.errors import ArtifactDamaged, ArtifactNotFound, ArtifactRefused
from rqueue.task.artifact import Artifact, line_of
from rqueue.task.ids import new_artifact_id, new_task_id

BIG = bytes(range(256)) * 80_000  # 20 MB: several parts of an upload, several ranges of a read


async def pieces(*found: Any) -> AsyncIterator[Any]:
    for piece in found:
        if isinstance(piece, Exception):
            raise piece
        yield piece


async def names(shelf: Shelf) -> set[str]:
    return {name async for page in shelf.medium.pages("b") for name in page}


async def test_the_stored_bytes_are_returned(shelf: Shelf) -> None:
    task = new_task_id()

    put = await shelf.put(b"hello", name="greeting.txt", task=task)

    assert put == Artifact(
        id=put.id,
        name="greeting.txt",
        media_type="text/plain",
        size=5,
        sha256=sha256(b"hello").hexdigest(),
        task=task,
        queue="rq/sales",
    )
    assert await shelf.get(put.reference) == await shelf.get(put.id) == await shelf.get(put)
    assert await shelf.get(put) == b"hello"
    assert await shelf.info(put.reference) == put


async def test_bytes_are_found_without_metadata(shelf: Shelf) -> None:
    stored, empty = await shelf.put(b"hello"), await shelf.put(b"")
    await shelf.medium.remove([f"{one.id}{FACTS}" for one in (stored, empty)])

    assert await shelf.has_bytes(stored.id)
    assert await shelf.has_bytes(empty.id)
    assert not await shelf.has_bytes(new_artifact_id())


async def test_all_kinds_of_data_are_accepted(shelf: Shelf, tmp_path: Path) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(BIG)

    assert await shelf.get(await shelf.put("grüße")) == "grüße".encode()
    assert await shelf.get(await shelf.put(b"")) == b""
    assert await shelf.get(await shelf.put(memoryview(b"abc"))) == b"abc"
    assert await shelf.get(await shelf.put(pieces(b"a", bytearray(b"b"), b"c"))) == b"abc"
    image = await shelf.put(file)
    assert (image.name, image.media_type, image.size) == ("picture.png", "image/png", len(BIG))
    assert await shelf.get(image) == BIG


async def test_large_artifacts_are_streamed_and_saved_to_files(
    shelf: Shelf, tmp_path: Path
) -> None:
    put = await shelf.put(pieces(*[BIG[: 1 << 20]] * 20))

    sizes = [len(piece) async for piece in shelf.open(put)]
    saved = await shelf.save(put.reference, tmp_path / "new" / "out.bin")

    assert sum(sizes) == put.size == 20 << 20
    assert max(sizes) <= 8 << 20
    assert saved.read_bytes() == BIG[: 1 << 20] * 20
    assert [path.name for path in saved.parent.iterdir()] == ["out.bin"]


async def test_a_name_is_never_a_path(shelf: Shelf) -> None:
    before = await names(shelf)

    for name in ("../../evil", "/etc/passwd", "..", "a/b", "a\\b", "\u202egpj.exe"):
        with pytest.raises(ArtifactRefused, match="is a file's name") as refused:
            await shelf.put(b"x", name=name)
        assert refused.value.field == "name"

    assert await names(shelf) == before


async def test_a_path_as_name_from_an_earlier_release_is_readable(shelf: Shelf) -> None:
    put = await shelf.put(b"hello", name="a.txt")
    facts = line_of(put).replace(b"a.txt", b"../a.txt")
    await shelf.medium.write(f"{put.id}{FACTS}", one_piece(facts))

    found = await shelf.info(put.id)

    assert found.name == ".._a.txt"
    assert await shelf.get(found) == await shelf.get(put.reference) == b"hello"


async def test_a_missing_artifact_is_reported(shelf: Shelf, tmp_path: Path) -> None:
    missing = f"artifact:{new_artifact_id()}"

    for call in (shelf.get(missing), shelf.info(missing), shelf.save(missing, tmp_path / "x")):
        with pytest.raises(ArtifactNotFound, match=missing):
            await call

    assert not [name for name in os.listdir(tmp_path) if "x" in name]


@pytest.mark.parametrize(
    "reference", ["artifact:../../etc/passwd", "../x", "artifact:", "", "/etc/passwd", "task_1", 7]
)
async def test_invalid_references_are_refused(shelf: Shelf, reference: Any) -> None:
    with pytest.raises(ArtifactRefused, match="artifact"):
        await shelf.get(reference)


async def test_a_bad_name_or_type_is_refused_before_anything_is_written(shelf: Shelf) -> None:
    before = await names(shelf)

    wrong: list[dict[str, Any]] = [{"name": "a\nb"}, {"name": "x" * 201}, {"media_type": "no"}]
    for bad in wrong:
        with pytest.raises(ArtifactRefused):
            await shelf.put(b"x", **bad)

    assert await names(shelf) == before


async def test_a_too_large_artifact_is_refused_and_leaves_nothing(shelf: Shelf) -> None:
    before = await names(shelf)
    small = Shelf(shelf.place, Rules(max_bytes=1000), queue="rq/sales")

    assert (await small.put(b"x" * 1000)).size == 1000
    with pytest.raises(ArtifactRefused, match="artifacts_max_bytes"):
        await small.put(pieces(*[b"x" * 500] * 3))

    assert len(await names(shelf) - before) == 2


async def test_an_error_of_the_data_is_raised_and_leaves_nothing(shelf: Shelf) -> None:
    before = await names(shelf)

    for error in (FileNotFoundError("mine"), ValueError("mine")):
        with pytest.raises(type(error), match="mine"):
            await shelf.put(pieces(BIG[: 9 << 20], error))
    with pytest.raises(ArtifactRefused, match="str"):
        await shelf.put(pieces("text"))
    with pytest.raises(ArtifactRefused, match="cannot be read"):
        await shelf.put(Path("/does/not/exist"))
    wrong: Any = 5
    with pytest.raises(ArtifactRefused, match="not int"):
        await shelf.put(wrong)

    assert await names(shelf) == before


async def test_changed_bytes_are_damage(shelf: Shelf, tmp_path: Path) -> None:
    for other in (b"hellO", b"hell", b"hello!", b""):
        put = await shelf.put(b"hello")
        await shelf.medium.write(put.id, pieces(other) if other else pieces())

        with pytest.raises(ArtifactDamaged, match=put.id):
            await shelf.get(put.reference)
        with pytest.raises(ArtifactDamaged):
            await shelf.save(put, tmp_path / "out")
        assert not [name for name in os.listdir(tmp_path) if "out" in name]


async def test_unreadable_metadata_is_damage(shelf: Shelf) -> None:
    for facts in (b"", b"{", b"[]", b'{"id":1}', b"x" * 10_000):
        put = await shelf.put(b"hello")
        await shelf.medium.write(f"{put.id}{FACTS}", pieces(facts))

        with pytest.raises(ArtifactDamaged, match=put.id):
            await shelf.get(put.reference)


async def test_bytes_without_metadata_are_no_artifact(shelf: Shelf) -> None:
    put = await shelf.put(b"hello")
    await shelf.medium.remove([f"{put.id}{FACTS}"])

    with pytest.raises(ArtifactNotFound):
        await shelf.get(put.reference)


async def test_a_repeated_delete_has_no_effect(shelf: Shelf) -> None:
    put, other = await shelf.put(b"hello"), await shelf.put(b"other")

    await shelf.delete([put.id])
    await shelf.delete([put.id])

    with pytest.raises(ArtifactNotFound):
        await shelf.get(put)
    assert await shelf.get(other) == b"other"


async def test_names_are_listed_below_one(shelf: Shelf) -> None:
    first, second = await shelf.put(b"1"), await shelf.put(b"2")

    found = [name async for page in shelf.medium.pages(second.id) for name in page]

    assert found == sorted(found)
    assert {first.id, f"{first.id}{FACTS}"} <= set(found)
    assert second.id not in found


async def test_a_shelf_is_pickled_unopened(shelf: Shelf) -> None:
    put = await shelf.put(b"hello")

    copy = pickle.loads(pickle.dumps(shelf))

    assert "medium" not in vars(copy)
    assert await copy.get(put.reference) == b"hello"
