"""What stands for a library on another machine; smelt.rpc makes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class RemoteLibrary(ABC):
    """A library that runs elsewhere: executors of it are made there."""

    @abstractmethod
    def make(self, kind: str, *args: Any) -> Any:
        """An executor around it, by the name of its class; it is used as one here."""
