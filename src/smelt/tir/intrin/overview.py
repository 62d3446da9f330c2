"""All tensor intrinsics as a table: `python -m smelt.tir.intrin.overview docs/intrinsics.md`.

The file's lines between the comments MARKS are replaced; without a file the table is printed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from smelt.tir.intrin import TensorIntrin
from smelt.tir.nodes import Buffer

MARKS = ("<!-- intrinsics: begin -->", "<!-- intrinsics: end -->")


def overview() -> str:
    """A markdown table: name, buffers, instructions with their sources, features."""
    lines = ["| tile | A, B, C | instruction | needs |", "|---|---|---|---|"]
    for name in sorted(TensorIntrin.list()):
        intrin = TensorIntrin.get(name)
        buffers = ", ".join([_typed(b) for b in intrin.desc.buffers])
        used = "; ".join([f"`{i.name}` ({i.source})" for i in intrin.instructions])
        lines.append(f"| `{name}` | {buffers} | {used} | {', '.join(intrin.features)} |")
    return "\n".join(lines)


def _typed(b: Buffer) -> str:
    shape = b.fixed_shape() or ()
    return f"{b.dtype}[{', '.join(map(str, shape))}]"


def renewed(page: str) -> str:
    """A page with the table between the marks as it is now."""
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n\n{overview()}\n\n{MARKS[1]}{after}"


def _main(arguments: list[str]) -> None:
    if not arguments:
        print(overview())
    for name in arguments:
        path = Path(name)
        path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    _main(sys.argv[1:])
