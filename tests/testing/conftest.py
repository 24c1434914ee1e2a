"""A shop with handlers, whose server does not exist."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rqueue.testing import Memory, memory
from tests.testing.shop import Shop


@pytest.fixture
def shop() -> Shop:
    return Shop("redis://nowhere.invalid:1")


@pytest.fixture
def held(shop: Shop) -> Iterator[Memory]:
    """The shop's queue in memory."""
    with memory(shop.queue) as found:
        yield found
