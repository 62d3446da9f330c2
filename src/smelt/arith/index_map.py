"""Index maps: how the indices of one layout become those of another."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from smelt.ir.build import any_of
from smelt.ir.expr import INDEX, Expr, ExprLike, IntImm, Var, const, convert
from smelt.ir.walk import substitute

from .affine.inverse import inverse_affine_iter_map
from .affine.maps import Detection, IterMapLevel
from .affine.nodes import NotAffine
from .analyzer import Analyzer
from .answer import Answer
from .refute import refute_bijection


class AxisSeparator:
    """Stands between the outputs of an index map that belong to different physical axes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "AXIS_SEPARATOR"

    def __reduce__(self) -> str:
        return "AXIS_SEPARATOR"


AXIS_SEPARATOR: Final = AxisSeparator()
"""Among the outputs of an index map: the dimensions before and after it are flattened apart."""


def without_separators(made: Any) -> tuple[list[Any], list[int]]:
    """The outputs in what the function of a map returns, and how many stand before each mark."""
    outputs: list[Any] = []
    separators: list[int] = []
    for item in made if isinstance(made, tuple | list) else (made,):
        if item is AXIS_SEPARATOR:
            separators.append(len(outputs))
        else:
            outputs.append(item)
    return outputs, separators


def with_separators(
    outputs: Iterable[Any], separators: Sequence[int], mark: object = AXIS_SEPARATOR
) -> list[Any]:
    """Outputs with a mark where so many of them stand before."""
    items = list(outputs)
    for at in reversed(separators):
        items.insert(at, mark)
    return items


_CANONICAL: list[Var] = []


def _canonical(count: int) -> tuple[Var, ...]:
    """Variables i0, i1, ... shared by all maps, by which structure is compared."""
    while len(_CANONICAL) < count:
        _CANONICAL.append(Var(f"i{len(_CANONICAL)}"))
    return tuple(_CANONICAL[:count])


