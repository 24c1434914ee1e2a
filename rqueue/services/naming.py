"""What a worker is called."""

from __future__ import annotations

import os
import secrets
import socket


def worker_name() -> str:
    """A name that no other worker has: where it runs, and a random end."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
