"""Where webhooks may go."""

from __future__ import annotations

import pytest

from rqueue.notices.destination import refused_addresses, refused_target, target_of
from rqueue.notices.sink import Destinations

ANYWHERE = Destinations()
PUBLIC = ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"]


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("https://e.org/x?a=1", "e.org"),
        ("https://e.org:443", "e.org"),
        ("https://e.org:8443/x", "e.org:8443"),
        ("http://[::1]:80/", "[::1]"),
        ("http://[::1]:8080/", "[::1]:8080"),
    ],
)
def test_the_host_header_matches_the_url(url: str, named: str) -> None:
    assert target_of(url).named == named


@pytest.mark.parametrize(
    ("url", "origins", "allowed"),
    [
        ("https://e.org/x", [], True),
        ("http://e.org/x", [], False),
        ("https://e.org/x", ["https://e.org"], True),
        ("https://e.org:443/x", ["https://e.org"], True),
        ("https://E.org/x", ["https://e.org"], True),
        ("https://e.org:444/x", ["https://e.org"], False),
        ("http://e.org/x", ["https://e.org"], False),
        ("https://f.org/x", ["https://e.org"], False),
        ("https://e.org.f.org/x", ["https://e.org"], False),
        ("http://127.0.0.1:8080/x", ["http://127.0.0.1:8080"], True),
    ],
)
def test_with_an_allow_list_only_its_origins_are_allowed(
    url: str, origins: list[str], allowed: bool
) -> None:
    found = refused_target(target_of(url), Destinations(origins=tuple(origins)))

    assert (found == "") is allowed


def test_public_addresses_are_allowed() -> None:
    assert refused_addresses(target_of("https://e.org"), PUBLIC, ANYWHERE) == ""


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "10.1.1.1", "172.31.0.1", "192.168.0.1", "169.254.169.254",
        "100.100.100.200", "0.0.0.0", "192.0.0.1", "198.18.0.1", "203.0.113.1", "224.0.0.1",
        "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%lo", "fc00::1",
        "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
        "::ffff:a00:1", "64:ff9b::10.0.0.1", "2002:a00:1::1", "2001:0:7f00:1::", "", "host",
        "192.0.0.192", "192.0.0.9", "192.88.99.1", "168.63.129.16", "fec0::1", "3fff::1",
        "64:ff9b:1::a00:1", "100::1", "5f00::1", "4000::1", "2001:db8::1", "2001:20::1",
        "2002:808:808::1", "::127.0.0.1", "::ffff:0:127.0.0.1",
        "2001:4860:4860::5efe:7f00:1", "2001:4860:4860::200:5efe:a00:1",
    ],
)  # fmt: skip
def test_one_private_address_refuses_the_host(address: str) -> None:
    for addresses in ([address], [*PUBLIC, address], [address, *PUBLIC]):
        assert refused_addresses(target_of("https://e.org"), addresses, ANYWHERE) != ""


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8", "1.1.1.1", "192.0.1.1", "192.88.98.1", "223.255.255.255", "168.63.129.17",
        "2001:4860:4860::8888", "2606:4700::1111", "2a00:1450::1", "2001:4860:4860::5efe:808:808",
    ],
)  # fmt: skip
def test_addresses_next_to_a_special_network_are_public(address: str) -> None:
    assert refused_addresses(target_of("https://e.org"), [address], ANYWHERE) == ""


def test_a_host_without_an_address_is_refused() -> None:
    assert refused_addresses(target_of("https://e.org"), [], ANYWHERE) == "has no address"


def test_a_listed_address_is_allowed_and_no_other() -> None:
    allowed = Destinations(origins=("http://10.0.0.5:80",))
    target = target_of("http://10.0.0.5/x")

    assert refused_addresses(target, ["10.0.0.5"], allowed) == ""
    assert refused_addresses(target, ["10.0.0.6"], allowed) != ""


def test_a_private_host_is_allowed_only_in_a_listed_network() -> None:
    allowed = Destinations(origins=("https://hooks.corp",), networks=("10.1.0.0/16", "fd00::/8"))
    target = target_of("https://hooks.corp/x")

    assert refused_addresses(target, ["10.1.2.3", "fd00::7"], allowed) == ""
    assert refused_addresses(target, ["10.2.2.3"], allowed) != ""
    assert refused_addresses(target, ["10.1.2.3", "127.0.0.1"], allowed) != ""
