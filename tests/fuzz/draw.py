"""The state of a graph that is being drawn: values with their types, bounds and rounding errors.

Every value carries an interval that holds its elements, a bound of its rounding error (`err`), and
for exact values the grid that they lie on (`step`). They say what may be drawn from a value without
the comparison becoming a matter of rounding; `docs/fuzzing.md` lists these rules.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

from .case import Array, Graph, Node, numpy_type

__all__ = [
    "EPSILON",
    "FLOATS",
    "INTS",
    "RUNS",
    "Draw",
    "Out",
    "Size",
    "Skip",
    "Value",
    "broadcast",
    "fixed",
    "rounded",
    "schema_of",
    "types_of",
    "widest",
]

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTS = ("int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
EPSILON = {t: 2.0**-m for t, m in MANTISSA.items()}
LARGEST = {"float16": 1e3, "bfloat16": 1e3, "float32": 1e5, "float64": 1e5}
ELEMENTS = 12_000
EXTENTS = (
    1,
    1,
    1,
    2,
    2,
    3,
    3,
    4,
    4,
    5,
    5,
    6,
    7,
    8,
    9,
    11,
    13,
    15,
    16,
    17,
    19,
    31,
    32,
    33,
    64,
    100,
    129,
)
NUMBERS = (2, 2, 3, 3, 4, 5, 6, 7, 8, 11, 16, 17)
RUNS = 5
USUAL = (
    ("float32",) * 12 + ("float64", "float16", "int64", "int64", "int32", "int32", "bool") + INTS
)


REFERENCE_ERRS = {
    op: frozenset({"float64", "float16", "bfloat16"})
    for op in (
        "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "Erf", "GlobalAveragePool",
        "GlobalMaxPool", "GroupNormalization", "InstanceNormalization", "LRN", "MaxPool", "Resize",
    )
}  # fmt: skip
"""Types that onnxruntime lacks here, and for which the onnx package's evaluator errs."""


class Skip(Exception):
    """What was drawn is not valid here; something else is drawn."""


