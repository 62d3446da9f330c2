"""Arrays, under the classic name: `smelt.nd.array(x, smelt.cpu(0))`."""

from __future__ import annotations

from smelt.runtime import Device, NDArray, array, cpu, cuda, device, empty, from_dlpack

gpu = cuda
"""The older name of `cuda`."""

__all__ = ["Device", "NDArray", "array", "cpu", "cuda", "device", "empty", "from_dlpack", "gpu"]
