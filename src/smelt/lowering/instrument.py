"""Looking at a kernel as it is lowered: SMELT_DUMP writes its stages, SMELT_CHECK judges them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from smelt.arith import Answer
from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError, InternalError, VerifyError
from smelt.ir.expr import Var
from smelt.ir.options import Options
from smelt.tir.analysis import check_races, find_races, parallel_verdict
from smelt.tir.analysis.examples import integer_ranges, random_array, size_values
from smelt.tir.analysis.races import Race
from smelt.tir.interpret import InterpretError, interpret
from smelt.tir.interpret_expr import known_number
from smelt.tir.interpret_threads import Order
from smelt.tir.nodes import Buffer, BufferStore, For, PrimFunc, Stmt, While, sub_statements
from smelt.tir.printer import script
from smelt.tir.script_ops import shape_vars

Observer = Callable[[str, PrimFunc], None]
Array = np.ndarray[Any, Any]

_STORES = 1_000_000
"""Programs that store more often are not interpreted."""
_WATCHED = 20_000
"""Programs that store more often are not watched access by access."""
_SIZES = (5, 1, 12)
"""Values of the symbolic sizes while checking."""
_WHILE = 100
"""How often a loop is taken to run whose number of iterations is not known."""
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
        reason = "Not a directory" if isinstance(e, FileExistsError) else e.strerror
        raise CompileError(
            f"cannot write dumps to {file.parent}: {reason}; name another folder "
            "(dump_dir, SMELT_DUMP)"
        ) from e


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
    """Compares every stage of a program with the first one, by the interpreter.

    The first stage runs on random numbers, with some values of the symbolic sizes; every later one
    has to leave the same in memory. Integers that serve as indices are chosen so that the first
    stage stays inside of its arrays. Parallel iterations and threads of later stages run in a
    random order, and races are looked for, by proof and (in small programs) by watching.

    Nothing is compared where the program is too large to be interpreted, or where the first stage
    cannot be: `reason` says so.
    """

    def __init__(self, func: PrimFunc) -> None:
        """Interpret the first stage."""
        self.name = func.name
        self.buffers = [p.name for p in func.buffers]
        self.trials: list[_Trial] = []
        self.reason = ""
        self.watched = False
        check_races(func)
        names = [p.name for p in func.params if isinstance(p, Var)]
        names += [v.name for v in shape_vars(func.params)]
        for n, size in enumerate(_SIZES if names else _SIZES[:1]):
            sizes = dict.fromkeys(names, size)
            if n == 0 or self.trials:
                self.begin(func, sizes, _STORES if n == 0 else _STORES // 10)

    def begin(self, func: PrimFunc, sizes: Mapping[str, int], most: int) -> None:
        """Run the first stage for some sizes, and remember what comes out."""
        values = size_values(func, sizes)
        layouts = [_layout(p, values) for p in func.buffers]
        if any(x is None for x in layouts):
            self.reason = self.reason or "a parameter's elements have gaps between them"
            return
        if any(n < 0 for x in layouts if x is not None for n in x[0]):
            self.reason = self.reason or "a parameter would have fewer elements than none"
            return
        stores = _stores(func.body, values)
        if stores > most:
            self.reason = self.reason or f"it stores more than {most} times"
            return
        try:
            trial = _Trial(func, sizes, [x for x in layouts if x is not None])
            if stores <= _WATCHED and not self.trials:
                self.watched = True
                for race in trial.races(func):
                    raise VerifyError(str(race))
            trial.expected = trial.run(func, "forward")
        except InterpretError as e:
            self.reason = self.reason or str(e).split("\n", 1)[0]
            return
        self.trials.append(trial)

    def __call__(self, name: str, func: PrimFunc) -> None:
        """Compare another stage."""
        verdict = parallel_verdict(func)
        if verdict.answer is Answer.NO:
            raise InternalError(f"{self.name}: the pass {name} made a race: {verdict}")
        for n, trial in enumerate(self.trials):
            try:
                found = trial.run(func, "random")
                races = trial.races(func) if self.watched and n == 0 else []
            except InterpretError as e:
                raise InternalError(
                    f"{self.name}: the pass {name} made an invalid program: {e}"
                ) from e
            for a, b, buffer in zip(found, trial.expected, self.buffers, strict=True):
                if worst := differs(a, b):
                    raise InternalError(
                        f"{self.name}: the pass {name} changed what {buffer} holds (by {worst:.3g} "
                        f"of its largest value{trial.where()})\n{script(func)}"
                    )
            for race in races:
                raise InternalError(f"{self.name}: the pass {name} made a race: {race}")


class _Trial:
    """One choice of sizes and numbers.

    layouts   shape and strides of the first stage's buffers: what others call a flat array
    expected  what their memory holds in the end
    """

    def __init__(self, func: PrimFunc, sizes: Mapping[str, int], layouts: list[_Layout]) -> None:
        self.sizes, self.layouts = dict(sizes), layouts
        spans = integer_ranges(func, sizes)
        self.spans = [spans.get(b, (0, 1)) for b in func.buffers]
        self.expected: list[Array] = []

    def where(self) -> str:
        """The sizes, for a message."""
        return "".join([f", {name} = {n}" for name, n in self.sizes.items()])

    def arguments(self, func: PrimFunc) -> tuple[list[Array], list[Any]]:
        """The memory of the first stage's parameters, and what a stage is called with.

        Workspaces that a stage has besides come last, and do not count.
        """
        rng = np.random.default_rng(7)
        memory: list[Array] = []
        given: list[Any] = []
        values = size_values(func, self.sizes)
        for p in func.params:
            if isinstance(p, Var):
                given.append(0.75 if dt.is_float(p.type) else self.sizes[p.name])
                continue
            shape = tuple([known_number(e, values) or 0 for e in p.shape])
            if len(memory) == len(self.layouts):
                given.append(np.zeros(shape, dt.to_numpy(p.type)))
                continue
            logical, span = self.layouts[len(memory)], self.spans[len(memory)]
            flat = random_array(rng, p.type, (int(np.prod(logical[0])),), span)
            memory.append(flat)
            given.append(flat if len(shape) == 1 and shape != logical[0] else _as(flat, logical))
        return memory, given

    def run(self, func: PrimFunc, order: Order) -> list[Array]:
        """What the parameters' memory holds after a stage has run."""
        memory, given = self.arguments(func)
        with np.errstate(all="ignore"):
            interpret(func, *given, order=order, seed=7)
        return memory

    def races(self, func: PrimFunc) -> list[Race]:
        """The races that show while a stage runs."""
        return find_races(func, *self.arguments(func)[1])


_Layout = tuple[tuple[int, ...], tuple[int, ...]]


def _layout(b: Buffer, values: Mapping[Var, int]) -> _Layout | None:
    """Shape and strides in elements; None where there are gaps between the elements."""
    shape = [known_number(e, values) for e in b.shape]
    strides = [known_number(e, values) for e in b.strides]
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


def differs(a: Array, b: Array) -> float:
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
    rounding = min(0.1, 8 * float(ml_dtypes.finfo(b.dtype).eps))
    return worst if worst > max(_TOLERANCE, rounding) else 0.0


def _stores(s: Stmt, values: Mapping[Var, int], iterations: int = 1) -> int:
    """About how many elements a program stores; a loop without constant bounds counts as few."""
    if iterations > _STORES:
        return iterations
    if isinstance(s, BufferStore):
        return iterations
    if isinstance(s, While):
        return iterations * _WHILE + sum(
            _stores(x, values, iterations * _WHILE) for x in sub_statements(s)
        )
    if isinstance(s, For):
        extent = known_number(s.extent, values)
        iterations *= _SIZES[0] if extent is None else extent
    return sum(_stores(x, values, iterations) for x in sub_statements(s))
