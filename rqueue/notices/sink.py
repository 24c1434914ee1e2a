"""The configuration of sinks: which events each receives, and how.

Secrets are in environment variables. A sink contains only the names of these variables.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_serializer, model_validator

from rqueue.core.events import CATALOGUE, Severity
from rqueue.task.fields import Line, Name, refusal

MOST_SINKS = 32
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# No quotes, blanks or brackets: nothing that could be read as two addresses, or as a header.
MAILBOX = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
WEB = ("http", "https")
MAX_HOST = 253


def variable(text: str) -> str:
    """Returns the text if it is a valid name of an environment variable."""
    if VARIABLE.fullmatch(text) is None:
        raise refusal("is the name of an environment variable, not its value")
    return text


def pattern(text: str) -> str:
    """Returns the text if it matches an event."""
    if not any(fnmatchcase(name, text) for name in CATALOGUE):
        raise refusal(f"{text!r} matches no event of docs/events.md")
    return text


def mailbox(text: str) -> str:
    """Returns the text if it is one plain e-mail address."""
    if MAILBOX.fullmatch(text) is None:
        raise refusal("is an e-mail address such as ops@example.org")
    return text


def host(text: str) -> str:
    """Returns the text if it is a host name that a resolver accepts."""
    try:
        fits = len(text.encode("idna")) <= MAX_HOST
    except UnicodeError:
        fits = False
    if not fits:
        raise refusal("has a host name with an empty or too long part")
    return text


def web_url(text: str) -> str:
    """Returns the text if it is a web address without a user name and password."""
    try:
        found = urlsplit(text)
        known = found.scheme in WEB and bool(found.hostname) and found.port != 0
    except ValueError:
        known = False
    if not known or not text.isascii() or not text.isprintable() or " " in text:
        raise refusal("is a URL that begins with https://")
    if found.username is not None or found.fragment:
        raise refusal("is a URL without a password and without a fragment")
    host(found.hostname or "")
    return text


def origin(text: str) -> str:
    """Returns the text if it is a URL without a path."""
    found = urlsplit(web_url(text))
    if found.path.strip("/") or found.query:
        raise refusal("is scheme://host or scheme://host:port, without a path")
    return text.rstrip("/").lower()


def network(text: str) -> str:
    """Returns the text if it is a network in CIDR notation."""
    try:
        return str(ip_network(text))
    except ValueError:
        raise refusal("is a network such as 10.1.0.0/16") from None


Variable = Annotated[str, AfterValidator(variable)]
Mailbox = Annotated[str, AfterValidator(mailbox)]
Url = Annotated[str, Field(max_length=2048), AfterValidator(web_url)]
Wait = Annotated[float, Field(gt=0, le=60, allow_inf_nan=False)]


class Destinations(BaseModel):
    """The allowed destinations of webhooks. Without `origins`, any https address of a public host
    is allowed. With `origins`, only these are. An origin may be private if it is an address or its
    host is in one of `networks`. Only a listed origin may use http.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    origins: tuple[Annotated[str, AfterValidator(origin)], ...] = ()
    networks: tuple[Annotated[str, AfterValidator(network)], ...] = ()


class AnySink(BaseModel):
    """The options of all sinks: a name, and the events that they receive. With `detail`, texts are
    sent whole, else cut to one line.
    """

    # Built with the settings that they are a part of.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True
    )

    name: Name
    events: tuple[Annotated[str, AfterValidator(pattern)], ...] = ("*",)
    min_severity: Severity = Severity.WARNING
    detail: bool = False

    def wants(self) -> list[str]:
        """Returns the names of the events that it receives."""
        return [
            name
            for name, kind in CATALOGUE.items()
            if kind.severity.rank >= self.min_severity.rank
            and any(fnmatchcase(name, one) for one in self.events)
        ]


class WebSink(AnySink):
    """A sink that receives POST requests. Its URL is in the configuration, or in an environment
    variable if it is itself a secret. `ca_file` contains trusted certificates that replace the
    default ones.
    """

    url: Url | None = Field(None, repr=False)
    url_env: Variable | None = None
    ca_file: Path | None = None
    timeout_sec: Wait = 10.0

    @field_serializer("url")
    def shown(self, url: str | None) -> str | None:
        """Returns the URL as settings show it, without the part after the host, which may be a
        secret.
        """
        return url and f"{urlsplit(url).scheme}://{urlsplit(url).netloc}/***"

    @model_validator(mode="after")
    def check_url(self) -> Self:
        """Raises ValueError unless exactly one of `url` and `url_env` is given."""
        if (self.url is None) == (self.url_env is None):
            raise ValueError("needs either url or url_env")
        return self


class WebhookSink(WebSink):
    """A signed POST of the event as JSON."""

    kind: Literal["webhook"]
    secret_env: Variable


class SlackSink(WebSink):
    """A message for a channel, in Slack's format."""

    kind: Literal["slack"]


class SmtpSink(AnySink):
    """An e-mail for each notice."""

    kind: Literal["smtp"]
    host: Annotated[Line, AfterValidator(host)]
    port: Annotated[int, Field(ge=1, le=65535)] = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: Line | None = None
    password_env: Variable | None = None
    sender: Mailbox
    to: Annotated[tuple[Mailbox, ...], Field(min_length=1, max_length=20)]
    ca_file: Path | None = None
    timeout_sec: Wait = 20.0

    @model_validator(mode="after")
    def check_login(self) -> Self:
        """Raises ValueError if only one of name and password is given, or if they would be sent
        unencrypted.
        """
        if (self.username is None) != (self.password_env is None):
            raise ValueError("needs both username and password_env, or neither")
        if self.username is not None and self.security == "none":
            raise ValueError("cannot log in without encryption: use starttls or tls")
        return self


class LogSink(AnySink):
    """A log line of the notifier's process."""

    kind: Literal["log"]


def unique_names(sinks: tuple[AnySink, ...]) -> tuple[AnySink, ...]:
    """Returns the sinks if no two have the same name."""
    names = [sink.name for sink in sinks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise refusal(f"has two sinks named {twice}")
    return sinks


Sink = WebhookSink | SlackSink | SmtpSink | LogSink
Sinks = Annotated[
    tuple[Annotated[Sink, Field(discriminator="kind")], ...],
    Field(max_length=MOST_SINKS),
    AfterValidator(unique_names),
]
