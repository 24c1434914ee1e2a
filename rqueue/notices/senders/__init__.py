"""Senders of notices, one module for each kind of sink."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, assert_never

from rqueue.errors import ConfigError
from rqueue.notices.senders.log import LogSender
from rqueue.notices.senders.mail import SmtpSender
from rqueue.notices.senders.webhook import WebhookSender
from rqueue.notices.sink import LogSink, SlackSink, SmtpSink, WebhookSink

if TYPE_CHECKING:
    from rqueue.clock import Clock
    from rqueue.notices.senders.sender import Sender
    from rqueue.notices.senders.webhook import Resolve
    from rqueue.notices.sink import Destinations, Sink


def sender_of(
    sink: Sink, allowed: Destinations, *, clock: Clock, resolve: Resolve | None = None
) -> Sender:
    """Returns the sender for a sink. Raises ConfigError if a secret or a package that it needs is
    missing.
    """
    match sink:
        case WebhookSink():
            secret = secret_of(sink.name, "secret_env", sink.secret_env)
            return WebhookSender(sink, url_of(sink), allowed, clock, resolve=resolve, secret=secret)
        case SlackSink():
            return WebhookSender(sink, url_of(sink), allowed, clock, resolve=resolve)
        case SmtpSink():
            login = sink.password_env and secret_of(sink.name, "password_env", sink.password_env)
            return SmtpSender(sink, password=login or "")
        case LogSink():
            return LogSender()
        case _:
            assert_never(sink)


def url_of(sink: WebhookSink | SlackSink) -> str:
    """Returns the URL of a sink. One from the environment is checked like one from the settings."""
    if sink.url_env is None:
        return str(sink.url)
    url = secret_of(sink.name, "url_env", sink.url_env)
    try:
        return str(type(sink).model_validate({**dict(sink), "url": url, "url_env": None}).url)
    except ValueError:
        rule = f"the variable {sink.url_env} holds no URL that begins with https://"
        raise ConfigError(f"sinks.{sink.name}.url_env", rule) from None


def secret_of(sink: str, field: str, variable: str) -> str:
    """Returns the value of an environment variable. Raises ConfigError if it is not set."""
    found = os.environ.get(variable, "")
    if not found:
        raise ConfigError(f"sinks.{sink}.{field}", f"the variable {variable} is not set")
    return found
