"""Names that nothing else has."""

from __future__ import annotations


def unique_name(base: str, taken: set[str]) -> str:
    """base, base_1, base_2, ...: the first that is not taken, which it is then."""
    name, count = base, 0
    while name in taken:
        count += 1
        name = f"{base}_{count}"
    taken.add(name)
    return name
