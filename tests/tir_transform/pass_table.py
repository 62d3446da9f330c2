"""The tables of docs/passes.md, made from the code.

python -m tests.tir_transform.pass_table      # writes them anew
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from smelt.ir.config import CONFIG, ConfigKey
from smelt.relay import transform
from smelt.tir.transform import ABSENT

from .support import constructors

PAGE = Path(__file__).resolve().parents[2] / "docs" / "passes.md"
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def first_line(name: str) -> str:
    """What a pass says of itself first; all of it where there is nothing to do."""
    text = inspect.cleandoc(constructors()[name].__doc__ or "")
    return " ".join(text.split("\n\n")[0].split()).rstrip(".")


def passes() -> str:
    """Every classic name: what it does, or what does its work."""
    real = {n: first_line(n) for n in constructors()}
    rows = {**real, **{n: f"*not here*: {why}" for n, why in ABSENT.items()}}
    lines = [f"| `{n}` | {rows[n]} |" for n in sorted(rows, key=str.lower)]
    return "\n".join(["| name | here |", "|---|---|", *lines])


def relay() -> str:
    """Every classic name of Relay's: the level, what it does, or what does its work."""
    made = {n: getattr(transform, n) for n in transform.__all__ if n in transform.LEVELS}
    rows = {n: f"{transform.LEVELS[n]} | {_first(f.__doc__)}" for n, f in made.items()}
    rows |= {n: f" | *not here*: {why}" for n, why in transform.ABSENT.items()}
    lines = [f"| `{n}` | {rows[n]} |" for n in sorted(rows, key=str.lower)]
    return "\n".join(["| name | level | here |", "|---|---|---|", *lines])


def _first(doc: str | None) -> str:
    return " ".join(inspect.cleandoc(doc or "").split("\n\n")[0].split()).rstrip(".")


def config() -> str:
    """Every key of PassContext's config."""
    lines: list[str] = []
    for key in CONFIG:
        lines.append(_row(key, f"`{key.name}`"))
        lines += [_row(part, f"&nbsp;&nbsp;`{part.name}`") for part in key.parts]
    return "\n".join(["| key | legal | default | meaning |", "|---|---|---|---|", *lines])


def _row(key: ConfigKey, name: str) -> str:
    legal = "a mapping" if key.parts else key.legal
    default = "" if key.parts else f"`{key.default!r}`"
    return f"| {name} | {legal} | {default} | {key.meaning} |"


def refreshed(page: str) -> str:
    """A page with its tables as they are today."""
    made = {"passes": passes, "config": config, "relay": relay}
    return BLOCK.sub(lambda m: f"{m[1]}\n{made[m[2]]()}\n\n{m[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text()))
