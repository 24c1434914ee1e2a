"""Who decides at a terminal where nobody said who: the user of the operating system."""

from __future__ import annotations

import os
import pwd
import re

# What the name of a principal may hold, and how long it may be.
STRANGE = re.compile(r"[^A-Za-z0-9._-]+")
LONGEST = 128


def os_user() -> str:
    """The user of this process as a principal: `human:ada`, by number where it has no name.

    By the system's own list: what the environment says is anybody's word.
    """
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = ""
    name = STRANGE.sub("-", name).strip("._-")[:LONGEST]
    return f"human:{name or f'uid-{uid}'}"
