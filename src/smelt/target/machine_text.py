"""A machine in columns, for people: each field in a unit that fits."""

from __future__ import annotations

from .machine import Cache, Machine

_UNITS = {
    **dict.fromkeys(("vector_bytes", "unit_bytes"), (1, "bytes")),
    "clock": (1e9, "GHz"),
    "latency": (1, "cycles"),
    "add_latency": (1, "cycles"),
    "memory": (1e9, "GB/s"),
    "memory_all": (1e9, "GB/s"),
    "memory_latency": (1e-9, "ns"),
    "launch": (1e-6, "us"),
    "task": (1e-9, "ns"),
    **dict.fromkeys(("line_bytes", "page_bytes", "pointer_bytes"), (1, "bytes")),
    **dict.fromkeys(("page_cycles", "far_page_cycles"), (1, "cycles")),
    **dict.fromkeys(("multiply_adds", "adds", "loads", "stores", "dots"), (1, "a cycle")),
}
"""The size of a unit and its name, by field."""


def machine_rows(machine: Machine) -> list[tuple[str, str]]:
    """The name and the value of each field; a row for each cache."""
    rows: list[tuple[str, str]] = []
    for name in machine.__match_args__:
        value = getattr(machine, name)
        if name == "caches":
            rows += [(c.name, cache_text(c)) for c in machine.caches] or [(name, "none")]
        elif isinstance(value, tuple):
            rows.append((name, ", ".join(value) or "none"))
        elif name in _UNITS:
            unit, word = _UNITS[name]
            rows.append((name, f"{value / unit:.4g} {word}"))
        else:
            rows.append((name, {True: "yes", False: "no"}[value] if name == "fma" else str(value)))
    return rows


def machine_text(machine: Machine) -> str:
    """Names and values in two columns."""
    rows = machine_rows(machine)
    width = max([len(name) for name, _ in rows])
    return "\n".join([f"{name:<{width}}  {value}" for name, value in rows])


def cache_text(cache: Cache) -> str:
    """A cache's size, who shares it, and what it gives."""
    kibi = cache.size / 1024
    amount = f"{kibi:g} KiB" if kibi < 1024 else f"{kibi / 1024:g} MiB"
    shared = f" for {cache.cores} cores" if cache.cores > 1 else ""
    return f"{amount}{shared}, {cache.bytes_per_cycle:.3g} bytes a cycle, {cache.ways} ways"
