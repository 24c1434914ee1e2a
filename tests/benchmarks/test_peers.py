"""The report and the counters of benchmarks/peers."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from benchmarks.peers import __main__ as command
from benchmarks.peers import counters, idle, measures, report
from benchmarks.peers.catalogue import OURS, PEERS, SHAPES, Peer
from benchmarks.peers.environment import Skipped
from benchmarks.peers.growth import Cost, Growth, compared
from benchmarks.peers.idle import IDLE, IdleCost
from benchmarks.peers.measures import Dispatch, Drained, Recovery
from benchmarks.peers.report import BEGIN, END
from benchmarks.peers.results import FULL, QUICK, Results, Size
from benchmarks.peers.runs import Row, recoveries
from benchmarks.peers.targets import target_lines


def test_a_page_with_one_marker_is_not_changed(tmp_path: Path) -> None:
    page = a_page(tmp_path, f"before\n{BEGIN}\nold\n")

    with pytest.raises(ValueError, match="markers"):
        report.write(page, "new")

    assert page.read_text("utf-8") == f"before\n{BEGIN}\nold\n"


def test_markers_in_the_wrong_order_are_refused(tmp_path: Path) -> None:
    page = a_page(tmp_path, f"{END}\n{BEGIN}\n")

    with pytest.raises(ValueError, match="markers"):
        report.write(page, "new")


def test_only_the_text_between_the_markers_changes(tmp_path: Path) -> None:
    page = a_page(tmp_path, f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n")

    report.write(page, "new\n")
    report.write(page, "newer\n")

    assert page.read_text("utf-8") == f"before\n\n{BEGIN}\nnewer\n{END}\n\nafter\n"


def test_markers_are_appended_to_a_page_without_them(tmp_path: Path) -> None:
    page = a_page(tmp_path, "before\n")

    report.write(page, "new\n")

    assert page.read_text("utf-8") == f"before\n\n{report.HEADING}\n\n{BEGIN}\nnew\n{END}\n"


def test_peers_are_ranked_by_their_rate() -> None:
    text = report.drained_table("1x10", {"slow": drained(10), "quick": drained(20_000)})

    assert text.splitlines() == [
        "### No-ops, one process, 10 slots",
        "",
        "|  | tasks/s | enqueue/s | Redis us/task: enqueue | work | worker us/task | tasks |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| quick | 20,000 | 1,000 | 4 | 6 | 50 | 300 |",
        "| slow | 10 | 1,000 | 4 | 6 | 50 | 300 |",
    ]


def test_lost_and_late_tasks_are_counted_separately() -> None:
    text = report.recovery_table({"a": Recovery(150, 3), "b": Recovery(66.4, 0)})

    assert text.splitlines()[-2:] == ["| b | 66 |", "| a | 3 not done after 150 s |"]


def test_rqueue_is_compared_with_the_best_peer_and_not_with_the_raw_loop() -> None:
    found = Results(
        drained={"1x10": {"raw": drained(90_000), "rqueue": drained(12_000), "a": drained(1_500)}},
        dispatch={"raw": Dispatch(0.5, 1), "rqueue": Dispatch(0.8, 1.6), "a": Dispatch(1, 1.5)},
    )

    assert target_lines(found) == [
        ["rate, 1x10, relative to the best peer", "8.00", ">= 6", "met"],
        ["Redis CPU, 1x10, relative to the best peer", "1.00", "< 1", "MISSED"],
        ["dispatch p50, relative to the best peer", "0.80", "< 1", "met"],
        ["dispatch p99, relative to the best peer", "1.07", "< 1", "MISSED"],
        ["dispatch p50, relative to the raw loop", "1.60", "<= 1.5", "MISSED"],
    ]


@pytest.mark.parametrize(
    ("recovery", "said"), [(Recovery(34, 0), "met"), (Recovery(34, 1), "MISSED")]
)
def test_lost_tasks_miss_the_recovery_target(recovery: Recovery, said: str) -> None:
    (line,) = target_lines(Results(recovery={"rqueue": recovery}))

    assert line[-1] == said


@pytest.mark.parametrize(("redis", "said"), [(4.9, "met"), (5.0, "MISSED")])
def test_idle_workers_must_not_load_the_server(redis: float, said: str) -> None:
    (line,) = target_lines(Results(idle={IDLE: IdleCost(redis, 30), "other": IdleCost(90, 90)}))

    assert line[-1] == said


def test_the_cpu_time_of_the_server_is_judged_in_every_shape() -> None:
    rows = {"rqueue": drained(10), "raw": drained(20), "a": drained(5)}

    said = [line[0] for line in target_lines(Results(drained=dict.fromkeys(SHAPES, rows)))]

    assert [line for line in said if line.startswith("Redis CPU")] == [
        f"Redis CPU, {shape}, relative to the best peer" for shape in SHAPES
    ]
    assert "rate, 1x100, relative to the raw loop" in said


def test_the_grown_run_is_compared_with_the_plain_run() -> None:
    text = report.growth_table([Growth("more", Cost(1000, 50, 40), Cost(900, 100, 60))])

    assert text.splitlines()[-1] == "| more | 900 | 0.90 | 100 | 2.00 | 60 | 1.50 |"


def test_plain_and_grown_runs_alternate() -> None:
    order: list[str] = []

    def turn(name: str, costs: list[float]) -> Cost:
        order.append(name)
        return Cost(costs.pop(), 1, 1)

    plain, grown = [1.0, 9.0, 5.0], [10.0, 90.0, 20.0]
    found = compared("more", lambda: turn("plain", plain), lambda: turn("grown", grown), 3)

    assert order == ["plain", "grown"] * 3
    assert (found.plain.rate, found.grown.rate) == (5, 20)


@pytest.mark.parametrize("size", [QUICK, Size(1, FULL.tasks, 1), Size(FULL.runs, 10, 1)])
def test_a_smaller_run_has_a_warning_first(size: Size) -> None:
    assert report.markdown(Results(size=size)).startswith("**A quick run")
    assert "quick" not in report.markdown(Results(size=FULL))


def test_a_backlog_that_is_too_small_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["peers", "--backlog", "50000"])

    with pytest.raises(SystemExit, match="at least 100,000"):
        command.size_of(command.arguments())


def test_options_take_precedence_over_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["peers", "--quick", "--tasks", "10"])

    assert command.size_of(command.arguments()) == Size(QUICK.runs, 10, QUICK.backlog)


def test_without_rqueue_its_own_figures_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "waiting", lambda: pytest.fail("was measured"))
    found = Results()

    command.idle_costs(found, [PEERS["huey"]])
    command.growth_costs(found, [PEERS["huey"]])

    assert (found.idle, found.growth) == ({}, [])


def test_a_failed_peer_is_excluded_from_later_runs(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {"huey": [3.0, 1.0, 2.0], "rq": [7.0]}

    def measure(peer: Peer) -> float:
        if not rates[peer.name]:
            raise Skipped("it fell")
        return rates[peer.name].pop(0)

    found = Row("rate", measure, float).medians([PEERS["huey"], PEERS["rq"]], 3)

    assert found == {"huey": 2.0, "rq": 7.0}
    assert capsys.readouterr().err.count("left out: it fell") == 1


def test_rqueue_is_killed_alone_and_the_peers_wait_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    together = threading.Barrier(2, timeout=30)

    def recover(shape: object, peer: Peer, lock: threading.Lock) -> Recovery:
        with lock:
            order.append(peer.name)
        if peer.name == "celery":
            raise Skipped("it fell")
        if peer.name != OURS:
            together.wait()
        return Recovery(len(order), 0)

    monkeypatch.setattr(measures, "recover", recover)
    peers = [PEERS[name] for name in ("huey", "celery", OURS, "rq")]

    found = recoveries(SHAPES["1x10"], peers)

    assert order[0] == OURS
    assert found[OURS].seconds == 1
    assert set(found) == {OURS, "huey", "rq"}


def test_without_rqueue_there_are_no_targets() -> None:
    found = Results(drained={"1x10": {"a": drained(10)}}, dispatch={"a": Dispatch(1, 2)})

    assert "Targets" not in report.markdown(found)


def test_every_thread_and_every_slot_is_counted(tmp_path: Path) -> None:
    counter_file = counters.CounterFile.create(tmp_path)
    slots = [counters.Slot(counter_file.path) for _ in range(2)]
    threads = [
        threading.Thread(target=lambda slot=slot: [slot.add() for _ in range(500)])
        for slot in slots * 4
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [count.count for count in counter_file.counts()] == [2000, 2000]


def test_counts_never_decrease(tmp_path: Path) -> None:
    counter_file = counters.CounterFile.create(tmp_path)
    slot = f"slot = counters.Slot(Path({str(counter_file.path)!r}))"
    count = f"{slot}\nfor _ in range(300_000): slot.add()"
    imports = "from pathlib import Path\nfrom benchmarks.peers import counters"

    adding = subprocess.Popen([sys.executable, "-c", f"{imports}\n{count}"])
    seen = []
    while adding.poll() is None:
        seen.append(counter_file.total())

    assert seen == sorted(seen)
    assert counter_file.total() == 300_000


def test_a_new_board_has_counted_nothing(tmp_path: Path) -> None:
    counter_file = counters.CounterFile.create(tmp_path)
    slot = counters.Slot(counter_file.path)
    slot.add()
    slot.note(counters.DONE, 1)

    again = counter_file.emptied()

    assert (again.path, again.total(), again.records(counters.DONE)) == (counter_file.path, 0, [])


def test_records_keep_their_kind_and_number(tmp_path: Path) -> None:
    counter_file = counters.CounterFile.create(tmp_path)
    slot = counters.Slot(counter_file.path)

    slot.note(counters.BEGUN, 1)
    slot.note(counters.DONE, 2)

    assert [number for number, _ in counter_file.records(counters.DONE)] == [2]


def a_page(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text, "utf-8")
    return page


def drained(rate: float) -> Drained:
    return Drained(300, rate, 1000, 4, 6, 50)
