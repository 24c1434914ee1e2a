"""The wheel's build hook: assembles lua/ into the one file that the package loads."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class LibraryHook(BuildHookInterface[Any]):
    """Adds the assembled Lua library to a wheel. An editable install assembles it at run time."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        # By path: the package cannot be imported before its dependencies are installed.
        builder = runpy.run_path(str(root / "rqueue" / "store" / "assemble.py"))
        self.folder = tempfile.TemporaryDirectory()
        built = Path(self.folder.name) / builder["FILE"]
        built.write_text(builder["assemble"](root / "lua"), encoding="utf-8")
        build_data["force_include"][str(built)] = f"rqueue/{built.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self.folder.cleanup()