class IndexMap:
    """outputs[k](inputs): the indices in the new layout, from those in the old one.

    Two maps are equal where they are the same expressions of their inputs; `is_equivalent_to` looks
    at what the expressions mean. `axis_separators` are the outputs, by position, before which a new
    physical axis begins.
    """

    __slots__ = ("_key", "axis_separators", "inputs", "outputs")

    def __init__(
        self,
        inputs: Sequence[Var],
        outputs: Sequence[ExprLike],
        axis_separators: Sequence[int] = (),
    ) -> None:
        """Variables, and expressions of these variables."""
        self.inputs = tuple(inputs)
        self.outputs = tuple([convert(o) for o in outputs])
        self.axis_separators = tuple(axis_separators)
        names: dict[Var, Expr] = dict(zip(self.inputs, _canonical(len(self.inputs)), strict=True))
        self._key = (
            len(self.inputs),
            tuple([substitute(o, names) for o in self.outputs]),
            self.axis_separators,
        )

    @staticmethod
    def from_func(mapping_function: Callable[..., Any], ndim: int | None = None) -> IndexMap:
        """The map of a Python function: `lambda n, c, h, w: (n, c // 16, h, w, c % 16)`.

        ndim  the number of inputs; needed where the function takes *args. The function may return
              AXIS_SEPARATOR among its outputs.
        """
        names = _parameter_names(mapping_function, ndim)
        inputs = [Var(name) for name in names]
        return IndexMap(inputs, *without_separators(mapping_function(*inputs)))

    @staticmethod
    def identity(ndim: int) -> IndexMap:
        """The map that changes nothing."""
        inputs = [Var(f"i{k}") for k in range(ndim)]
        return IndexMap(inputs, inputs)

    @property
    def initial_indices(self) -> tuple[Var, ...]:
        """The inputs."""
        return self.inputs

    @property
    def final_indices(self) -> tuple[Expr, ...]:
        """The outputs."""
        return self.outputs

    # ----------------------------------------------------------------------------- forwards

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
        domains = {v: convert(n) for v, n in zip(self.inputs, shape, strict=True)}
        out = []
        for o in self.outputs:
            ends = an.interval(o, domains)
            if ends is None:
                raise ValueError(f"the extent of {o} in {self} is not bounded")
            out.append(an.simplify(ends[1] + 1))
        return tuple(out)

    def is_equivalent_to(self, other_map: IndexMap, analyzer: Analyzer | None = None) -> bool:
        """Whether both maps are shown to send every element to the same place."""
        if len(self.inputs) != len(other_map.inputs) or len(self.outputs) != len(other_map.outputs):
            return False
        if self.axis_separators != other_map.axis_separators:
            return False
        an = analyzer or Analyzer()
        mine = self.map_indices(other_map.inputs, an)
        return all(an.can_prove_equal(a, b) for a, b in zip(mine, other_map.outputs, strict=True))

    # ---------------------------------------------------------------------------- backwards

    def inverse(self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None) -> IndexMap:
        """The map back; the map must be a bijection on a buffer of this shape."""
        try:
            return self._inverse(shape, analyzer, IterMapLevel.BIJECTIVE, whole=False)[0]
        except NotAffine as e:
            witness = refute_bijection(self.inputs, self.outputs, shape)
            sure = "is no" if witness is not None else "cannot be shown to be a"
            message = f"{self} {sure} bijection on {_tuple(shape)}: {witness or e}"
        try:
            self._inverse(shape, analyzer, IterMapLevel.SURJECTIVE, whole=True)
            message += "; legal with padding: non_surjective_inverse"
        except NotAffine:
            pass
        raise ValueError(message)

    def non_surjective_inverse(
        self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None
    ) -> tuple[IndexMap, Expr]:
        """The map back, and the condition on its inputs under which they are padding.

        Remainders keep all their values: 5 channels in blocks of 16 take a whole block, see
        `padded_shape`.
        """
        try:
            back, padding, _ = self._inverse(shape, analyzer, IterMapLevel.SURJECTIVE, whole=True)
        except NotAffine as e:
            raise ValueError(f"{self} has no inverse, not even with padding: {e}") from None
        return back, padding

    def padded_shape(
        self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None
    ) -> tuple[Expr, ...]:
        """The shape that `non_surjective_inverse` is about: that of `map_shape`, blocks whole."""
        try:
            return self._inverse(shape, analyzer, IterMapLevel.SURJECTIVE, whole=True)[2]
        except NotAffine as e:
            raise ValueError(f"{self} has no inverse, not even with padding: {e}") from None

    def bijective(self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None) -> Answer:
        """Whether the map is a bijection, without padding, on a buffer of this shape."""
        try:
            self._inverse(shape, analyzer, IterMapLevel.BIJECTIVE, whole=False)
        except NotAffine:
            no = refute_bijection(self.inputs, self.outputs, shape)
            return Answer.UNKNOWN if no is None else Answer.NO
        return Answer.YES

    def _inverse(
        self, shape: Sequence[ExprLike], analyzer: Analyzer | None, level: IterMapLevel, whole: bool
    ) -> tuple[IndexMap, Expr, tuple[Expr, ...]]:
        """The map back, its padding and the shape that it starts from; else NotAffine."""
        an = analyzer or Analyzer()
        domains = self._domains(shape)
        d = Detection(an, domains, True, whole)
        sums, padding = d.find(self.outputs, level)
        z = d.sizes
        if not whole and any(s.base is not z.zero for s in sums):
            raise NotAffine("an output does not begin at 0")
        extents = [z.plus(s.base, d.parser.reach(s.args)) for s in sums]
        names = [Var(f"i{k}") for k in range(len(sums))]
        inside = an.inside(dict(zip(names, extents, strict=True)))
        found = inverse_affine_iter_map(sums, names, inside)
        lost = [v for v, n in domains.items() if v not in found and not an.can_prove_equal(n, 1)]
        if lost:
            raise NotAffine(f"the outputs do not determine {', '.join(v.name for v in lost)}")
        values = {v: found.get(v, const(0, INDEX)) for v in self.inputs}
        back = IndexMap(names, [values[v] for v in self.inputs])
        before = [v < s.base for v, s in zip(names, sums, strict=True) if s.base is not z.zero]
        outside = any_of(substitute(padding, values), *before)
        return back, inside.simplify(outside), tuple(extents)

    def _domains(self, shape: Sequence[ExprLike]) -> dict[Var, Expr]:
        """The extents of the inputs; an empty one has the maps of one with an element."""
        self._check(len(shape))
        sizes = [convert(n) for n in shape]
        for n in sizes:
            if isinstance(n, IntImm) and n.value < 0:
                raise ValueError(f"{self} on a shape with the extent {n.value}; legal: 0 or more")
        one = const(1, INDEX)
        return {
            v: one if isinstance(n, IntImm) and n.value == 0 else n
            for v, n in zip(self.inputs, sizes, strict=True)
        }

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
        texts = [str(o) for o in self.outputs]
        items = with_separators(texts, self.axis_separators, repr(AXIS_SEPARATOR))
        return f"lambda {names}: ({', '.join(items)}{',' if len(items) == 1 else ''})"


def _tuple(items: Sequence[ExprLike]) -> str:
    texts = [str(convert(e)) for e in items]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _parameter_names(fn: Callable[..., Any], ndim: int | None) -> list[str]:
    names: list[str] = []
    for p in inspect.signature(fn).parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            if ndim is None:
                raise ValueError(f"the index map takes *{p.name}: say with ndim how many indices")
            names += [f"{p.name}{k}" for k in range(ndim - len(names))]
        else:
            names.append(p.name)
    if ndim is not None and len(names) != ndim:
        raise ValueError(f"the index map takes {len(names)} indices, the buffer has {ndim}")
    return names
