"""Looking at a kernel as it is lowered: SMELT_DUMP writes its stages, SMELT_CHECK judges them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.errors import CompileError, InternalError
from smelt.ir.expr import Expr, IntImm, Var
from smelt.ir.options import Options
from smelt.ir.walk import substitute
from smelt.tir.interpret import InterpretError, interpret
from smelt.tir.nodes import Buffer, BufferStore, For, PrimFunc, Stmt, While, sub_statements
from smelt.tir.printer import script

__all__ = ["Check", "Observer", "StageWriter", "check_wanted", "dump_folder", "write_text"]

Observer = Callable[[str, PrimFunc], None]
Array = np.ndarray[Any, Any]

_STORES = 100_000
"""Programs that store more often are not interpreted."""
_SIZE = 5
"""The value of every symbolic size while checking."""
_TOLERANCE = 1e-4
"""Of the largest magnitude: a fused multiply-add and a polynomial round differently."""


def dump_folder(options: Options) -> str:
    """Where stages are written, as an absolute path; "" where nothing is."""
    folder = options.dump_dir or os.environ.get("SMELT_DUMP", "")
    return str(Path(folder).absolute()) if folder else ""


def check_wanted() -> bool:
    """Whether SMELT_CHECK asks for the interpreter's opinion of every lowering pass."""
    text = os.environ.get("SMELT_CHECK", "")
    if text not in ("", "0", "1"):
        raise CompileError(f"SMELT_CHECK is {text!r}; legal: 0 or 1")
    return text == "1"


def write_text(file: Path, text: str) -> None:
    """Write one stage; a folder that cannot be written is the user's to mend."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    except OSError as e:
        raise CompileError(f"cannot write dumps to {file.parent}: {e.strerror}") from e


class StageWriter:
    """Writes the stages of one kernel to FOLDER/KERNEL/NNN_stage.txt."""

    def __init__(self, folder: str, kernel: str) -> None:
        """Start anew: stages that an earlier compilation has left there are removed."""
        self.folder, self.count, self.last = Path(folder, kernel), 0, ""
        if folder:
            for old in self.folder.glob("[0-9][0-9][0-9]_*.txt"):
                old.unlink(missing_ok=True)

    def __call__(self, name: str, func: PrimFunc) -> None:
        """Write a program."""
        self.text(name, script(func))

    def text(self, name: str, text: str) -> None:
        """Write any stage, where it is another text than the last one."""
        if text != self.last:
            write_text(self.folder / f"{self.count:03d}_{name}.txt", text.rstrip("\n") + "\n")
            self.count, self.last = self.count + 1, text


class Check:
    """Compares every stage with the first one, by the interpreter, on random numbers.

    Nothing is compared where the program is large, or where the first stage cannot be interpreted
    on random numbers (an index that is data, say).
    """

    def __init__(self, func: PrimFunc) -> None:
        """Interpret the first stage."""
        self.name = func.name
        sizes = {p: IntImm(p.type, _SIZE) for p in func.params if isinstance(p, Var)}
        self.sizes = {p.name: _SIZE for p in sizes}
        self.layouts = [_layout(p, sizes) for p in func.params if isinstance(p, Buffer)]
        self.expected: list[Array] | None = None
        if all(n is not None for n in self.layouts) and _stores(func.body, sizes) <= _STORES:
            try:
                self.expected = self.run(func)
            except InterpretError:
                self.expected = None

    def __call__(self, name: str, func: PrimFunc) -> None:
        """Compare another stage."""
        if self.expected is None:
            return
        try:
            found = self.run(func)
        except InterpretError as e:
            raise InternalError(f"{self.name}: the pass {name} made an invalid program: {e}") from e
        for n, (a, b) in enumerate(zip(found, self.expected, strict=True)):
            if worst := _difference(a, b):
                buffer = func.buffers[n].name
                raise InternalError(
                    f"{self.name}: the pass {name} changed what {buffer} holds "
                    f"(by {worst:.3g} of its largest value)\n{script(func)}"
                )

    def run(self, func: PrimFunc) -> list[Array]:
        """What the parameters' memory holds after a stage has run; workspaces do not count."""
        rng = np.random.default_rng(7)
        memory: list[Array] = []
        given: list[Any] = []
        sizes = {p: IntImm(p.type, _SIZE) for p in func.params if isinstance(p, Var)}
        for p in func.params:
            if isinstance(p, Var):
                given.append(self.sizes[p.name])
                continue
            shape = tuple([value_of(substitute(e, sizes)) or 0 for e in p.shape])
            if len(memory) == len(self.layouts):
                given.append(np.zeros(shape, dt.to_numpy(p.type)))
                continue
            logical = self.layouts[len(memory)]
            assert logical is not None
            flat = _numbers(rng, p.type, int(np.prod(logical[0])))
            memory.append(flat)
            given.append(flat if len(shape) == 1 and shape != logical[0] else _as(flat, logical))
        with np.errstate(all="ignore"):
            interpret(func, *given)
        return memory


