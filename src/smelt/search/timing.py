"""How candidates are timed, and what is found: seconds in turns, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, sqrt
from statistics import fmean, median, stdev

from .build import Operand


@dataclass(frozen=True)
class Unit:
    """What times are told in.

    per_second  how many of it are a second
    """

    name: str = "us"
    per_second: float = 1e6

    def text(self, seconds: float) -> str:
        """So many of it, for people; "" for what was not measured."""
        count = seconds * self.per_second
        digits = 0 if self is INSTRUCTIONS else 1 if count >= 100 else 2
        return f"{count:,.{digits}f}" if isfinite(count) else ""


MICROSECONDS, INSTRUCTIONS = Unit(), Unit("instructions", 1e9)
"""Of an emulator that counts instructions: each takes a nanosecond."""


@dataclass(frozen=True)
class Protocol:
    """How candidates are timed.

    cores     threads that a candidate may use
    cold      bytes that copies of constants take together: what is read between two calls
    rounds    samples of each at most, in turns; least: before it is looked at them
    hopeless  ratio to the reference's time from which on a candidate is given up after `least`
    seconds   of samples, after which no further round begins
    decide    go on until the confidence interval of the ratio says faster or not, up to `rounds`
    """

    cores: int = 1
    cold: int = 1 << 26
    rounds: int = 7
    least: int = 3
    hopeless: float = 1.1
    seconds: float = 0.05
    decide: bool = False


@dataclass(frozen=True)
class Timed:
    """What was found: seconds of runs in turns, and how far the results are apart.

    difference  the largest element's over the largest magnitude; None: not compared
    """

    seconds: tuple[float, ...]
    reference: tuple[float, ...]
    difference: float | None = None

    @property
    def relative(self) -> float:
        """The candidate's time over the reference's: the median of neighbouring samples."""
        return median([a / b for a, b in zip(self.seconds, self.reference, strict=True)])

    def interval(self) -> tuple[float, float]:
        """Bounds of the ratio of times, which were looked at after every round: wider than those of
        one look, so that a confidence of about 95 % is left."""
        return ratio_interval(self.seconds, self.reference, LOOKS)


LOOKS = 1.5


def ratio_interval(
    one: Sequence[float], other: Sequence[float], wider: float = 1.0
) -> tuple[float, float]:
    """Bounds of the mean log ratio of paired samples, as ratios: Student's t for 95 %, outliers
    cut. wider: by this factor."""
    logs = sorted([log(a / b) for a, b in zip(one, other, strict=True)])
    cut = len(logs) // 5
    kept = logs[cut : len(logs) - cut]
    if len(kept) < 3:
        return 0.0, float("inf")
    # what was cut would have spread: the winsorized deviation, as for trimmed means
    wide = [kept[0]] * cut + kept + [kept[-1]] * cut
    error = stdev(wide) * (len(logs) - 1) / (len(kept) - 1) / sqrt(len(logs))
    reach = wider * _T95.get(len(kept) - 1, 2.0 if len(kept) < 60 else 1.97) * error
    return exp(fmean(kept) - reach), exp(fmean(kept) + reach)


_T95 = {2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23,
        11: 2.20, 12: 2.18, 13: 2.16, 14: 2.14, 15: 2.13, 16: 2.12, 17: 2.11, 18: 2.10,
        19: 2.09, 20: 2.09}  # fmt: skip
"""Student's t for 95 %, two-sided, by degrees of freedom."""


TOLERANCES = {"float64": 1e-9, "float32": 1e-3, "float16": 2e-2, "bfloat16": 0.1}
"""How far results may be apart that were summed up in another order, or by another algorithm."""


def allowed(operands: Sequence[Operand]) -> float:
    """How far a candidate's results may be from the default's: integers are equal."""
    kinds = [o.dtype for o in operands if o.kind == "output"]
    return max([TOLERANCES.get(k, 0.0) for k in kinds], default=0.0)
