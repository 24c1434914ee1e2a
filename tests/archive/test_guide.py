"""Runs docs/guides/archive-upkeep.md from top to bottom as one program."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from rqueue.archive.connection import Archive
from rqueue.archive.schema import migrate_all
from rqueue.clock import SYSTEM
from tests.postgres import Database
from tests.servers import Server

PAGE = Path(__file__).parent.parent.parent / "docs" / "guides" / "archive-upkeep.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


async def test_the_guide_runs_as_written(
    valkey: Server, pg: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = Archive(lambda: pg.url)
    await migrate_all(archive, SYSTEM.now())
    await archive.aclose()
    text = PAGE.read_text("utf-8")
    names: dict[str, Any] = {}

    for block in BLOCK.finditer(text):
        source = "\n" * text.count("\n", 0, block.start(1)) + block[1]
        source = source.replace("redis://localhost:6379", valkey.url)
        source = source.replace("postgresql://localhost/rqueue", pg.url)
        code = compile(source, PAGE.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        ran = eval(code, names)
        if inspect.isawaitable(ran):
            await ran

    said = capsys.readouterr().out
    assert "['Hello Ada', 'Hello Grace']" in said
    assert "{'done': 2}" in said
    assert f"'restored-from': '{names['handles'][0].id}'" in said
