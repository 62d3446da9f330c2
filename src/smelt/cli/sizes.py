"""Reads what the command line says of sizes: shapes, ranges, likely values."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from smelt.cli.console import UsageError
from smelt.frontend.common import Input
from smelt.ir.sizes import Size
from smelt.runtime.errors import nearest

Shapes = dict[str, tuple[int | str | Size, ...]]


@dataclass(frozen=True)
class SizeOptions:
    """What the command line says of sizes.

    shape   NAME=SIZE,SIZE,…: numbers, names of symbolic sizes, expressions over them
    range   NAME=FROM..TO: the values that a symbolic size may have
    likely  NAME=VALUE,VALUE,…: values that get code of their own
    """

    shape: Sequence[str] | None = None
    range: Sequence[str] | None = None
    likely: Sequence[str] | None = None

    def shapes(self, inputs: Callable[[], Sequence[Input]]) -> Shapes:
        """The shapes for `smelt.compile`.

        inputs  of the file: asked for where a size is none of --shape's
        """
        shapes = read_shapes(self.shape or ())
        sizes = self._declared()
        missing = [n for n in sizes if not any(n in shape for shape in shapes.values())]
        if missing:
            shapes = self._of_file(shapes, inputs(), missing)
        return {
            k: tuple([sizes.get(e, e) if isinstance(e, str) else e for e in shape])
            for k, shape in shapes.items()
        }

    def _of_file(self, shapes: Shapes, inputs: Sequence[Input], missing: Sequence[str]) -> Shapes:
        """Shapes, with those of the inputs in which the file has some sizes."""
        named = {i.name: i.shape for i in inputs if i.name not in shapes and i.shape is not None}
        found = dict.fromkeys([e for s in named.values() for e in s if isinstance(e, str)])
        for name in missing:
            if name not in found:
                known = f"sizes of the file: {', '.join(found)}" if found else "the file names none"
                raise UsageError(
                    f"--range and --likely name the size {name!r}, which is no extent in --shape "
                    f"and no size of the file{nearest(name, found)}; {known}"
                )
        more = {
            k: tuple([f"{k}_{n}" if e is None else e for n, e in enumerate(s)])
            for k, s in named.items()
            if any(name in s for name in missing)
        }
        return {**shapes, **more}

    def _declared(self) -> dict[str, Size]:
        ranges = dict(_range(text) for text in self.range or ())
        likely = read_numbers("--likely", self.likely or ())
        sizes = {}
        for name in {**ranges, **likely}:
            low, high = ranges.get(name, (1, None))
            sizes[name] = Size(name, low, high, likely.get(name, ()))
        return sizes


_EXTENT = re.compile(r"\d+|(\d+ *\*)?[ (]*[A-Za-z_][\w +*/%()-]*", re.ASCII)
"""A number, or what may be an expression over names."""


def _range(text: str) -> tuple[str, tuple[int, int | None]]:
    """`"n=1..16"` as ("n", (1, 16)); an end may be left out."""
    found = re.fullmatch(r"(\w+)=(\d*)\.\.(\d*)", text.replace(" ", ""))
    if found is None:
        raise UsageError(f"--range {text!r} is not of the form NAME=FROM..TO, such as n=1..16")
    name, low, high = found.groups()
    return name, (int(low or 1), int(high) if high else None)


def read_numbers(option: str, texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """`["n=1,8"]` as `{"n": (1, 8)}`."""
    found: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, equals, values = text.rpartition("=")
        parts = [part.strip() for part in values.split(",")]
        if not equals or not name or not all(part.isdecimal() for part in parts):
            raise UsageError(
                f"{option} {text!r} is not of the form NAME=NUMBER,NUMBER,…; "
                f"an example: {option} n=8"
            )
        found[name.strip()] = tuple(int(part) for part in parts)
    return found


def read_shapes(texts: Sequence[str]) -> Shapes:
    """`["x=n,3,224,224"]` as `{"x": ("n", 3, 224, 224)}`."""
    shapes: Shapes = {}
    for text in texts:
        name, equals, sizes = text.rpartition("=")
        parts = [part.strip() for part in sizes.split(",")] if sizes.strip() else []
        if not equals or not name or not all(_EXTENT.fullmatch(part) for part in parts):
            raise UsageError(
                f"--shape {text!r} is not of the form NAME=SIZE,SIZE,…; "
                "an example: --shape input=1,3,224,224"
            )
        if name in shapes:
            raise UsageError(f"--shape gives input {name!r} twice")
        shapes[name] = tuple(int(part) if part.isdecimal() else part for part in parts)
    return shapes
