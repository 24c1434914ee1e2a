"""How long to wait between attempts: data only, so that worker and reaper decide alike."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from rqueue.model.attempt import Reason
from rqueue.model.checked import Checked, Seconds, refusal

Strategy = Literal["exponential", "quadratic", "linear", "fixed", "immediate", "list"]
JitterKind = Literal["additive", "proportional"]
Factor = Annotated[float, Field(ge=0, le=1000, strict=True, allow_inf_nan=False)]

DEFAULT_SHARE: dict[JitterKind, float] = {"additive": 0.1, "proportional": 0.5}
NEVER = (Reason.AUTH_FAILURE, Reason.BUDGET_EXCEEDED, Reason.CANCELLED)


def share(value: object) -> bool | float:
    """A yes or no, or a share from 0 to 1."""
    if isinstance(value, int | float) and 0 <= value <= 1:
        return value
    raise refusal("is true, false, or a share of the delay from 0 to 1")


Jitter = Annotated[bool | float, BeforeValidator(share)]


class RetryPolicy(Checked):
    """When a failed attempt is tried again. The defaults are document B's.

    `jitter` is a share of the delay, or True for the usual share of its kind: additive adds up to
    it (10 %), proportional spreads by it to both sides (50 %). It comes after the cap, so a delay
    may exceed `max_delay_sec`, unless `clamp_after_jitter`.

    An empty `retry_on` tries everything again that is not in `no_retry_on`. A given one restricts
    the named reasons to those listed; `error`, which is everything else, stays retryable.
    """

    strategy: Strategy = "exponential"
    initial_delay_sec: Seconds = 10.0
    backoff_multiplier: Factor = 2.0
    power: Annotated[float, Field(ge=0, le=10, strict=True, allow_inf_nan=False)] = 2.0
    max_delay_sec: Seconds | None = 300.0
    jitter: Jitter = True
    jitter_kind: JitterKind = "proportional"
    clamp_after_jitter: bool = False
    delays: Annotated[tuple[Seconds, ...], Field(max_length=1000)] = ()
    retry_on: tuple[Reason, ...] = ()
    no_retry_on: tuple[Reason, ...] = NEVER

    @model_validator(mode="after")
    def check_delays(self) -> Self:
        """The strategy `list` has a list, and only it."""
        if (self.strategy == "list") != bool(self.delays):
            raise refusal("delays are given with the strategy list, and only with it")
        return self

    @property
    def share(self) -> float:
        """The jitter as a share of the delay."""
        if isinstance(self.jitter, bool):
            return DEFAULT_SHARE[self.jitter_kind] if self.jitter else 0.0
        return self.jitter

    @classmethod
    def exponential(
        cls,
        initial: float = 10.0,
        multiplier: float = 2.0,
        *,
        max_delay: float | None = 300.0,
        jitter: bool | float = True,
        jitter_kind: JitterKind = "proportional",
    ) -> Self:
        """initial * multiplier ** (attempts - 1)."""
        return cls.parse(
            {
                "initial_delay_sec": initial,
                "backoff_multiplier": multiplier,
                "max_delay_sec": max_delay,
                "jitter": jitter,
                "jitter_kind": jitter_kind,
            },
            within="retry",
        )

    @classmethod
    def quadratic(
        cls, initial: float = 5.0, *, max_delay: float | None = None, jitter: bool | float = False
    ) -> Self:
        """initial * attempts ** 2."""
        return cls.simple("quadratic", initial, max_delay, jitter)

    @classmethod
    def linear(
        cls, initial: float = 10.0, *, max_delay: float | None = None, jitter: bool | float = False
    ) -> Self:
        """initial * attempts."""
        return cls.simple("linear", initial, max_delay, jitter)

    @classmethod
    def fixed(cls, delay: float = 10.0, *, jitter: bool | float = False) -> Self:
        """The same delay each time."""
        return cls.simple("fixed", delay, None, jitter)

    @classmethod
    def immediate(cls) -> Self:
        """No delay at all."""
        return cls.simple("immediate", 0.0, None, False)

    @classmethod
    def list(cls, delays: Sequence[float]) -> Self:
        """These delays in turn; the last one is repeated."""
        fields = {"strategy": "list", "delays": delays, "max_delay_sec": None, "jitter": False}
        return cls.parse(fields, within="retry")

    @classmethod
    def simple(
        cls, strategy: Strategy, initial: float, max_delay: float | None, jitter: bool | float
    ) -> Self:
        """A policy with nothing else to say."""
        fields = {
            "strategy": strategy,
            "initial_delay_sec": initial,
            "max_delay_sec": max_delay,
            "jitter": jitter,
        }
        return cls.parse(fields, within="retry")


REFERENCE = RetryPolicy.exponential(60.0, max_delay=3600.0, jitter=0.1, jitter_kind="additive")
FACTORY = RetryPolicy()
AUTOMECHANICA = RetryPolicy.quadratic(5.0)
