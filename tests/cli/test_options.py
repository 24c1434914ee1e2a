"""Shared options: the ports of serving commands."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from rqueue.cli.main import cli
from rqueue.cli.options import address
from rqueue.process.http_listener import Address


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("9100", Address("127.0.0.1", 9100)),
        ("0.0.0.0:9100", Address("0.0.0.0", 9100)),
        ("[::1]:0", Address("::1", 0)),
        (":80", Address("127.0.0.1", 80)),
    ],
)
def test_an_address_is_a_port_with_or_without_a_host(text: str, found: Address) -> None:
    assert address(text) == found


@pytest.mark.parametrize("text", ["", "many", "host:", "1:70000", "-1", "9100:host"])
def test_an_invalid_address_is_wrong_usage(text: str) -> None:
    with pytest.raises(click.BadParameter):
        address(text)

    words = ["worker", "app:queue", f"--metrics-port={text}"]
    assert CliRunner().invoke(cli, words).exit_code == 2
