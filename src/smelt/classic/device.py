"""Whether a program fits a device with threads: extents of axes, memory, who touches what."""

from __future__ import annotations

from collections.abc import Mapping

from smelt.ir.build import value_of
from smelt.ir.errors import TypeMismatch
from smelt.tir.nodes import For, PrimFunc
from smelt.tir.threads import is_grid_axis, kernels, outside_kernels, thread_axes, touched_buffers

from .counts import calculate_allocated_bytes

LIMITS = (
    "max_threads_per_block", "max_thread_x", "max_thread_y", "max_thread_z", "max_vthread",
    "max_shared_memory_per_block", "max_local_memory_per_block",
)  # fmt: skip
"""What `verify_gpu_code` can be asked to hold; memory in bytes, local memory of one thread."""


def verify_gpu_code(func: PrimFunc, constraints: Mapping[str, int]) -> bool:
    """Whether the kernels of a program keep limits of a device (see LIMITS)."""
    return not gpu_code_violations(func, constraints)


def gpu_code_violations(func: PrimFunc, constraints: Mapping[str, int]) -> list[str]:
    """What of a program exceeds the limits of a device, in words.

    Extents that are not known as numbers count as exceeding.
    """
    for name in constraints:
        if name not in LIMITS:
            raise TypeMismatch(f"there is no limit {name!r}; known: {', '.join(LIMITS)}")
    found: list[str] = []
    for kernel in kernels(func.body):
        found += _kernel_violations(kernel, constraints)
    memory = calculate_allocated_bytes(func)
    for scope in ("shared", "local"):
        most = constraints.get(f"max_{scope}_memory_per_block")
        used = sum(n for s, n in memory.items() if s.split(".")[0] == scope)
        if most is not None and used > most:
            found.append(f"{scope} memory: {used} bytes, at most {most}")
    return found


def _kernel_violations(kernel: For, constraints: Mapping[str, int]) -> list[str]:
    found: list[str] = []
    threads = 1
    for axis, loops in thread_axes(kernel).items():
        if is_grid_axis(axis):
            continue
        extent = value_of(loops[0].extent)
        if extent is None:
            found.append(f"{axis}: its extent is no number")
            continue
        if axis.startswith("vthread"):
            limit = "max_vthread"
        else:
            limit, threads = f"max_thread_{axis[-1]}", threads * extent
        if extent > constraints.get(limit, extent):
            found.append(f"{axis}: {extent}, at most {constraints[limit]}")
    most = constraints.get("max_threads_per_block")
    if most is not None and threads > most:
        found.append(f"threads of a block: {threads}, at most {most}")
    return found


def verify_memory(func: PrimFunc) -> bool:
    """Whether a program for a device touches its parameters inside of kernels only."""
    return not any(touched_buffers(s) & set(func.buffers) for s in outside_kernels(func.body))
