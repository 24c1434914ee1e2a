"""Where a queue keeps artifacts, as its settings say: a directory, or a bucket of an S3 API."""

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
    """A directory that every worker and reader of the queue sees."""

    path: Path


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket. Who may use it is said by the environment, never here."""

    name: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None


Place = Directory | Bucket


@dataclass(frozen=True, slots=True)
class Rules:
    """How large artifacts may be and how long one request may take. `max_result_bytes` is the
    largest result that goes there by itself; 0 where none does.
    """

    max_bytes: int = 1 << 30
    max_result_bytes: int = 0
    timeout_sec: float = 30.0


def place_of(url: str) -> Place:
    """The place that a URL means; ConfigError where it is none."""
    try:
        parts = urlsplit(url)
        words = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise ConfigError(SETTING, f"is no URL; it is {FORMS}") from None
    if "@" in parts.netloc:
        rule = "holds a user or password: they are for the environment (AWS_ACCESS_KEY_ID, ...)"
        raise ConfigError(SETTING, rule)
    if parts.fragment:
        raise ConfigError(SETTING, f"has something after a #; it is {FORMS}")
    match parts.scheme:
        case "file":
            return directory(parts.netloc, unquote(parts.path), words)
        case "s3":
            return bucket(parts.netloc, unquote(parts.path), words)
        case _:
            raise ConfigError(SETTING, f"is {FORMS}")


def directory(host: str, path: str, words: list[tuple[str, str]]) -> Directory:
    """The directory of a file URL."""
    if host not in ("", "localhost") or not path.startswith("/") or words or "\0" in path:
        raise ConfigError(SETTING, "of a directory is file:///its/whole/path")
    return Directory(Path(path))


def bucket(name: str, path: str, words: list[tuple[str, str]]) -> Bucket:
    """The bucket of an s3 URL."""
    given = dict(words)
    unknown = sorted(given.keys() - set(WORDS))
    if unknown or len(given) != len(words):
        raise ConfigError(SETTING, f"knows {' and '.join(WORDS)} after its ?, each once")
    endpoint = given.get("endpoint")
    if not name or not all(given.values()):
        raise ConfigError(SETTING, "names a bucket, and an endpoint and region that are not empty")
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise ConfigError(SETTING, "has an endpoint that begins with http:// or https://")
    if endpoint is not None and "@" in endpoint:
        raise ConfigError(SETTING, "holds a user or password: they are for the environment")
    return Bucket(name, path.strip("/"), endpoint, given.get("region"))
