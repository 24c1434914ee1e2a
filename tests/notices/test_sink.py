"""Sinks in the settings: errors name the setting, and no secret is shown."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.core.events import CATALOGUE
from rqueue.errors import ConfigError
from rqueue.notices.sink import LogSink
from rqueue.settings.load import Settings

HOOK = {"kind": "webhook", "name": "a", "url": "https://e.org/x", "secret_env": "S"}
SLACK = {"kind": "slack", "name": "a", "url_env": "S"}
MAIL = {"kind": "smtp", "name": "a", "host": "h", "sender": "a@e.org", "to": ["b@e.org"]}
LOG = {"kind": "log", "name": "a"}
NO_HOSTS = ["x..example", ".example", "a" * 70, f"{'a' * 64}.example", "a." * 130 + "example"]


@pytest.mark.parametrize(
    ("sink", "setting"),
    [
        ({**LOG, "kind": "fax"}, "sinks.0"),
        ({"name": "a"}, "sinks.0"),
        ({**LOG, "name": "a b"}, "sinks.0.log.name"),
        ({**LOG, "events": ["task.unheard_of"]}, "sinks.0.log.events.0"),
        ({**LOG, "min_severity": "loud"}, "sinks.0.log.min_severity"),
        ({**LOG, "colour": "red"}, "sinks.0.log.colour"),
        ({**HOOK, "secret_env": "not a name!"}, "sinks.0.webhook.secret_env"),
        ({**HOOK, "url": "ftp://e.org"}, "sinks.0.webhook.url"),
        ({**HOOK, "url": "https://"}, "sinks.0.webhook.url"),
        *(({**HOOK, "url": f"https://{host}/"}, "sinks.0.webhook.url") for host in NO_HOSTS),
        *(({**MAIL, "host": host}, "sinks.0.smtp.host") for host in NO_HOSTS),
        ({**HOOK, "url": "https://e.org:99999"}, "sinks.0.webhook.url"),
        ({**HOOK, "url": "https://e.org/a b"}, "sinks.0.webhook.url"),
        ({**HOOK, "url": "https://e.org/\r\nx: y"}, "sinks.0.webhook.url"),
        ({**HOOK, "url": "https://user:sesame@e.org"}, "sinks.0.webhook.url"),
        ({**HOOK, "url": "http://e.org/x"}, "sinks.a.url"),
        ({**HOOK, "url_env": "BOTH"}, "sinks.0.webhook"),
        ({k: v for k, v in HOOK.items() if k != "secret_env"}, "sinks.0.webhook.secret_env"),
        ({"kind": "slack", "name": "a"}, "sinks.0.slack"),
        ({**SLACK, "timeout_sec": 0}, "sinks.0.slack.timeout_sec"),
        ({**MAIL, "to": []}, "sinks.0.smtp.to"),
        ({**MAIL, "to": ["x@e.org\r\nBcc: y@e.org"]}, "sinks.0.smtp.to.0"),
        ({**MAIL, "sender": "Ops <a@e.org>"}, "sinks.0.smtp.sender"),
        ({**MAIL, "username": "u"}, "sinks.0.smtp"),
        ({**MAIL, "username": "u", "password_env": "P", "security": "none"}, "sinks.0.smtp"),
        ({**MAIL, "port": 0}, "sinks.0.smtp.port"),
    ],
)
def test_an_error_names_the_wrong_field_of_a_sink(sink: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Settings(name="q", sinks=[sink])

    assert refused.value.setting == setting
    assert "sesame" not in str(refused.value)


@pytest.mark.parametrize("host", ["e.org.", "a" * 63, "127.0.0.1", "[::ffff:10.0.0.1]", "x_y.corp"])
def test_valid_host_names_are_accepted(host: str) -> None:
    assert Settings(name="q", sinks=[{**HOOK, "url": f"https://{host}/x"}]).sinks


def test_duplicate_sink_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="has two sinks named a"):
        Settings(name="q", sinks=[LOG, MAIL])


@pytest.mark.parametrize(
    "allowed",
    [{"origins": ["https://e.org/path"]}, {"origins": ["e.org"]}, {"networks": ["10.0.0.1/8"]}],
)
def test_an_invalid_destination_is_refused(allowed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="notice_destinations"):
        Settings(name="q", notice_destinations=allowed)


@pytest.mark.parametrize(
    ("events", "least", "wanted"),
    [
        (["*"], "info", set(CATALOGUE)),
        (["breaker.*"], "info", {"breaker.opened", "breaker.closed"}),
        (["breaker.*"], "warning", {"breaker.opened"}),
        (["task.dead_lettered", "worker.lost"], "critical", {"task.dead_lettered"}),
    ],
)
def test_a_sink_selects_events_by_name_and_severity(
    events: list[str], least: str, wanted: set[str]
) -> None:
    sink = LogSink.model_validate({**LOG, "events": events, "min_severity": least})

    assert set(sink.wants()) == wanted


def test_by_default_a_sink_selects_dead_tasks_and_opened_breakers() -> None:
    wanted = LogSink.model_validate(LOG).wants()

    assert {"task.dead_lettered", "breaker.opened", "worker.lost"} <= set(wanted)
    assert not {"task.ready", "task.retrying", "dag.completed"} & set(wanted)


def test_settings_do_not_show_the_secret_part_of_a_url() -> None:
    settings = Settings(name="q", sinks=[{**HOOK, "url": "https://e.org/token"}])

    assert "token" not in repr(settings)
    assert settings.model_dump(mode="json")["sinks"][0]["url"] == "https://e.org/***"
