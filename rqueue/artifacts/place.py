"""The storage location of artifacts: a directory, or a bucket of an S3 API."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from rqueue.errors import ConfigError

SETTING = "artifacts_url"
WORDS = ("endpoint", "region")
FORMS = "file:///a/directory or s3://bucket/prefix?endpoint=https://...&region=..."


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory that all workers and readers of the queue share."""

    path: Path


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket. Its credentials are in the environment only."""

    name: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None


Place = Directory | Bucket


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits: the size of an artifact, and the time of one request. Results above
    `max_result_bytes` are stored as artifacts; with 0, none are.
    """

    max_bytes: int = 1 << 30
    max_result_bytes: int = 0
    timeout_sec: float = 30.0


def place_of(url: str) -> Place:
    """Returns the location that a URL names. Raises ConfigError if it is invalid."""
    try:
        parts = urlsplit(url)
        words = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise ConfigError(SETTING, f"is not a URL; expected {FORMS}") from None
    if "@" in parts.netloc:
        rule = "contains credentials: set them in the environment (AWS_ACCESS_KEY_ID, ...)"
        raise ConfigError(SETTING, rule)
    if parts.fragment:
        raise ConfigError(SETTING, f"has a fragment (#); expected {FORMS}")
    match parts.scheme:
        case "file":
            return directory(parts.netloc, unquote(parts.path), words)
        case "s3":
            return bucket(parts.netloc, unquote(parts.path), words)
        case _:
            raise ConfigError(SETTING, f"has an unknown scheme; expected {FORMS}")


def directory(host: str, path: str, words: list[tuple[str, str]]) -> Directory:
    """Returns the directory of a file URL."""
    if host not in ("", "localhost") or not path.startswith("/") or words or "\0" in path:
        raise ConfigError(SETTING, "of a directory is file:/// with an absolute path")
    return Directory(Path(path))


def bucket(name: str, path: str, words: list[tuple[str, str]]) -> Bucket:
    """Returns the bucket of an s3 URL."""
    given = dict(words)
    unknown = sorted(given.keys() - set(WORDS))
    if unknown or len(given) != len(words):
        raise ConfigError(SETTING, f"accepts only the parameters {' and '.join(WORDS)}, each once")
    endpoint = given.get("endpoint")
    if not name or not all(given.values()):
        raise ConfigError(SETTING, "needs a bucket name; endpoint and region must not be empty")
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise ConfigError(SETTING, "has an endpoint that does not begin with http:// or https://")
    if endpoint is not None and "@" in endpoint:
        raise ConfigError(SETTING, "contains credentials: set them in the environment")
    return Bucket(name, path.strip("/"), endpoint, given.get("region"))
