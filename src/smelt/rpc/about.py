"""What a machine says of itself."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

from smelt.runtime.native import cores, cpu_features
from smelt.version import __version__


def describe() -> dict[str, Any]:
    """What a server says of its machine.

    features: by LLVM's names; memory: bytes; temperature: degrees Celsius, None: nobody knows
    """
    return {
        "server": "Python",
        "version": __version__,
        "host": platform.node(),
        "machine": platform.machine(),
        "cpu": _line("/proc/cpuinfo", ("model name", "Model", "uarch", "Hardware")),
        "cores": cores(),
        "features": cpu_features(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "temperature": _temperature(),
    }


def _line(path: str, names: tuple[str, ...]) -> str:
    """What a file of lines "name : value" says under the first of these names; "": nothing."""
    found: dict[str, str] = {}
    with suppress(OSError):
        for line in Path(path).read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            found.setdefault(name.strip(), value.strip())
    return next((found[n] for n in names if found.get(n)), "")


def _temperature() -> float | None:
    with suppress(OSError, ValueError):
        return int(Path("/sys/class/thermal/thermal_zone0/temp").read_text()) / 1000
    return None
