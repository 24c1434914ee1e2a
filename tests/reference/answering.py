"""Who waits for what tasks had in hand that have left it, other than completed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.reference.breaking import wake
from tests.reference.claiming import answer

if TYPE_CHECKING:
    from tests.reference.model import Model


def answer_freed(model: Model, touched: set[int], *, freed: bool) -> None:
    """Answers who waits for the lanes `touched`, and where tasks have left the hand, for a place or
    for money that they had.
    """
    if freed and 0 in model.wakes.values():
        touched = touched | wake(model)
    if touched:
        answer(model, touched)
