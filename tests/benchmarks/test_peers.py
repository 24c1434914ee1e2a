"""What the harness of benchmarks/peers writes down, and how it counts."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from benchmarks.peers import __main__ as command
from benchmarks.peers import measures, report, rest, tally
from benchmarks.peers.findings import FULL, QUICK, Findings, Size
from benchmarks.peers.growth import Cost, Growth, compared
from benchmarks.peers.measures import Dispatch, Drained, Recovery
from benchmarks.peers.report import BEGIN, END
from benchmarks.peers.rest import IDLE, Rest
from benchmarks.peers.roster import OURS, PEERS, SHAPES, Peer
from benchmarks.peers.stand import Skipped
from benchmarks.peers.turns import Row, recoveries
from benchmarks.peers.verdicts import verdicts


def test_a_page_with_one_marker_is_left_alone(tmp_path: Path) -> None:
    page = a_page(tmp_path, f"before\n{BEGIN}\nold\n")

    with pytest.raises(ValueError, match="markers"):
        report.write(page, "new")

    assert page.read_text("utf-8") == f"before\n{BEGIN}\nold\n"


def test_markers_in_the_wrong_order_are_refused(tmp_path: Path) -> None:
    page = a_page(tmp_path, f"{END}\n{BEGIN}\n")

    with pytest.raises(ValueError, match="markers"):
        report.write(page, "new")


def test_only_what_stands_between_the_markers_changes(tmp_path: Path) -> None:
    page = a_page(tmp_path, f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n")

    report.write(page, "new\n")
    report.write(page, "newer\n")

    assert page.read_text("utf-8") == f"before\n\n{BEGIN}\nnewer\n{END}\n\nafter\n"


def test_a_page_without_markers_gets_them_at_its_end(tmp_path: Path) -> None:
    page = a_page(tmp_path, "before\n")

    report.write(page, "new\n")

    assert page.read_text("utf-8") == f"before\n\n{report.HEADING}\n\n{BEGIN}\nnew\n{END}\n"


def test_a_shape_is_ranked_by_its_rate() -> None:
    text = report.drained_table("1x10", {"slow": drained(10), "quick": drained(20_000)})

    assert text.splitlines() == [
        "### No-ops, one process, 10 slots",
        "",
        "|  | tasks/s | enqueue/s | Redis us/task: enqueue | work | worker us/task | tasks |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| quick | 20,000 | 1,000 | 4 | 6 | 50 | 300 |",
        "| slow | 10 | 1,000 | 4 | 6 | 50 | 300 |",
    ]


def test_what_never_came_back_is_told_apart_from_what_came_late() -> None:
    text = report.recovery_table({"a": Recovery(150, 3), "b": Recovery(66.4, 0)})

    assert text.splitlines()[-2:] == ["| b | 66 |", "| a | 3 not done after 150 s |"]


def test_ours_is_held_against_the_best_peer_and_not_against_the_raw_loop() -> None:
    found = Findings(
        drained={"1x10": {"raw": drained(90_000), "rqueue": drained(12_000), "a": drained(1_500)}},
        dispatch={"raw": Dispatch(0.5, 1), "rqueue": Dispatch(0.8, 1.6), "a": Dispatch(1, 1.5)},
    )

    assert verdicts(found) == [
        ["rate, 1x10, of the best peer's", "8.00", ">= 6", "reached"],
        ["Redis CPU, 1x10, of the best peer's", "1.00", "< 1", "MISSED"],
        ["dispatch p50, of the best peer's", "0.80", "< 1", "reached"],
        ["dispatch p99, of the best peer's", "1.07", "< 1", "MISSED"],
        ["dispatch p50, of the raw read's", "1.60", "<= 1.5", "MISSED"],
    ]


@pytest.mark.parametrize(
    ("recovery", "said"), [(Recovery(34, 0), "reached"), (Recovery(34, 1), "MISSED")]
)
def test_work_that_is_lost_is_never_done_in_time(recovery: Recovery, said: str) -> None:
    (line,) = verdicts(Findings(recovery={"rqueue": recovery}))

    assert line[-1] == said


@pytest.mark.parametrize(("redis", "said"), [(4.9, "reached"), (5.0, "MISSED")])
def test_idle_loops_must_leave_the_server_idle(redis: float, said: str) -> None:
    (line,) = verdicts(Findings(rest={IDLE: Rest(redis, 30), "other": Rest(90, 90)}))

    assert line[-1] == said


def test_the_servers_part_is_judged_in_every_shape() -> None:
    rows = {"rqueue": drained(10), "raw": drained(20), "a": drained(5)}

    said = [line[0] for line in verdicts(Findings(drained=dict.fromkeys(SHAPES, rows)))]

    assert [line for line in said if line.startswith("Redis CPU")] == [
        f"Redis CPU, {shape}, of the best peer's" for shape in SHAPES
    ]
    assert "rate, 1x100, of the raw loop's" in said


def test_what_has_grown_stands_beside_the_plain_run() -> None:
    text = report.growth_table([Growth("more", Cost(1000, 50, 40), Cost(900, 100, 60))])

    assert text.splitlines()[-1] == "| more | 900 | 0.90 | 100 | 2.00 | 60 | 1.50 |"


def test_the_plain_and_the_grown_run_take_turns() -> None:
    order: list[str] = []

    def turn(name: str, costs: list[float]) -> Cost:
        order.append(name)
        return Cost(costs.pop(), 1, 1)

    plain, grown = [1.0, 9.0, 5.0], [10.0, 90.0, 20.0]
    found = compared("more", lambda: turn("plain", plain), lambda: turn("grown", grown), 3)

    assert order == ["plain", "grown"] * 3
    assert (found.plain.rate, found.grown.rate) == (5, 20)


@pytest.mark.parametrize("size", [QUICK, Size(1, FULL.tasks, 1), Size(FULL.runs, 10, 1)])
def test_a_smaller_run_says_so_first(size: Size) -> None:
    assert report.markdown(Findings(size=size)).startswith("**A quick run")
    assert "quick" not in report.markdown(Findings(size=FULL))


def test_a_backlog_that_would_not_last_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["peers", "--backlog", "50000"])

    with pytest.raises(SystemExit, match="at least 100,000"):
        command.size_of(command.arguments())


def test_what_is_asked_for_goes_before_what_is_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["peers", "--quick", "--tasks", "10"])

    assert command.size_of(command.arguments()) == Size(QUICK.runs, 10, QUICK.backlog)


def test_without_ours_nothing_of_ours_alone_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "idle", lambda: pytest.fail("was measured"))
    found = Findings()

    command.at_rest(found, [PEERS["huey"]])
    command.grown(found, [PEERS["huey"]])

    assert (found.rest, found.growth) == ({}, [])


def test_a_peer_that_fails_is_left_out_of_the_next_runs(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {"huey": [3.0, 1.0, 2.0], "rq": [7.0]}

    def measure(peer: Peer) -> float:
        if not rates[peer.name]:
            raise Skipped("it fell")
        return rates[peer.name].pop(0)

    found = Row("rate", measure, float).medians([PEERS["huey"], PEERS["rq"]], 3)

    assert found == {"huey": 2.0, "rq": 7.0}
    assert capsys.readouterr().err.count("left out: it fell") == 1


def test_ours_is_killed_alone_and_the_others_wait_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    together = threading.Barrier(2, timeout=30)

    def recover(shape: object, peer: Peer, alone: threading.Lock) -> Recovery:
        with alone:
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


def test_without_ours_nothing_is_to_be_reached() -> None:
    found = Findings(drained={"1x10": {"a": drained(10)}}, dispatch={"a": Dispatch(1, 2)})

    assert "To reach" not in report.markdown(found)


def test_every_thread_and_every_slot_is_counted(tmp_path: Path) -> None:
    board = tally.Board.lay(tmp_path)
    slots = [tally.Slot(board.path) for _ in range(2)]
    threads = [
        threading.Thread(target=lambda slot=slot: [slot.add() for _ in range(500)])
        for slot in slots * 4
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [count.count for count in board.counts()] == [2000, 2000]


def test_a_count_is_never_seen_to_fall(tmp_path: Path) -> None:
    board = tally.Board.lay(tmp_path)
    count = f"slot = tally.Slot(Path({str(board.path)!r}))\nfor _ in range(300_000): slot.add()"
    imports = "from pathlib import Path\nfrom benchmarks.peers import tally"

    adding = subprocess.Popen([sys.executable, "-c", f"{imports}\n{count}"])
    seen = []
    while adding.poll() is None:
        seen.append(board.total())

    assert seen == sorted(seen)
    assert board.total() == 300_000


def test_a_board_laid_anew_has_counted_nothing(tmp_path: Path) -> None:
    board = tally.Board.lay(tmp_path)
    slot = tally.Slot(board.path)
    slot.add()
    slot.note(tally.DONE, 1)

    again = board.anew()

    assert (again.path, again.total(), again.records(tally.DONE)) == (board.path, 0, [])


def test_records_keep_their_kind_and_number(tmp_path: Path) -> None:
    board = tally.Board.lay(tmp_path)
    slot = tally.Slot(board.path)

    slot.note(tally.BEGUN, 1)
    slot.note(tally.DONE, 2)

    assert [number for number, _ in board.records(tally.DONE)] == [2]


def a_page(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text, "utf-8")
    return page


def drained(rate: float) -> Drained:
    return Drained(300, rate, 1000, 4, 6, 50)
