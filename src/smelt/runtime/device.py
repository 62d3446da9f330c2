"""Devices: where the memory of an array lies."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.runtime.errors import InputError

__all__ = ["Device", "cpu"]

_DLPACK_CPU = 1


@dataclass(frozen=True, slots=True)
class Device:
    """A kind of device and its number."""

    kind: str
    index: int = 0

    def __str__(self) -> str:
        """As it is written in a program: cpu(0)."""
        return f"{self.kind}({self.index})"

    @property
    def dlpack(self) -> tuple[int, int]:
        """DLPack's code for it."""
        return _DLPACK_CPU, self.index


_CPU = Device("cpu", 0)


def cpu(index: int = 0) -> Device:
    """The host's memory."""
    if index != 0:
        raise InputError(f"cpu({index}): the host is one device, cpu(0)")
    return _CPU
