"""Beside each test of a move on the embedded Valkey, its keys are compared with its page."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.monitored import Monitor, Watch, seen_in, unnamed
from tests.servers import Server


@pytest.fixture(autouse=True)
def touches_are_named(
    request: pytest.FixtureRequest, running: Callable[[str], Server]
) -> Iterator[None]:
    """A move touches only keys that its page names."""
    if not is_on_valkey(request):
        yield
        return
    monitor = Monitor(running("valkey"))
    yield
    seen = seen_in(monitor.lines())
    watch = request.config.pluginmanager.get_plugin("watch")
    assert isinstance(watch, Watch)
    watch.seen |= seen.keys()
    found = unnamed(seen)
    assert not found, "\n".join(found)


def is_on_valkey(request: pytest.FixtureRequest) -> bool:
    """Whether a test uses the embedded Valkey that it shares with others."""
    if "server_kind" in request.fixturenames:
        return bool(request.node.callspec.params["server_kind"] == "valkey")
    return "valkey" in request.fixturenames
