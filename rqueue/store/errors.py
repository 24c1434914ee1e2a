"""Translates the driver's errors into errors of rqueue.

A server's error text repeats the arguments it was sent, so only the error's class and its first
word are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions as driver
from redis.asyncio.sentinel import MasterNotFoundError, SlaveNotFoundError

from rqueue.errors import ConfigError, Overloaded, RQueueError, ScriptFault, StoreUnavailable

DRIVER_ERRORS = (
    driver.RedisError,
    driver.RedisClusterException,
    OSError,
    TimeoutError,
)

# The reply of a server that refuses a command.
ServerRefused = driver.ResponseError

UNAVAILABLE = (
    driver.ConnectionError,
    driver.TimeoutError,
    driver.ReadOnlyError,
    driver.ClusterDownError,
    driver.TryAgainError,
    driver.AskError,
    driver.SlotNotCoveredError,
    MasterNotFoundError,
    SlaveNotFoundError,
    OSError,
    TimeoutError,
)
# Codes that redis-py has no class for.
UNAVAILABLE_CODES = frozenset(
    {"BUSY", "MISCONF", "NOREPLICAS", "UNBLOCKED", "FAILOVER", "NOGOODSLAVE"}
)
# The errors of Valkey and of Redis 7 for a command inside a function that the ACL forbids.
FORBIDDEN_INSIDE = ("ACL failure in script: ", "The user executing the script can't ")
CLUSTER_UNAVAILABLE = (
    "Redis Cluster cannot be connected",
    "All slots are not covered",
    "startup_nodes",
)


def translate(error: BaseException, what: str = "redis") -> RQueueError:
    """The rqueue error for a driver's error; `what` names the call or move."""
    match error:
        case RQueueError():
            return error
        case driver.OutOfMemoryError():
            return Overloaded("the server's memory is full")
        case driver.AuthenticationError() | driver.AuthorizationError():
            return ConfigError("url", "the server refuses this user or password")
        case _ if is_forbidden(error):
            return ConfigError("url", f"the server's ACL forbids this user a command: {what}")
        case _ if is_unavailable(error):
            return StoreUnavailable(f"{what}: {cause(error)}")
        case _:
            return ScriptFault(what, f"{type(error).__name__} {word(error)}".rstrip())


def is_forbidden(error: BaseException) -> bool:
    """Whether the server's ACL forbids this user a command, or one that a function sends."""
    return isinstance(error, driver.NoPermissionError) or (
        isinstance(error, driver.ResponseError)
        and str(error).removeprefix("ERR ").startswith(FORBIDDEN_INSIDE)
    )


def is_unavailable(error: BaseException) -> bool:
    """Whether the server was unavailable, so that a retry may help."""
    if isinstance(error, UNAVAILABLE):
        return True
    if isinstance(error, driver.RedisClusterException):
        return str(error).startswith(CLUSTER_UNAVAILABLE)
    return isinstance(error, driver.ResponseError) and word(error) in UNAVAILABLE_CODES


def word(error: BaseException) -> str:
    """The error's code: a first word in capitals, or nothing."""
    code = getattr(error, "status_code", None)
    first = str(code or next(iter(str(error).split()), ""))
    return first if first.isalpha() and first.isupper() else ""


def cause(error: BaseException) -> str:
    """The error's class, and the operating system's text where that failed."""
    root = error if isinstance(error, OSError) else error.__cause__ or error.__context__
    if isinstance(root, OSError) and root.errno is not None and root.strerror:
        return f"{type(error).__name__} ({root.strerror.partition('(')[0].strip()})"
    return type(error).__name__


@contextmanager
def translated(what: str = "redis") -> Iterator[None]:
    """Translates driver errors that the block raises."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translate(error, what) from error
