"""From a URL to a configured redis-py client: one server, Sentinel or Cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeGuard
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff

from rqueue.errors import ConfigError

Client = Redis | RedisCluster

PLAIN, TLS, UNIX = "redis", "rediss", "unix"
SENTINEL, CLUSTER = "redis+sentinel", "redis+cluster"
SECURE = {"rediss+sentinel": SENTINEL, "rediss+cluster": CLUSTER}
SCHEMES = (PLAIN, TLS, UNIX, SENTINEL, CLUSTER, *SECURE)
DEFAULT_PORT = {SENTINEL: 26379}
REDIS_PORT = 6379
HEALTH_CHECK_SEC = 15
TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is and how to log in; `str` of it never shows the password."""

    kind: str
    tls: bool
    hosts: tuple[tuple[str, int], ...]
    path: str
    db: int
    login: dict[str, Any]
    files: dict[str, str]

    def __str__(self) -> str:
        if self.kind == UNIX:
            return f"unix://{self.path}"
        hosts = ",".join(f"{host}:{port}" for host, port in self.hosts)
        scheme = self.kind.replace(PLAIN, TLS, 1) if self.tls else self.kind
        return f"{scheme}://{hosts}" + (f"/{self.path}" if self.path else "")

    __repr__ = __str__


def parse(url: str) -> Address:
    """The address in a URL; raises ConfigError, which does not repeat the URL."""
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        scheme = parts.scheme.lower()
    except ValueError as error:
        raise ConfigError("url", "is not a URL") from error
    if scheme not in SCHEMES:
        raise ConfigError("url", f"starts with one of {', '.join(f'{s}://' for s in SCHEMES)}")
    kind = SECURE.get(scheme, PLAIN if scheme == TLS else scheme)
    address = Address(
        kind=kind,
        tls=scheme == TLS or scheme in SECURE,
        hosts=() if kind == UNIX else hosts_of(parts, DEFAULT_PORT.get(kind, REDIS_PORT)),
        path=path_of(kind, parts),
        db=database(kind, parts, options),
        login=login_of(parts, options),
        files={name: options.pop(name) for name in TLS_FILES if name in options},
    )
    if options:
        raise ConfigError("url", f"has unknown options: {', '.join(sorted(options))}")
    return address


def hosts_of(parts: SplitResult, default_port: int) -> tuple[tuple[str, int], ...]:
    """Every `host:port` of the URL, separated by commas."""
    listed = parts.netloc.rpartition("@")[2]
    return tuple(host_port(text, default_port) for text in listed.split(","))


def host_port(text: str, default_port: int) -> tuple[str, int]:
    """One `host`, `host:port` or `[v6]:port`."""
    try:
        one = urlsplit(f"//{text}")
        return one.hostname or "localhost", one.port or default_port
    except ValueError as error:
        raise ConfigError("url", "has a host or port that cannot be read") from error


def path_of(kind: str, parts: SplitResult) -> str:
    """The socket's path, or the name of the service that Sentinel watches."""
    if kind == UNIX:
        path = unquote(parts.netloc.rpartition("@")[2] + parts.path)
        if not path:
            raise ConfigError("url", "unix:// needs the path of the socket")
        return path
    if kind == SENTINEL:
        service = unquote(parts.path.strip("/"))
        if not service:
            raise ConfigError("url", "redis+sentinel:// needs the service: //host:port/service")
        return service
    return ""


def database(kind: str, parts: SplitResult, options: dict[str, str]) -> int:
    """The database's number, from `?db=` or, for one server, from the path."""
    text = options.pop("db", "") or (parts.path.strip("/") if kind == PLAIN else "") or "0"
    if not text.isdecimal():
        raise ConfigError("url", "the database is a number")
    if kind == CLUSTER and text != "0":
        raise ConfigError("url", "a cluster has database 0 only")
    return int(text)


def login_of(parts: SplitResult, options: dict[str, str]) -> dict[str, Any]:
    """User and password, from before the `@` or from the options."""
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    return {
        "username": options.pop("username", None) or unquote(user) or None,
        "password": options.pop("password", None) or unquote(password) or None,
    }


def open_client(
    address: Address, *, timeout_sec: float, wait_sec: float, size: int, timed: bool = True
) -> Client:
    """A client with explicit settings throughout: redis-py's defaults would send a call twice.

    `timeout_sec` bounds one reply, unless the caller bounds it (`timed` False); `wait_sec` bounds
    the wait for a free connection of the pool.
    """
    options = driver_options(timeout_sec) | address.login
    if not timed:
        options["socket_timeout"] = None
    secure: dict[str, Any] = {"ssl": True, **address.files} if address.tls else {}
    if address.kind == CLUSTER:
        nodes = [ClusterNode(host, port) for host, port in address.hosts]
        return RedisCluster(startup_nodes=nodes, max_connections=size, **options, **secure)
    if address.kind == SENTINEL:
        own = {"db": address.db, "max_connections": size}
        # Time for all sentinels and then the master within one reply's time: the first may be
        # unreachable.
        watch = driver_options(timeout_sec / (len(address.hosts) + 1)) | secure
        sentinel = Sentinel(list(address.hosts), sentinel_kwargs=watch, **options, **secure, **own)
        master: Redis = sentinel.master_for(address.path)
        return master
    where: dict[str, Any] = {"path": address.path}
    kind: type[Connection | UnixDomainSocketConnection] = UnixDomainSocketConnection
    if address.kind == UNIX:
        options = {name: value for name, value in options.items() if "keepalive" not in name}
    else:
        host, port = address.hosts[0]
        where = {"host": host, "port": port} | address.files
        kind = SSLConnection if address.tls else Connection
    pool = BlockingConnectionPool(
        connection_class=kind,
        max_connections=size,
        timeout=wait_sec,
        db=address.db,
        **where,
        **options,
    )
    return Redis.from_pool(pool)


def is_cluster(client: Client) -> TypeGuard[RedisCluster]:
    """Whether a client is connected to a cluster."""
    return isinstance(client, RedisCluster)


async def close_client(client: Client) -> None:
    """Closes a client, and the connections to Sentinel that redis-py leaves open."""
    await client.aclose()
    if isinstance(client, Redis) and isinstance(client.connection_pool, SentinelConnectionPool):
        for sentinel in client.connection_pool.sentinel_manager.sentinels:
            await sentinel.aclose()


def driver_options(timeout_sec: float) -> dict[str, Any]:
    """The options that every connection has."""
    return {
        # Retries are made by Connection: only its calls carry an id that makes a repetition
        # harmless.
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        # Bytes: one reply that is not UTF-8 must not fail a batch.
        "decode_responses": False,
        "socket_timeout": timeout_sec,
        "socket_connect_timeout": timeout_sec,
        "socket_keepalive": True,
        "health_check_interval": HEALTH_CHECK_SEC,
        "client_name": "rqueue",
    }
