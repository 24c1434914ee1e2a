"""Names of final states and of groupings that searches and totals of the archive accept.

The command line imports this module without the rest of the archive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from rqueue.task.forms import automechanica, reference
from rqueue.task.state import FINAL, State

# Every name of a final state in any document form, in lower case.
WORDS: Mapping[str, State] = {
    word.lower(): state
    for words in ({state: state.value for state in State}, reference.STATUS, automechanica.STATUS)
    for state, word in words.items()
    if state in FINAL
}
# What totals can be grouped by.
By = Literal["type", "agent", "worker", "model", "day"]
BYS: tuple[By, ...] = get_args(By)
