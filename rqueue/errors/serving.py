"""A server, a script or a setting is not as it should be."""

from __future__ import annotations

from rqueue.errors.root import RQueueError


class StoreError(RQueueError):
    """Redis or Postgres did not do as asked."""


class StoreUnavailable(StoreError):
    """The server could not be reached or did not answer in time. Worth retrying.

    A call that fails so may have been carried out.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"the server did not answer: {self.what}"


class ScriptFault(StoreError):
    """A script answered what its caller cannot read: a bug of rqueue, please report it."""

    def __init__(self, script: str, reply: object) -> None:
        super().__init__(script, reply)
        self.script = script
        self.reply = reply

    def __str__(self) -> str:
        return f"script {self.script} answered {self.reply!r}; please report this"


class ConfigError(RQueueError):
    """A setting is missing or wrong."""

    def __init__(self, setting: str, rule: str) -> None:
        super().__init__(setting, rule)
        self.setting = setting
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.setting}: {self.rule}"
