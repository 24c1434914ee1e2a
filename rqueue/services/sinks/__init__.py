"""How each kind of sink is told: one module each, behind one call."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, assert_never

from rqueue.errors import ConfigError
from rqueue.model.sink import LogSink, SlackSink, SmtpSink, WebhookSink
from rqueue.services.sinks.journal import Journal
from rqueue.services.sinks.mail import Mailer
from rqueue.services.sinks.posting import Poster

if TYPE_CHECKING:
    from rqueue.clock import Clock
    from rqueue.model.sink import Destinations, Sink
    from rqueue.services.sinks.posting import Resolve
    from rqueue.services.sinks.sending import Sender


def sender_of(
    sink: Sink, allowed: Destinations, *, clock: Clock, resolve: Resolve | None = None
) -> Sender:
    """What tells a sink; ConfigError where a secret or a package that it needs is not here."""
    match sink:
        case WebhookSink():
            secret = secret_of(sink.name, "secret_env", sink.secret_env)
            return Poster(sink, url_of(sink), allowed, clock, resolve=resolve, secret=secret)
        case SlackSink():
            return Poster(sink, url_of(sink), allowed, clock, resolve=resolve)
        case SmtpSink():
            login = sink.password_env and secret_of(sink.name, "password_env", sink.password_env)
            return Mailer(sink, password=login or "")
        case LogSink():
            return Journal()
        case _:
            assert_never(sink)


def url_of(sink: WebhookSink | SlackSink) -> str:
    """Where a sink is; read from the environment it must be as well made as in the settings."""
    if sink.url_env is None:
        return str(sink.url)
    url = secret_of(sink.name, "url_env", sink.url_env)
    try:
        return str(type(sink).model_validate({**dict(sink), "url": url, "url_env": None}).url)
    except ValueError:
        rule = f"the variable {sink.url_env} holds no URL that begins with https://"
        raise ConfigError(f"sinks.{sink.name}.url_env", rule) from None


def secret_of(sink: str, field: str, variable: str) -> str:
    """What a variable of the environment holds."""
    found = os.environ.get(variable, "")
    if not found:
        raise ConfigError(f"sinks.{sink}.{field}", f"the variable {variable} is not set")
    return found
