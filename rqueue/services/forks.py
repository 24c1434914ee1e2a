"""What handlers fork is a copy of this process, and must not be taken for it."""

from __future__ import annotations

import os
import signal
import threading
from functools import cache

# What a worker, its parent and its children answer in their own way.
ANSWERED = (signal.SIGTERM, signal.SIGINT, signal.SIGTTIN, signal.SIGTTOU)
HELD = threading.local()


@cache
def hush_forks() -> None:
    """From now on each copy of this process meets signals as a fresh process does. It has the
    descriptor through which an event loop here hears of them: its own would be heard here.
    """
    os.register_at_fork(before=hold, after_in_parent=let_go, after_in_child=hush)


def hold() -> None:
    """Lets signals to the copy wait until it is ready for them."""
    HELD.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ANSWERED)


def let_go() -> None:
    """Signals are as before."""
    mask = vars(HELD).pop("mask", None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def hush() -> None:
    """In a copy: nobody here hears what it is told, and it ends when it is told to."""
    signal.set_wakeup_fd(-1)
    for number in ANSWERED:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, usual)
    let_go()
