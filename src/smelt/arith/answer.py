"""The three answers to a question about all values of the variables."""

from __future__ import annotations

from enum import Enum

__all__ = ["Answer"]


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
