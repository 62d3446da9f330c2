"""How the practice programs talk: headings, programs, tables, charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from smelt.pipeline import lower
from smelt.runtime.program import Module
from smelt.tir.printer import script

from .schedules import Scheduled

Array = np.ndarray[Any, Any]


class Report:
    """Prints to a terminal, in colours where it has them."""

    def __init__(self, console: Console | None = None) -> None:
        """console: where to print; None: standard output."""
        self.console = console or Console(highlight=False)

    def title(self, text: str) -> None:
        """The start of a program."""
        self.console.rule(f"[bold]{text}")

    def say(self, text: str) -> None:
        """An explanation."""
        self.console.print(text.strip() + "\n", markup=False, soft_wrap=True)

    def question(self, text: str) -> None:
        """A question that the program is about to answer."""
        self.console.print(f"[bold]Question:[/] {text}\n", soft_wrap=True)

    def program(self, label: str, text: str) -> None:
        """A program's text."""
        self.console.print(f"[bold]{label}[/]")
        self.console.print("\n".join("    " + line for line in text.strip().splitlines()) + "\n",
                           markup=False, soft_wrap=True)  # fmt: skip

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table: the first column is text, the others are numbers."""
        table = Table()
        for i, name in enumerate(columns):
            table.add_column(name, justify="left" if i == 0 else "right")
        for row in rows:
            table.add_row(*[f"{v:.3g}" if isinstance(v, float) else str(v) for v in row])
        self.console.print(table)
        self.console.print()

    def chart(self, label: str, series: Mapping[str, Mapping[int, float]], width: int = 50) -> None:
        """A bar for each size of each series."""
        top = max([v for points in series.values() for v in points.values()], default=1.0)
        self.console.print(f"[bold]{label}[/]")
        sizes = sorted({n for points in series.values() for n in points})
        longest = max(len(name) for name in series)
        for n in sizes:
            for name, points in series.items():
                if n in points:
                    bar = "█" * max(1, round(width * points[n] / top))
                    line = f"{n:>5}  {name:<{longest}} {bar} {points[n]:.3g}"
                    self.console.print(line, markup=False, soft_wrap=True)
            self.console.print()


def program_text(scheduled: Scheduled) -> str:
    """The loops that a schedule makes."""
    mod = lower(scheduled.schedule, scheduled.args, simple_mode=True)
    return script(mod["main"])


def operands(n: int) -> tuple[Array, Array, Array]:
    """Random A and B, and room for C."""
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((n, n), np.float32) for _ in range(2))
    return a, b, np.zeros((n, n), np.float32)


def check(mod: Module, n: int) -> float:
    """The largest error of a compiled product, relative to the largest element; numpy is right."""
    a, b, c = operands(n)
    mod(a, b, c)
    expected = a.astype(np.float64) @ b
    return float(np.abs(c - expected).max() / np.abs(expected).max())


def seconds(mod: Module, n: int, repeat: int = 5) -> float:
    """The median time of a compiled product, after its result has been compared with numpy's."""
    error = check(mod, n)
    if not error < 1e-4:
        raise AssertionError(f"the product of size {n} is wrong by {error:.1e}")
    evaluate = mod.time_evaluator(mod.entry_name, number=1, repeat=repeat, min_repeat_ms=2)
    return evaluate(*operands(n)).median


def gigaflops(n: int, time: float) -> float:
    """Billions of operations a second: a product takes n^3 multiplications and additions."""
    return 2 * n**3 / time / 1e9
