"""What is said to a process that does not know where the archive of its queue is, and must."""

from __future__ import annotations

from rqueue.errors import ConfigError

WAY_OUT = (
    "set RQUEUE_POSTGRES_URL, or postgres_url in rqueue.yaml; a queue that has no archive any more"
    " is told so by `rqueue archive leave`, with `archive: none`"
)


def unknown(otherwise: str) -> ConfigError:
    """That it goes no further; `otherwise` is what the archive might do then."""
    rule = f"is not set, and the archive of this queue may {otherwise}: {WAY_OUT}"
    return ConfigError("postgres_url", rule)
