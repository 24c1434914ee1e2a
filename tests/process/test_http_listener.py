"""The listener: a few pages for valid requests, nothing for others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rqueue.errors import ConfigError
from rqueue.process import http_listener as module
from rqueue.process.http_listener import LOCAL, Address, Listener, Page


async def hello() -> Page:
    return Page(b"hello\n")


@pytest.fixture
async def address() -> AsyncIterator[Address]:
    listener = Listener(Address(LOCAL, 0), {"/hello": hello})
    yield await listener.start()
    await listener.aclose()


async def answer_to(address: Address, request: bytes) -> str:
    """The complete answer to some bytes, until the other side closes the connection."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    try:
        return (await reader.read()).decode()
    except ConnectionError:
        return ""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET /hello HTTP/1.1", 200),
        ("GET /hello?x=1 HTTP/1.0", 200),
        ("HEAD /hello HTTP/1.1", 200),
        ("GET / HTTP/1.1", 404),
        ("GET /hello/../etc HTTP/1.1", 404),
        ("POST /hello HTTP/1.1", 405),
        ("nonsense", 404),
        (f"GET /hello?{'x' * 20_000} HTTP/1.1", 431),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_only_known_paths_are_answered(
    address: Address, request_line: str, *, status: int
) -> None:
    answer = await answer_to(address, f"{request_line}\r\nHost: x\r\n\r\n".encode())

    head, _, body = answer.partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert (body == "hello\n") == (status == 200 and not request_line.startswith("HEAD"))


async def test_a_client_that_sends_no_request_is_disconnected(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLIENT_SEC", 0.05)

    assert await answer_to(address, b"GET /hello HT") == ""


async def test_slow_clients_do_not_pile_up(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_CLIENTS", 3)
    slow = [await asyncio.open_connection(*address) for _ in range(3)]
    for _, writer in slow:
        writer.write(b"GET")
    # The server accepts clients in order, so it has accepted them by now.
    assert await answer_to(address, b"GET /hello HTTP/1.1\r\n\r\n") == ""
    for _, writer in slow:
        writer.close()
        await writer.wait_closed()

    async with asyncio.timeout(10):
        while "hello" not in await answer_to(address, b"GET /hello HTTP/1.1\r\n\r\n"):
            continue


async def test_an_address_in_use_is_a_config_error(address: Address) -> None:
    with pytest.raises(ConfigError, match=f"{LOCAL}:{address.port}: cannot be listened on"):
        await Listener(address, {}).start()


def test_an_ipv6_address_is_written_in_brackets() -> None:
    assert str(Address("::1", 80)) == "[::1]:80"
