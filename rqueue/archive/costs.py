"""What a life has cost, of all that its task has said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rqueue.archive.copying import MAX_NAME, PART_DIGITS, escaped, number_in

if TYPE_CHECKING:
    from rqueue.store.kept import Kept


def spent(kept: Kept) -> dict[str, str]:
    """What it has cost in this life, without what was told late; and what the model was."""
    said = {word.decode(errors="replace"): kept.notes[2 * at + 1].decode(errors="replace")
            for at, word in enumerate(kept.notes[::2])}  # fmt: skip
    found = {
        "cost_micro_usd": own(said, "micro_usd", ""),
        "tokens_input": own(said, "tokens_in", "_in"),
        "tokens_output": own(said, "tokens_out", "_out"),
    }
    if "model" in said:
        found["model"] = escaped(said["model"][:MAX_NAME])
    return found


def own(said: Mapping[str, str], name: str, part: str) -> str:
    """A sum over all lives without what others have: the lives before, and the late costs."""
    total, *others = (
        int(number_in(said, one, PART_DIGITS)) for one in (name, f"before{part}", f"late{part}")
    )
    return str(max(0, total - sum(others)))