_Layout = tuple[tuple[int, ...], tuple[int, ...]]


def _layout(b: Buffer, sizes: Mapping[Var, Expr]) -> _Layout | None:
    """Shape and strides in elements; None where there are gaps between the elements."""
    shape = [value_of(substitute(e, sizes)) for e in b.shape]
    strides = [value_of(substitute(e, sizes)) for e in b.strides]
    if any(e is None for e in (*shape, *strides)):
        return None
    extents = tuple([e or 0 for e in shape])
    if not strides:
        steps = [int(np.prod(extents[d + 1 :])) for d in range(len(extents))]
        return extents, tuple(steps)
    own = tuple([e or 0 for e in strides])
    last = sum((n - 1) * s for n, s in zip(extents, own, strict=True))
    return (extents, own) if last + 1 == np.prod(extents) else None


def _as(flat: Array, layout: _Layout) -> Array:
    steps = [s * flat.itemsize for s in layout[1]]
    return np.lib.stride_tricks.as_strided(flat, layout[0], steps)


def _numbers(rng: np.random.Generator, dtype: str, count: int) -> Array:
    """Small numbers, of few digits; integers may be indices."""
    numbers: Any = (
        rng.integers(-16, 17, count) / 8 if dt.is_float(dtype) else rng.integers(0, 2, count)
    )
    return np.asarray(numbers).astype(dt.to_numpy(dtype))


def _difference(a: Array, b: Array) -> float:
    """The largest difference relative to the largest magnitude; 0 where it is small enough."""
    if not dt.is_float(dt.from_numpy(b.dtype)):
        return float(np.max(a != b, initial=False))
    x, y = a.astype(np.float64), b.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if same.all():
        return 0.0
    finite = np.isfinite(y)
    scale = max(1.0, float(np.max(np.abs(y[finite]), initial=0.0)))
    with np.errstate(all="ignore"):
        off = np.where(same, 0.0, np.abs(x - y) / scale)
    worst = float(np.max(np.where(np.isnan(off), np.inf, off)))
    return worst if worst > max(_TOLERANCE, 8 * _epsilon(b)) else 0.0


def _epsilon(a: Array) -> float:
    return {2: 2.0**-8, 4: 2.0**-23, 8: 2.0**-52}.get(a.itemsize, 0.0)


def _stores(s: Stmt, sizes: Mapping[Var, Expr], turns: int = 1) -> int:
    """About how many elements a program stores; a loop without constant bounds counts as few."""
    if turns > _STORES:
        return turns
    if isinstance(s, BufferStore):
        return turns
    if isinstance(s, While):
        return _STORES + 1
    if isinstance(s, For):
        extent = value_of(substitute(s.extent, sizes))
        turns *= _SIZE if extent is None else extent
    return sum(_stores(x, sizes, turns) for x in sub_statements(s))
