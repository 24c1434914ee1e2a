"""The duration of a term, and the pauses while Redis is unavailable."""

from random import Random

import pytest

from rqueue.maintenance.reaper import reap_sec
from rqueue.process.scheduler import request_sec, term_sec, trusted_until
from rqueue.process.service import pause_sec


@pytest.mark.parametrize("lease_sec", [0.5, 5, 12, 30, 300, 3600])
def test_a_new_leader_reaps_before_the_reaper_would_see_a_gap(lease_sec: float) -> None:
    ttl_sec = term_sec(lease_sec)
    slowest_ask_sec = max(request_sec(ttl_sec, Random(at)) for at in range(200))

    assert reap_sec(lease_sec) + ttl_sec + slowest_ask_sec < lease_sec / 3


def test_a_term_is_bounded() -> None:
    assert term_sec(30) == term_sec(3600) == 5


def test_requests_of_many_candidates_are_spread() -> None:
    random = Random(7)
    pauses = {request_sec(3, random) for _ in range(100)}

    assert len(pauses) == 100
    assert 0.8 <= min(pauses) < max(pauses) <= 1.2


def test_a_leader_stops_trusting_its_term_before_it_ends() -> None:
    assert 100 < trusted_until(100, 5) < 105


def test_pauses_grow_up_to_a_limit() -> None:
    pauses = [pause_sec(failures, Random(7)) for failures in range(1, 2000)]

    assert pauses[:10] == sorted(pauses[:10])
    assert 0.1 <= pauses[0] <= 0.2
    assert max(pauses) <= 5
