"""`rqueue artifacts put, get, list, sweep`, and large results in `rqueue task`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rqueue.core.leases import HeldLease
from rqueue.core.notes import attach
from rqueue.task.ids import new_artifact_id
from tests.cli.conftest import Shell
from tests.harness import Harness, opened
from tests.servers import Server

LARGE = "x" * 400_000


@pytest.fixture
async def harness(server: Server, shell: Shell, tmp_path: Path) -> AsyncIterator[Harness]:
    """A harness with an artifact store that the shell is configured for too."""
    shell.env["RQUEUE_ARTIFACTS_URL"] = url = f"file://{tmp_path}/kept"
    async with opened(server, artifacts_url=url) as found:
        yield found


async def test_a_file_is_stored_and_read_back(
    harness: Harness, shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_bytes(b"a\x00b\n")

    (reference,) = await shell.lines("artifacts", "put", str(tmp_path / "in.txt"))
    printed = await shell.run("artifacts", "get", reference)
    (saved,) = await shell.json("artifacts", "get", reference, "-o", str(tmp_path / "out.txt"))

    assert printed.stdout_bytes == b"a\x00b\n"
    assert (tmp_path / "out.txt").read_bytes() == b"a\x00b\n"
    assert (saved["reference"], saved["name"], saved["size"]) == (reference, "in.txt", 4)
    assert (await harness.queue.artifacts.info(reference)).media_type == "text/plain"


async def test_name_and_media_type_can_be_set(
    harness: Harness, shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "in").write_text("x")
    words = ("artifacts", "put", str(tmp_path / "in"), "--name", "b.md", "--type", "text/x-b")

    (printed,) = await shell.json(*words)

    assert (printed["name"], printed["media_type"]) == ("b.md", "text/x-b")


async def test_the_artifacts_of_a_task_are_listed_and_shown(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()
    put = await harness.queue._internals.runtime.shelf.put(b"abc", name="a.txt", task=lease.id)
    await attach(harness.queue._internals.shard, HeldLease(lease.id.ulid, lease.token), put)

    (row,) = await shell.json("artifacts", "list", str(lease.id))
    table = await shell.lines("artifacts", "list", str(lease.id))
    life = "\n".join(await shell.lines("task", str(lease.id)))
    (document,) = await shell.json("task", str(lease.id), "--form", "b")

    assert row["reference"] == put.reference
    assert put.reference in table[1]
    assert f"a.txt ({put.reference})" in life
    assert put.reference in document["task"]["output"]["artifacts"]


async def test_a_task_without_artifacts_is_noted(harness: Harness, shell: Shell) -> None:
    lease = await harness.running()

    found = await shell.run("artifacts", "list", str(lease.id))

    assert (found.exit_code, "has no artifacts" in found.stderr) == (0, True)


async def test_a_large_result_is_shown_or_reported_missing(
    harness: Harness, shell: Shell, tmp_path: Path
) -> None:
    lease = await harness.running()
    await lease.complete(LARGE)

    (field,) = await shell.lines("task", str(lease.id), "--field", "result")
    assert field == LARGE
    (kept,) = await harness.queue.artifacts.list(lease.id)
    (tmp_path / "kept" / kept.id).unlink()
    found = await shell.run("task", str(lease.id))
    (document,) = await shell.json("task", str(lease.id))

    assert found.exit_code == 0
    assert (document["result"], document["damaged"]) == (None, ["result"])
    assert document["result_artifact"]["id"] == kept.id
    assert "result   missing: its artifact was deleted or is damaged" in found.stdout
    assert f"stored   {kept.reference}" in found.stdout


async def test_a_dry_sweep_prints_what_it_would_delete(harness: Harness, shell: Shell) -> None:
    assert await shell.lines("artifacts", "sweep", "--dry-run") == ["0 would be deleted"]
    assert await shell.json("artifacts", "sweep", "--days", "1") == [
        {"found": [], "deleted": 0, "more": False}
    ]


async def test_errors_are_one_line_with_an_exit_code(
    harness: Harness, shell: Shell, tmp_path: Path
) -> None:
    missing = await shell.run("artifacts", "get", f"artifact:{new_artifact_id()}")
    wrong = await shell.run("artifacts", "get", "../etc/passwd")
    (tmp_path / "kept").write_text("in the way")
    (tmp_path / "in").write_text("x")
    broken = await shell.run("artifacts", "put", str(tmp_path / "in"))
    shell.env["RQUEUE_ARTIFACTS_URL"] = "ftp://x"
    unset = await shell.run("artifacts", "put", str(tmp_path / "in"))

    assert [one.exit_code for one in (missing, wrong, broken, unset)] == [1, 2, 4, 5]
    assert all(len(one.stderr.splitlines()) == 1 for one in (missing, wrong, broken, unset))
