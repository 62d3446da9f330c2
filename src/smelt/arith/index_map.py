"""Index maps: how the indices of one layout become those of another."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from math import lcm
from typing import Any

from smelt.ir.build import any_of, ceildiv
from smelt.ir.expr import (
    Binary,
    Expr,
    ExprLike,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Var,
    const,
    convert,
)
from smelt.ir.node import postorder
from smelt.ir.walk import substitute

from .analyzer import Analyzer
from .iter_map import detect_iter_map, inverse_affine_map

__all__ = ["IndexMap", "text_of"]

_CANONICAL: list[Var] = []


def _canonical(count: int) -> tuple[Var, ...]:
    """Variables i0, i1, ... shared by all maps, by which structure is compared."""
    while len(_CANONICAL) < count:
        _CANONICAL.append(Var(f"i{len(_CANONICAL)}"))
    return tuple(_CANONICAL[:count])


class IndexMap:
    """outputs[k](inputs): the indices in the new layout, from those in the old one.

    Two maps are equal where they are the same expressions of their inputs.
    """

    __slots__ = ("_key", "inputs", "outputs")

    def __init__(self, inputs: tuple[Var, ...], outputs: tuple[Expr, ...]) -> None:
        """Variables, and expressions of these variables."""
        self.inputs = tuple(inputs)
        self.outputs = tuple([convert(o) for o in outputs])
        names: dict[Var, Expr] = dict(zip(self.inputs, _canonical(len(self.inputs)), strict=True))
        self._key = (len(self.inputs), tuple([substitute(o, names) for o in self.outputs]))

    @staticmethod
    def from_func(fn: Callable[..., Any], rank: int | None = None) -> IndexMap:
        """The map of a Python function: `lambda n, c, h, w: (n, c // 16, h, w, c % 16)`.

        With *args in the signature `rank` says how many inputs there are.
        """
        names: list[str] = []
        for p in inspect.signature(fn).parameters.values():
            if p.kind is p.VAR_POSITIONAL:
                names += [f"{p.name}{k}" for k in range((rank or 0) - len(names))]
            else:
                names.append(p.name)
        if rank is not None and len(names) != rank:
            raise ValueError(f"the index map takes {len(names)} indices, the buffer has {rank}")
        inputs = tuple([Var(name) for name in names])
        out = fn(*inputs)
        items = out if isinstance(out, tuple | list) else (out,)
        return IndexMap(inputs, tuple([convert(o) for o in items]))

    @staticmethod
    def identity(rank: int) -> IndexMap:
        """The map that changes nothing."""
        inputs = tuple([Var(f"i{k}") for k in range(rank)])
        return IndexMap(inputs, inputs)

    def map_indices(
        self, indices: Sequence[ExprLike], analyzer: Analyzer | None = None
    ) -> tuple[Expr, ...]:
        """Where an element goes."""
        self._check(len(indices))
        values = {v: convert(i, v.dtype) for v, i in zip(self.inputs, indices, strict=True)}
        an = analyzer or Analyzer()
        return tuple([an.simplify(substitute(o, values)) for o in self.outputs])

    def map_shape(
        self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None
    ) -> tuple[Expr, ...]:
        """The extents that hold every element: the largest index plus 1."""
        self._check(len(shape))
        an = analyzer or Analyzer()
        domains = {v: (const(0), convert(n)) for v, n in zip(self.inputs, shape, strict=True)}
        out = []
        for o in self.outputs:
            ends = an.interval(o, domains)
            if ends is None:
                raise ValueError(f"the extent of {text_of(o)} in {self} is not bounded")
            out.append(an.simplify(ends[1] + 1))
        return tuple(out)

    def inverse(self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None) -> IndexMap:
        """The map back; the map must be a bijection on a buffer of this shape."""
        self._check(len(shape))
        back = self._inverse([convert(n) for n in shape], analyzer)
        if back is None:
            sizes = ", ".join(text_of(convert(n)) for n in shape)
            raise ValueError(
                f"{self} cannot be shown to be a bijection on ({sizes}); "
                "use non_surjective_inverse where padding is meant"
            )
        return back

    def non_surjective_inverse(
        self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None
    ) -> tuple[IndexMap, Expr]:
        """The map back, and the condition on its inputs under which they are padding."""
        self._check(len(shape))
        an = analyzer or Analyzer()
        sizes = [an.simplify(n) for n in shape]
        padded = [
            an.simplify(ceildiv(n, m) * m) for n, m in zip(sizes, self._multiples(), strict=True)
        ]
        back = self._inverse(padded, analyzer)
        if back is None:
            raise ValueError(f"{self} has no inverse, not even with padding")
        extents = self.map_shape(padded, analyzer)
        inside = an.inside({v: (const(0), n) for v, n in zip(back.inputs, extents, strict=True)})
        return back, inside.simplify(
            any_of([o >= n for o, n in zip(back.outputs, sizes, strict=True)])
        )

    def is_bijective(self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None) -> bool:
        """Whether the map is shown to be a bijection without padding on this shape."""
        return self._inverse([convert(n) for n in shape], analyzer) is not None

    def _inverse(self, shape: Sequence[Expr], analyzer: Analyzer | None) -> IndexMap | None:
        domains = {v: (const(0), n) for v, n in zip(self.inputs, shape, strict=True)}
        found = detect_iter_map(self.outputs, domains, bijective=True, analyzer=analyzer)
        if found is None:
            return None
        extents = self.map_shape(shape, analyzer)
        names = tuple([Var(f"i{k}") for k in range(len(self.outputs))])
        found.analyzer = (analyzer or Analyzer()).inside(
            {v: (const(0), n) for v, n in zip(names, extents, strict=True)}
        )
        values = inverse_affine_map(found, names)
        return IndexMap(names, tuple([values[v] for v in self.inputs]))

    def _multiples(self) -> list[int]:
        """What each input's extent must be a multiple of, from the constants it is divided by."""
        an = Analyzer()
        out = []
        for v in self.inputs:
            m = 1
            for o in self.outputs:
                for e in postorder(an.simplify(o)):
                    if isinstance(e, FloorDiv | FloorMod) and isinstance(e.b, IntImm) and e.a is v:
                        m = lcm(m, e.b.value)
            out.append(m)
        return out

    def _check(self, rank: int) -> None:
        if rank != len(self.inputs):
            raise ValueError(f"{self} takes {len(self.inputs)} indices, {rank} given")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexMap) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        """The Python lambda that `from_func` takes."""
        names = ", ".join(v.name for v in self.inputs)
        items = [text_of(o) for o in self.outputs]
        return f"lambda {names}: ({', '.join(items)}{',' if len(items) == 1 else ''})"


_LEVEL = {"*": 5, "//": 5, "%": 5, "+": 4, "-": 4, "and": 2, "or": 1}


def text_of(e: Expr, level: int = 0) -> str:
    """Index arithmetic as Python text."""
    if isinstance(e, Var):
        return e.name
    if isinstance(e, IntImm):
        return str(e.value) if e.value >= 0 or level < 4 else f"({e.value})"
    if isinstance(e, Min | Max):
        return f"{'min' if isinstance(e, Min) else 'max'}({text_of(e.a)}, {text_of(e.b)})"
    if isinstance(e, Binary):
        own = _LEVEL.get(e.symbol, 3)
        text = f"{text_of(e.a, own + (own == 3))} {e.symbol} {text_of(e.b, own + 1)}"
        return f"({text})" if own < level else text
    return repr(e)