class Size(tuple[int, ...]):
    """An extent in every run of the graph."""

    __slots__ = ()

    def __add__(self, other: Any) -> Size:
        return Size([a + b for a, b in zip(self, self._like(other), strict=True)])

    def __sub__(self, other: Any) -> Size:
        return Size([a - b for a, b in zip(self, self._like(other), strict=True)])

    def __mul__(self, other: Any) -> Size:
        return Size([a * b for a, b in zip(self, self._like(other), strict=True)])

    def __floordiv__(self, other: Any) -> Size:
        return Size([a // b for a, b in zip(self, self._like(other), strict=True)])

    def _like(self, other: Any) -> Sequence[int]:
        return other if isinstance(other, Size) else [other] * len(self)

    @property
    def fixed(self) -> bool:
        """Whether it is the same in every run."""
        return len(set(self)) == 1

    @property
    def one(self) -> bool:
        """Whether it is 1 in every run."""
        return set(self) == {1}

    @property
    def least(self) -> int:
        """The smallest of the usual extents: 0 and 1 are left to the oracle to accept or refuse."""
        return min([e for e in self if e > 1], default=max(self))


Shape = tuple[Size, ...]


def fixed(size: Size) -> int:
    """The number that an extent is in all runs."""
    if not size.fixed:
        raise Skip
    return size[0]


@dataclass(eq=False)
class Value:
    """A value of the graph: elements between `lo` and `hi`, off the exact ones by at most `err`.

    step   all elements are multiples of it; 0 where that is not known
    known  the elements of a constant
    limit  the extent that the elements are positions of: each run's lie within its own
    """

    name: str
    dtype: str
    shape: Shape
    lo: float
    hi: float
    err: float = 0.0
    step: float = 0.0
    known: Array | None = None
    limit: Size | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def top(self) -> float:
        """The largest magnitude."""
        return max(abs(self.lo), abs(self.hi))

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def exact(self) -> bool:
        """Whether every implementation has these very elements."""
        return self.err == 0

    @property
    def static(self) -> bool:
        return all(s.fixed for s in self.shape)

    @property
    def hollow(self) -> bool:
        """Whether it has no elements in some run."""
        return any(not e for s in self.shape for e in s)

    @property
    def extents(self) -> list[int]:
        return [fixed(s) for s in self.shape]


@dataclass
class Out:
    """A result to be: its type, bounds, error."""

    dtype: str
    shape: Sequence[Size]
    lo: float
    hi: float
    err: float = 0.0
    step: float = 0.0


@cache
def schema_of(op: str, opset: int) -> Any:
    """The operator's schema at an opset."""
    try:
        found = onnx.defs.get_schema(op, opset, "")
    except onnx.defs.SchemaError:
        raise Skip from None
    if found.deprecated:
        raise Skip
    return found


_NAMES = {"float": "float32", "double": "float64"}


@cache
def types_of(op: str, opset: int, place: int) -> frozenset[str]:
    """The element types that an operand may have."""
    schema = schema_of(op, opset)
    formal = schema.inputs[min(place, len(schema.inputs) - 1)]
    kinds = [t.removeprefix("tensor(").removesuffix(")") for t in formal.types if "tensor(" in t]
    names = {_NAMES.get(t, t) for t in kinds if "(" not in t}
    found = frozenset(names & {*FLOATS, *INTS, "bool"})
    return found - REFERENCE_ERRS.get(op, frozenset())


@cache
def kernels() -> dict[str, list[tuple[int, int, dict[str, list[str]]]]]:
    """The kernels of onnxruntime: operator -> (first opset, last opset, types by name)."""
    found: dict[str, list[tuple[int, int, dict[str, list[str]]]]] = {}
    for k in get_all_opkernel_def():
        if k.domain in ("", "ai.onnx") and k.provider == "CPUExecutionProvider":
            found.setdefault(k.op_name, []).append((*k.version_range, dict(k.type_constraints)))
    return found


@cache
def native_types(op: str, opset: int, place: int) -> frozenset[str]:
    """The types that onnxruntime has a kernel for; all of `types_of` where it has none at all."""
    schema = schema_of(op, opset)
    name = schema.inputs[min(place, len(schema.inputs) - 1)].type_str
    fitting = [t for first, last, t in kernels().get(op, ()) if first <= opset <= last]
    if not fitting or any(name not in t for t in fitting):
        return types_of(op, opset, place)
    names = {t.removeprefix("tensor(").removesuffix(")") for f in fitting for t in f[name]}
    return types_of(op, opset, place) & {_NAMES.get(n, n) for n in names}


class Draw:
    """Values so far, and the means to take one or to make one."""

    def __init__(
        self, seed: int, opset: int, runs: int, outer: Draw | None = None, size: int = ELEMENTS
    ) -> None:
        """A new graph; with `outer`, a graph inside another one, which sees its values."""
        self.rng: random.Random = outer.rng if outer else random.Random(seed)
        self.numbers: np.random.Generator = outer.numbers if outer else np.random.default_rng(seed)
        self.opset, self.runs, self.outer, self.size = opset, runs, outer, size
        self.counter: Iterator[int] = outer.counter if outer else itertools.count()
        self.symbols: dict[Size, str] = outer.symbols if outer else {}
        self.all: dict[str, Value] = outer.all if outer else {}
        self.values: list[Value] = list(outer.values) if outer else []
        self.graph = Graph([], {}, {}, [])
        self.leaves: dict[str, Value] = {}
        self.refused: set[int] = outer.refused if outer else set()
        self.used: set[str] = set()
        if outer is None and runs > 1:
            self.symbols = self.extremes(self.rng.choice((1, 2, 2, 3)))

    def extremes(self, many: int) -> dict[Size, str]:
        """Symbols with their extents in every run: 0, 1 and others for each of them.

        In one graph of two, all symbols broadcast with each other: in each run they are 1, or the
        same number.
        """
        together, found = self.chance(0.5), dict[Size, str]()
        base = self.rng.sample((0, *self.rng.sample(NUMBERS, self.runs - 1)), self.runs)
        while len(found) < many:
            own = [1, 0, *self.rng.sample(NUMBERS, self.runs - 2)]
            size = [self.one(1, b) for b in base] if together else self.rng.sample(own, self.runs)
            if {0, 1} <= set(size) and max(size) > 1:
                found.setdefault(Size(size), "nmk"[len(found)])
        return found

    # ------------------------------------------------------------------------------------- chance

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def one(self, *of: Any) -> Any:
        return self.rng.choice(of)

    def between(self, low: int, high: int) -> int:
        if low > high:
            raise Skip
        return self.rng.randint(low, high)

    def const(self, n: int) -> Size:
        return Size([n] * self.runs)

    def sizes(self, *numbers: int) -> tuple[Size, ...]:
        return tuple([self.const(n) for n in numbers])

    # ------------------------------------------------------------------------------------- leaves

    def shape(self, rank: int | None = None, most: int | None = None) -> Shape:
        """A random shape."""
        if rank is None:
            rank = self.rng.choices(range(6), (1, 3, 6, 6, 5, 2))[0]
        most = most or self.size
        while True:
            found = []
            for _ in range(rank):
                if self.symbols and self.chance(0.4):
                    found.append(self.rng.choice(list(self.symbols)))
                else:
                    found.append(self.const(self.rng.choice(EXTENTS) * (not self.chance(0.01))))
            if count(found) <= most:
                return tuple(found)

    def leaf(
        self,
        dtype: str,
        shape: Sequence[Size] | None = None,
        lo: float | None = None,
        hi: float | None = None,
        constant: bool | None = None,
        grid: bool | None = None,
        limit: Size | None = None,
    ) -> Value:
        """A new input or constant."""
        shape = self.shape() if shape is None else tuple(shape)
        if any(not s.fixed and s not in self.symbols for s in shape):
            raise Skip
        low, high, step = self.interval(dtype, lo, hi, grid)
        if constant is None:
            constant = self.chance(0.35)
        if self.outer is not None or any(not s.fixed for s in shape):
            constant = self.outer is not None
        if constant and any(not s.fixed for s in shape):
            raise Skip
        name = self.fresh("c" if constant else "x")
        value = Value(name, dtype, shape, low, high, 0.0, step, limit=limit)
        if constant:
            value.known = self.elements(value, 0)
            return self.constant(value.known, value)
        self.graph.inputs[name] = (
            dtype, [s[0] if s.fixed else self.symbols[s] for s in shape]
        )  # fmt: skip
        self.leaves[name] = value
        return self.add(value)

    def constant(self, array: Array, value: Value | None = None) -> Value:
        """A constant with these elements, as an initializer or as a node."""
        if value is None:
            wide = array.astype(np.float64)
            lo, hi = (float(wide.min()), float(wide.max())) if array.size else (0.0, 0.0)
            step = 0.0 if array.dtype.kind not in "biu" else 1.0
            if not step and array.size and np.array_equal(wide * 64, np.rint(wide * 64)):
                step = 1 / 64
            shape = self.sizes(*array.shape)
            value = Value(self.fresh("c"), array.dtype.name, shape, lo, hi, 0.0, step, array)
        if self.chance(0.15) and (self.opset >= 9 or value.dtype in FLOATS):
            self.graph.nodes.append(Node("Constant", [], [value.name], {"value": array}))
        else:
            self.graph.constants[value.name] = array
        return self.add(value)

    def ints(self, numbers: Sequence[int], dtype: str = "int64") -> Value:
        """A vector of numbers, as operators take for axes, sizes and the like."""
        return self.constant(np.array(numbers, dtype))

    def scalar(self, number: float, dtype: str) -> Value:
        return self.constant(np.array(number, numpy_type(dtype)))

    def interval(
        self, dtype: str, lo: float | None, hi: float | None, grid: bool | None
    ) -> tuple[float, float, float]:
        """Bounds and grid of a new leaf."""
        if dtype == "bool":
            return *self.rng.choices(((0.0, 1.0), (0.0, 0.0), (1.0, 1.0)), (8, 1, 1))[0], 1.0
        if dtype in INTS:
            least = 0 if dtype.startswith("u") else -12
            first = least if lo is None else math.ceil(lo)
            last = 12 if hi is None else math.floor(hi)
            return float(first), float(max(last, first)), 1.0
        low, high = -2.0 if lo is None else lo, 2.0 if hi is None else hi
        grid = self.chance(0.3) if grid is None else grid
        step = 0.25 if grid and high - low >= 1 and low % 0.25 == 0 else 0.0
        return low, high, step

    def elements(self, value: Value, run: int) -> Array:
        """Random elements of a leaf in one of the runs."""
        shape = [s[run] for s in value.shape]
        drawn: Array
        if value.limit is not None:
            least = -value.limit[run] if value.lo < 0 else 0
            drawn = self.numbers.integers(least, max(value.limit[run], least + 1), shape)
        elif value.step:
            n = round((value.hi - value.lo) / value.step)
            drawn = value.lo + value.step * self.numbers.integers(0, n + 1, shape)
        else:
            drawn = self.numbers.uniform(value.lo, value.hi, shape)
        return np.asarray(drawn).astype(numpy_type(value.dtype))

    # -------------------------------------------------------------------------------------- values

    def add(self, value: Value) -> Value:
        self.values.append(value)
        self.all[value.name] = value
        return value

    def pick(
        self,
        dtypes: Collection[str],
        where: Callable[[Value], bool] = lambda v: True,
        shape: Callable[[], Sequence[Size]] | None = None,
        lo: float | None = None,
        hi: float | None = None,
    ) -> Value:
        """A value that fulfils a condition: one that is there, or a new leaf (of `shape()`)."""
        kinds = (dtypes,) if isinstance(dtypes, str) else tuple(dtypes)
        fitting = [v for v in self.values if v.dtype in kinds and where(v)]
        if fitting and self.chance(0.88):
            found = fitting[-1] if self.chance(0.5) else self.rng.choice(fitting)
        else:
            usual = [t for t in USUAL if t in kinds] or sorted(kinds)
            if not usual:
                raise Skip
            made = self.shape() if shape is None else shape()
            found = self.leaf(self.rng.choice(usual), made, lo, hi)
            if not where(found):
                raise Skip
        return self.within(found, lo, hi)

    def within(self, x: Value, lo: float | None, hi: float | None) -> Value:
        """The value, cut to an interval where it may leave it."""
        low, high = x.lo if lo is None else lo, x.hi if hi is None else hi
        if (low <= x.lo and x.hi <= high) or x.dtype == "bool":
            return x
        if x.lo >= high or x.hi <= low or low > high:
            raise Skip
        low, high = max(low, x.lo), min(high, x.hi)
        step = x.step if x.step and not (low % x.step or high % x.step) else 0.0
        out = Out(x.dtype, x.shape, low, high, x.err, step)
        if self.opset >= 11:
            ends = [self.scalar(v, x.dtype) for v in (low, high)]
            return self.emit("Clip", [x, *ends], {}, [out])[0]
        return self.emit("Clip", [x], {"min": float(low), "max": float(high)}, [out])[0]

    def types(self, op: str, place: int = 0) -> frozenset[str]:
        """The element types to draw an operand of: mostly those that onnxruntime can run."""
        wide = self.chance(0.03)
        found = types_of(op, self.opset, place) if wide else native_types(op, self.opset, place)
        if not found:
            raise Skip
        return found

    def emit(
        self, op: str, inputs: Sequence[Value | None], attrs: dict[str, Any], outs: Sequence[Out]
    ) -> list[Value]:
        """Add a node; Skip where its types or its numbers are out of bounds."""
        schema = schema_of(op, self.opset)
        if not schema.min_input <= len(inputs) <= schema.max_input:
            raise Skip
        for k, v in enumerate(inputs):
            if v is not None and v.dtype not in types_of(op, self.opset, k):
                raise Skip
        for name in attrs:
            if name not in schema.attributes:
                raise Skip
        values = [self.checked(o) for o in outs]
        for v in values:
            self.add(v)
        names = [v.name if v is not None else "" for v in inputs]
        while names and not names[-1]:
            names.pop()
        self.graph.nodes.append(Node(op, names, [v.name for v in values], attrs))
        self.used |= set(names)
        return values

    def emit_last(
        self, op: str, inputs: Sequence[Value | None], attrs: dict[str, Any], outs: Sequence[Out]
    ) -> None:
        """Add a node whose results nothing may rely on: of unknown shape, or of no number."""
        if self.outer is not None:
            raise Skip
        for v in self.emit(op, inputs, attrs, outs):
            self.values.remove(v)

    def valid(self, runs: Sequence[bool]) -> None:
        """Leave out the runs that are not valid: onnxruntime gives them results all the same."""
        refused = self.refused | {r for r, good in enumerate(runs) if not good}
        if len(refused) == len(runs):
            raise Skip
        self.refused |= refused

    def raw(self, op: str, inputs: list[str], outputs: list[str], attrs: dict[str, Any]) -> None:
        """Add a node between values by name, those of other types than tensors too."""
        schema_of(op, self.opset)
        self.graph.nodes.append(Node(op, inputs, outputs, attrs))

    def checked(self, o: Out) -> Value:
        """The value that a result becomes."""
        top = max(abs(o.lo), abs(o.hi))
        err, step = o.err, o.step
        if count(o.shape) > self.size or not math.isfinite(top):
            raise Skip
        if o.dtype in INTS:
            info = np.iinfo(o.dtype)
            if o.lo < info.min or o.hi > info.max or top > 2**53 or err:
                raise Skip
            step = 1.0
        elif o.dtype != "bool":
            if top > LARGEST[o.dtype] or err > 0.01 * max(top, 1e-3):
                raise Skip
            step = step if err == 0 and step and top / step < 2.0 ** MANTISSA[o.dtype] else 0.0
        elif err:
            raise Skip
        return Value(self.fresh("v"), o.dtype, tuple(o.shape), o.lo, o.hi, err, step)

    def fresh(self, letter: str) -> str:
        """A name of its own."""
        return f"{letter}{next(self.counter)}"

    # ----------------------------------------------------------------------------------- undoing

    def mark(self) -> tuple[int, ...]:
        """What to go back to."""
        g = self.graph
        return len(self.values), len(g.nodes), len(g.inputs), len(g.constants), len(self.leaves)

    def undo(self, mark: tuple[int, ...]) -> None:
        """Forget what was drawn since the mark."""
        values, nodes, inputs, constants, leaves = mark
        g = self.graph
        for v in self.values[values:]:
            del self.all[v.name]
        del self.values[values:]
        del g.nodes[nodes:]
        for table, n in ((g.inputs, inputs), (g.constants, constants), (self.leaves, leaves)):
            for name in list(table)[n:]:
                del table[name]


def widest(shape: Sequence[Size]) -> int:
    """The largest extent."""
    return max([e for s in shape for e in s], default=0)


def count(shape: Sequence[Size]) -> int:
    """The most elements that a shape has in a run."""
    return max([math.prod(extents) for extents in zip(*shape, strict=True)], default=1)


def broadcast(*shapes: Sequence[Size], strict: bool = False) -> Shape:
    """The common shape; Skip where there is none.

    Two runs need to have one; with `strict` all of them. The oracle refuses the others.
    """
    rank = max([len(s) for s in shapes], default=0)
    found: list[Size] = []
    legal: set[int] = set()
    for k in range(rank):
        sizes = [s[k - rank + len(s)] for s in shapes if k - rank + len(s) >= 0]
        wide = [{e for e in run if e != 1} or {1} for run in zip(*sizes, strict=True)]
        legal = legal or set(range(len(wide)))
        legal -= {r for r, extents in enumerate(wide) if len(extents) > 1}
        if len(legal) < (len(wide) if strict else min(2, len(wide))):
            raise Skip
        found.append(next((s for s in sizes if not s.one), sizes[0]))
        if any(s != found[-1] and not s.one for s in sizes):
            found[-1] = Size([max(extents) for extents in wide])
    return tuple(found)


def rounded(
    dtype: str, lo: float, hi: float, err: float, step: float = 0.0, ulps: float = 2
) -> Any:
    """(lo, hi, err, step) of an arithmetic result: exact on a grid that the type can hold."""
    top = max(abs(lo), abs(hi))
    if dtype not in FLOATS:
        return lo, hi, err, 1.0
    if err == 0 and step and top / step < 2.0 ** MANTISSA[dtype]:
        return lo, hi, 0.0, step
    return lo, hi, err + ulps * EPSILON[dtype] * max(top, 1e-6), 0.0
