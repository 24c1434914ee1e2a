"""Checks the destination of a notice: no webhook may reach the private network of the notifier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from rqueue.notices.sink import Destinations

Ip = IPv4Address | IPv6Address

PORTS = {"http": 80, "https": 443}
# Addresses that are not public: IANA's registries of special purposes, former ones (site-local,
# 6to4, its relays), and Azure's host. Which of them `ipaddress` contains depends on the version of
# Python; these are always refused. Of IPv6 only 2000::/3 has been allocated, so the rest needs no
# rows.
ALLOCATED = ip_network("2000::/3")
SPECIAL = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32",
        "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
        "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
        "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
    )
)  # fmt: skip
# The third quarter of an address that embeds one of IPv4 (RFC 5214), which is then checked too.
ISATAP = (0x0000_5EFE, 0x0200_5EFE)
LOW = 0xFFFF_FFFF


class Target(NamedTuple):
    """The parts of a URL that a connection needs."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def literal(self) -> Ip | None:
        """The address, if the host is one."""
        return address_in(self.host)

    @property
    def named(self) -> str:
        """The host as requests name it, with the port unless that is the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if PORTS[self.scheme] == self.port else f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """The part that is compared with the allowed origins."""
        return self.scheme, self.host.lower(), self.port


def target_of(url: str) -> Target:
    """Returns the parts of a URL that was checked before."""
    found = urlsplit(url)
    path = (found.path or "/") + (f"?{found.query}" if found.query else "")
    return Target(found.scheme, found.hostname or "", found.port or PORTS[found.scheme], path)


def refused_target(target: Target, allowed: Destinations) -> str:
    """Returns why no notice may be sent to this target, whatever its address; "" if it may."""
    if allowed.origins:
        named = target.origin in {target_of(one).origin for one in allowed.origins}
        return "" if named else "is none of the origins in notice_destinations"
    return "" if target.scheme == "https" else "is not https, and not in notice_destinations"


def refused_addresses(target: Target, addresses: Sequence[str], allowed: Destinations) -> str:
    """Returns why a connection to a host with these addresses is not allowed; "" if it is.

    One refused address refuses the host, because the next look-up could return that address first.
    """
    if not addresses:
        return "has no address"
    networks = [ip_network(one) for one in allowed.networks]
    literal = target.literal if allowed.origins else None
    for text in addresses:
        found = address_in(text)
        if found is None:
            return "has an unreadable address"
        if found == literal or any(found in network for network in networks):
            continue
        if not all(is_public(one) for one in equivalents(found)):
            return f"has the address {found}, which is not public"
    return ""


def address_in(text: str) -> Ip | None:
    """Returns the address in a text; None if it is not an address."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def equivalents(address: Ip) -> Iterable[Ip]:
    """Yields an address, and the IPv4 address that it embeds. Addresses with other embeddings are
    not public.
    """
    yield address
    if isinstance(address, IPv6Address) and int(address) >> 32 & LOW in ISATAP:
        yield IPv4Address(int(address) & LOW)


def is_public(address: Ip) -> bool:
    """Returns whether an address is public: not that of this machine, its networks, or their
    services.
    """
    if isinstance(address, IPv6Address) and address not in ALLOCATED:
        return False
    return address.is_global and not (
        address.is_multicast
        or address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_reserved
        or address.is_unspecified
        or any(address in network for network in SPECIAL)
    )
