"""An artifact cannot be kept, or is not as it was kept."""

from __future__ import annotations

from rqueue.errors.root import RQueueError
from rqueue.errors.serving import StoreUnavailable


class ArtifactError(RQueueError):
    """An artifact cannot be kept, or is not as it was kept."""


class ArtifactRefused(ArtifactError):
    """What was given is no artifact that may be kept, or no reference to one."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(field, rule)
        self.field = field
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.field}: {self.rule}"


class ArtifactNotFound(ArtifactError):
    """No such artifact: never put, put elsewhere, or swept."""

    def __init__(self, artifact: str) -> None:
        super().__init__(artifact)
        self.artifact = artifact

    def __str__(self) -> str:
        return f"{self.artifact} is not here: never put, put into another store, or swept"


class ArtifactDamaged(ArtifactError):
    """What is kept of an artifact is not what was put."""

    def __init__(self, artifact: str, rule: str) -> None:
        super().__init__(artifact, rule)
        self.artifact = artifact
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.artifact} {self.rule}"


class ArtifactsUnavailable(ArtifactError, StoreUnavailable):
    """The directory or the object store did not do as asked. Worth retrying."""

    def __str__(self) -> str:
        return f"the artifact store cannot be used: {self.what}"
