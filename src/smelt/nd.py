"""Arrays, under the classic name: `smelt.nd.array(x, smelt.cpu(0))`."""

from __future__ import annotations

from smelt.runtime import Device, NDArray, array, cpu, empty

__all__ = ["Device", "NDArray", "array", "cpu", "empty"]
