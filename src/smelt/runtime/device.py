"""Devices: where the memory of an array lies, and what runs a program."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.runtime.errors import InputError, unknown

_CODES = {"cpu": 1, "cuda": 2, "opencl": 4, "vulkan": 7, "metal": 8, "rocm": 10, "ext_dev": 12,
          "hexagon": 14, "webgpu": 15}  # fmt: skip
"""DLPack's code of each kind."""
_TARGETS = {"llvm": "cpu", "c": "cpu", "stackvm": "cpu", "nvptx": "cuda", "gpu": "cuda",
            "cl": "opencl"}  # fmt: skip
"""Kinds of target, and older names, whose device is called otherwise."""


@dataclass(frozen=True, slots=True)
class Device:
    """A kind of device and its number. Naming one costs nothing; using it needs `exist`."""

    kind: str
    index: int = 0

    def __str__(self) -> str:
        """As it is written in a program: cpu(0)."""
        return f"{self.kind}({self.index})"

    @property
    def exist(self) -> bool:
        """Whether programs can run on it here."""
        return self == _CPU

    @property
    def device_type(self) -> int:
        """DLPack's code of the kind: 1 for the CPU."""
        return _CODES[self.kind]

    @property
    def device_id(self) -> int:
        """The number."""
        return self.index

    @property
    def dlpack(self) -> tuple[int, int]:
        """DLPack's code for it."""
        return _CODES[self.kind], self.index

    def sync(self) -> None:
        """Wait for the device: the CPU has always finished."""
        present(self, "sync")


_CPU = Device("cpu", 0)


def cpu(dev_id: int = 0) -> Device:
    """The host's memory."""
    if dev_id != 0:
        raise InputError(f"cpu({dev_id}): the host is one device, cpu(0)")
    return _CPU


def cuda(dev_id: int = 0) -> Device:
    """A graphics card by number. None can be used yet: `exist` is False."""
    return device("cuda", dev_id)


def device(dev_type: str | Device, dev_id: int = 0) -> Device:
    """A device by the name of its kind or of a target: "cpu", "llvm", "cuda", ..."""
    if isinstance(dev_type, Device):
        return dev_type
    if not isinstance(dev_type, str) or not dev_type.split():
        raise InputError(f"device: {dev_type!r} is no name of a device; e.g. 'cpu'")
    word = dev_type.split()[0]
    kind = _TARGETS.get(word, word)
    if kind not in _CODES:
        raise InputError(f"device: {unknown('kind', word, [*_CODES, *_TARGETS])}")
    if not isinstance(dev_id, int) or isinstance(dev_id, bool) or dev_id < 0:
        raise InputError(f"device({word!r}): the number is {dev_id!r}; an integer from 0 is legal")
    return cpu(dev_id) if kind == "cpu" else Device(kind, dev_id)


def present(dev: Device, who: str) -> Device:
    """The device, if it can be used here."""
    if not isinstance(dev, Device):
        raise InputError(f"{who}: the device is a {type(dev).__name__}; e.g. smelt.cpu(0)")
    if not dev.exist:
        raise InputError(f"{who}: there is no device {dev} here; arrays and programs are on {_CPU}")
    return dev
