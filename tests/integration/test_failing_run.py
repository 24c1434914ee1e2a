"""A failing test is reported as such and does not end the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.architecture.tree import ROOT

FAILS = Path(__file__).with_name("failing_run.py")


def test_a_failing_test_is_reported_while_finalizers_parse_source() -> None:
    words = ["-p", "no:cacheprovider", str(FAILS)]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=ROOT, capture_output=True, check=False, text=True,
    )  # fmt: skip

    assert "INTERNALERROR" not in run.stdout + run.stderr
    assert "1 failed" in run.stdout
