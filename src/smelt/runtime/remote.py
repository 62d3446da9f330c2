"""What stands for things on another machine; smelt.rpc makes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from smelt.runtime.device import Device


class RemoteLibrary(ABC):
    """A library that runs elsewhere: executors of it are made there."""

    @abstractmethod
    def make(self, kind: str, *args: Any) -> Any:
        """An executor around it, by the name of its class; it is used as one here."""


class RemoteDevice(Device):
    """A device of another machine: arrays that are made on it stay there."""

    __slots__ = ()

    def sync(self) -> None:
        """Nothing: whoever is answered knows that it has finished."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """An array of zeros there."""
        raise NotImplementedError
