"""The words that searches and sums of the archive are asked with. The command line reads them
without the archive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from rqueue.task.forms import automechanica, reference
from rqueue.task.state import FINAL, State

# Every word for a final state, of whichever document, in small letters.
WORDS: Mapping[str, State] = {
    word.lower(): state
    for words in ({state: state.value for state in State}, reference.STATUS, automechanica.STATUS)
    for state, word in words.items()
    if state in FINAL
}
# What sums are divided by.
By = Literal["type", "agent", "worker", "model", "day"]
BYS: tuple[By, ...] = get_args(By)
