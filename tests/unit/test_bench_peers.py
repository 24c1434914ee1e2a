"""What the harness of benchmarks/peers writes down, and how it counts."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from benchmarks.peers import report, tally
from benchmarks.peers.measures import Dispatch, Drained, Recovery
from benchmarks.peers.report import BEGIN, END, Findings


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

    assert report.verdicts(found) == [
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
    (line,) = report.verdicts(Findings(recovery={"rqueue": recovery}))

    assert line[-1] == said


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
