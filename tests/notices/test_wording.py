"""The texts of notices, and when they are retried."""

from __future__ import annotations

import json
from random import Random

import pytest

from rqueue.core.events import event_of
from rqueue.notices.notifier import LONGEST_DELAY_MS, delay_ms, is_given_up
from rqueue.notices.webhook import is_refusal
from rqueue.notices.wording import Message, as_json, as_slack, as_text, message_of, signature

EVIL = "a\r\nBcc: x@e.org\n\x00\x1b[2J\u2028" + "y" * 10_000


def blamed(detail: str, *, whole: bool = False, worker: str = "w1") -> Message:
    fields = {"event": "worker.blamed", "worker": worker, "detail": detail}
    event = event_of("1700000000123-4", fields)
    return message_of("shop", "ops", "5-0", event, whole=whole)


def test_the_message_id_consists_of_sink_and_notice() -> None:
    assert blamed("why").id == "ops-5-0"


def test_a_text_is_cut_to_one_short_line() -> None:
    message = blamed(EVIL)

    assert message.event.detail == {"why": "a\\r"}
    assert message.line == "[shop] Worker w1 was drained: a\\r"


def test_with_detail_a_text_is_sent_whole_up_to_a_limit() -> None:
    message = blamed(EVIL, whole=True)

    assert len(str(message.event.detail["why"])) == 8000
    assert str(message.event.detail["why"]).startswith("a\r\nBcc")
    assert len(message.line) <= 400
    assert message.line.isprintable()


def test_a_long_subject_is_cut() -> None:
    assert len(blamed("why", worker=EVIL).event.subject) <= 1000
    assert blamed("why", worker=EVIL).line.isprintable()


@pytest.mark.parametrize("whole", [True, False])
def test_no_body_contains_control_characters(whole: bool) -> None:
    message = blamed(EVIL, whole=whole, worker=EVIL)

    for body in (as_json(message), as_slack(message)):
        assert body.isascii()
        assert b"\n" not in body
    assert json.loads(as_json(message))["delivery"] == "ops-5-0"
    assert set(json.loads(as_slack(message))) == {"text"}
    assert as_text(message).splitlines()[0] == message.line
    assert not any(line.startswith("Bcc") for line in as_text(message).splitlines())


def test_a_signature_equals_that_of_openssl() -> None:
    """printf '1700000000.{}' | openssl dgst -sha256 -hmac secret"""
    signed = "b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163"

    assert signature("secret", "1700000000", b"{}") == f"v1={signed}"
    assert signature("secret", "1700000001", b"{}") != f"v1={signed}"
    assert signature("other", "1700000000", b"{}") != f"v1={signed}"


def test_four_statuses_are_refusals_and_ten_of_them_give_up() -> None:
    assert [status for status in range(100, 600) if is_refusal(status)] == [400, 413, 415, 422]
    assert [is_given_up(number) for number in (0, 1, 9, 10, 11)] == [False] * 3 + [True] * 2


def test_delays_double_up_to_a_maximum() -> None:
    random = Random(3)
    delays = [delay_ms(tries, random) for tries in range(1, 40)]

    assert 500 <= delays[0] <= 1000
    assert 1000 <= delays[1] <= 2000
    assert all(LONGEST_DELAY_MS / 2 <= delay <= LONGEST_DELAY_MS for delay in delays[10:])
    assert delay_ms(10**9, random) <= LONGEST_DELAY_MS
