"""What the Analyzer answers: yes, no or unknown; constant bounds; residues."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar


class Answer(Enum):
    """YES: always true. NO: always false. UNKNOWN: neither could be shown."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"

    @staticmethod
    def of(value: object) -> Answer:
        """YES for a true Python value, NO for a false one."""
        return Answer.YES if value else Answer.NO

    def negate(self) -> Answer:
        """The answer to the opposite question."""
        if self is Answer.UNKNOWN:
            return self
        return Answer.NO if self is Answer.YES else Answer.YES


@dataclass(frozen=True)
class ConstIntBound:
    """min_value <= e <= max_value; an end without bound is NEG_INF or POS_INF."""

    min_value: int
    max_value: int

    POS_INF: ClassVar[int] = (1 << 63) - 1
    NEG_INF: ClassVar[int] = -POS_INF

    @staticmethod
    def of(low: int | None, high: int | None) -> ConstIntBound:
        """Of bounds with None for an end without; what lies beyond the infinities is cut off."""
        least, most = ConstIntBound.NEG_INF, ConstIntBound.POS_INF
        return ConstIntBound(
            least if low is None else min(max(low, least), most),
            most if high is None else min(max(high, least), most),
        )


@dataclass(frozen=True)
class ModularSet:
    """e = coeff * q + base for an integer q; coeff 0 where e is the constant base."""

    coeff: int
    base: int
