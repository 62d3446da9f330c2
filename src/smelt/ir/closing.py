"""What ends with a `with` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Something that is closed; as a context manager at the end of the block."""

    @abstractmethod
    def close(self) -> None:
        """End it."""

    def __enter__(self) -> Self:
        """It, as it is."""
        return self

    def __exit__(self, *error: object) -> None:
        """End it."""
        self.close()
