"""The code of the guides is run: each page from top to bottom, as one program."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tests.servers import Server

GUIDES = Path(__file__).parent.parent.parent / "docs" / "guides"
PAGES = (
    "tasks.md",
    "graphs.md",
    "documents.md",
    "workers.md",
    "artifacts.md",
    "proof.md",
    "testing.md",
    "notices.md",
    "dead.md",
)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
URL = "redis://localhost:6379"


@pytest.mark.parametrize("page", PAGES)
async def test_the_code_of_a_guide_runs(
    valkey: Server, page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (GUIDES / page).read_text("utf-8")
    names: dict[str, Any] = {}

    blocks = list(BLOCK.finditer(text))
    for block in blocks:
        # Padded with empty lines, so that errors name the line of the page.
        before = "\n" * text.count("\n", 0, block.start(1))
        source = before + block[1].replace(URL, valkey.url)
        code = compile(source, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        ran = eval(code, names)
        if inspect.isawaitable(ran):
            await ran
    await names["queue"].aclose()

    assert len(blocks) >= 5
    assert "docs/guides" not in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES)
def test_a_guide_uses_no_other_server(page: str) -> None:
    text = (GUIDES / page).read_text("utf-8")

    assert set(re.findall(r"rediss?://[^\"]+", text)) == {URL}
