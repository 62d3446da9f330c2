"""The space of a template's configs, and one config: a value of each knob."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import numpy as np

from smelt.ir.errors import CompileError, ScheduleError
from smelt.runtime.errors import unknown

from .transforms import (
    ENTITIES,
    AnnotateEntity,
    AnnotateSpace,
    Axis,
    Entity,
    OtherOptionEntity,
    OtherOptionSpace,
    ReorderEntity,
    ReorderSpace,
    SplitEntity,
    SplitSpace,
    TransformSpace,
    VirtualAxis,
    get_factors,
    get_pow2s,
)

__all__ = ["AnnotateEntity", "AnnotateSpace", "Axis", "ConfigEntity", "ConfigSpace", "Entity",
           "FallbackConfigEntity", "InstantiationError", "OtherOptionEntity", "OtherOptionSpace",
           "ReorderEntity", "ReorderSpace", "SplitEntity", "SplitSpace", "TransformSpace",
           "VirtualAxis", "get_factors", "get_pow2s"]  # fmt: skip

_LISTED = 1_000_000
"""Points of a space with a filter that are looked at to count the valid ones."""

Filter: TypeAlias = "Callable[[ConfigEntity], bool]"


class InstantiationError(ScheduleError, ValueError):
    """A config that its template refuses."""


class UnknownKnob(CompileError, KeyError):
    """A knob that a config does not have."""

    __str__ = CompileError.__str__


def digits(number: int, dims: Sequence[int]) -> list[int]:
    """A number below the product of some extents as one below each; the first changes fastest."""
    found = []
    for d in dims:
        found.append(number % d)
        number //= d
    return found


def number(digits: Sequence[int], dims: Sequence[int]) -> int:
    """The number of such digits."""
    found = 0
    for k, d in zip(reversed(digits), reversed(dims), strict=True):
        found = found * d + int(k)
    return found


class ConfigSpace:
    """The knobs of a template, as it defines them; while it does, each has its first value.

    space_map  the knobs' spaces by name, in order of definition
    flop       operations of the program, where the template says so
    """

    is_fallback = False

    def __init__(self) -> None:
        self.space_map: dict[str, TransformSpace] = {}
        self._entity_map: dict[str, Any] = {}
        self.code_hash: str | None = None
        self.flop = 0.0
        self.errors: list[str] = []
        self._filter: Filter | None = None

    # ------------------------------------------------------------------- what templates call

    @staticmethod
    def axis(var: Any) -> VirtualAxis:
        """An axis, to name it in definitions."""
        return VirtualAxis(var)

    reduce_axis = axis

    def define_split(
        self, name: str, axis: Any, policy: str = "factors", **kwargs: Any
    ) -> list[VirtualAxis]:
        """Leave open how an axis is cut into num_outputs parts.

        policy      "factors": sizes that divide; "power2": powers of two; "verbose": both, which
                    may leave a rest; "candidate": the lists of sizes in `candidate`
        max_factor  the largest part but the outermost
        no_tail     whether nothing may be left over; for "factors" it may not
        filter      (SplitEntity) -> whether it is taken
        """
        return self._define(SplitSpace, name, axis, policy, **kwargs)

    def define_reorder(
        self, name: str, axes: Sequence[Any], policy: str, **kwargs: Any
    ) -> list[VirtualAxis]:
        """Leave an order open.

        policy  "identity"; "all" orders; "interval_all": all of those from `interval`'s first to
                before its second position; "candidate": those in `candidate`, lists of the axes;
                "interleave": the outermost axes of the chains `spatial` and `reduce`, behind them
                the others in every order that keeps the chains' own
        """
        return self._define(ReorderSpace, name, axes, policy, **kwargs)

    def define_annotate(
        self, name: str, axes: Sequence[Any], policy: str, **kwargs: Any
    ) -> list[VirtualAxis]:
        """Leave open what loops become.

        policy  "unroll" or "vec": all of them; "try_unroll", "try_vec", "try_unroll_vec": these or
                nothing, one vector at most; "locate_cache": at which `num_anchor` axes; "bind_gpu"
                and "bind_gpu_virtual": threads
        """
        return self._define(AnnotateSpace, name, axes, policy, **kwargs)

    def define_knob(self, name: str, candidate: Sequence[Any]) -> None:
        """Leave a value open: one of some."""
        self._define(OtherOptionSpace, name, candidate)

    def add_flop(self, flop: float) -> None:
        """Say how many operations a run has, or add to what was said."""
        self.flop += float(flop)

    def raise_error(self, msg: str) -> None:
        """Refuse this config."""
        self.errors.append(msg)
        raise InstantiationError(msg)

    def valid(self) -> bool:
        """Whether the template did not refuse it."""
        return not self.errors

    def multi_filter(self, filter: Filter) -> None:
        """Leave out configs for which a function says no."""
        self._filter = filter

    def _define(self, kind: Any, name: str, *args: Any, **kwargs: Any) -> list[VirtualAxis]:
        if name in self.space_map:
            raise ScheduleError(f"the knob {name!r} is defined twice; legal: one name a knob")
        space: TransformSpace = kind(*args, **kwargs)
        if not len(space):
            raise ScheduleError(
                f"the knob {name!r} has no value; legal: candidates, factors or a filter that "
                "leave one at least"
            )
        self.space_map[name] = space
        self._entity_map[name] = space[0]
        return space.outputs()

    def __getitem__(self, name: str) -> Any:
        """The knob's value."""
        if name not in self._entity_map:
            raise UnknownKnob(unknown("knob", name, self._entity_map))
        return self._entity_map[name]

    def __contains__(self, name: str) -> bool:
        return name in self._entity_map

    # ------------------------------------------------------------------- points and indices

    @property
    def dims(self) -> list[int]:
        """How many values each knob has."""
        return [len(s) for s in self.space_map.values()]

    @property
    def range_length(self) -> int:
        """How many indices there are; those of configs that a filter leaves out among them."""
        return prod(self.dims)

    def __len__(self) -> int:
        """How many configs there are."""
        return self.range_length if self._filter is None else self._counted

    @cached_property
    def _counted(self) -> int:
        if self.range_length > _LISTED:
            raise CompileError(
                f"multi_filter: {self.range_length} points are too many to count the valid ones; "
                "legal: range_length"
            )
        return sum([self.is_index_valid(n) for n in range(self.range_length)])

    def clear_cache(self) -> None:
        """Count the valid configs anew."""
        self.__dict__.pop("_counted", None)

    def get(self, index: int) -> ConfigEntity:
        """The config of an index."""
        if not 0 <= index < self.range_length:
            raise CompileError(
                f"config {index}: the space has {self.range_length}; legal: 0 to "
                f"{self.range_length - 1}"
            )
        point = self.point2knob(index)
        values = {n: s[k] for (n, s), k in zip(self.space_map.items(), point, strict=True)}
        return ConfigEntity(index, self.code_hash, values, self)

    def is_index_valid(self, index: int) -> bool:
        """Whether there is a config of an index."""
        if not 0 <= index < self.range_length:
            return False
        return self._filter is None or bool(self._filter(self.get(index)))

    def index_of(self, values: dict[str, Any]) -> int | None:
        """The index of a config by its values; None where the space has none."""
        if {*values} != {*self.space_map}:
            return None
        try:
            return self.knob2point([s.entities.index(values[n]) for n, s in self.space_map.items()])
        except ValueError:
            return None

    def point2knob(self, point: int) -> list[int]:
        """An index as a position of each knob; that of the first one changes fastest."""
        return digits(point, self.dims)

    def knob2point(self, knob: Sequence[int]) -> int:
        """Positions of the knobs as an index."""
        return number(knob, self.dims)

    def subrange_length(self, start: int, end: int) -> int:
        """How many valid indices there are from start to before end."""
        if self._filter is None:
            return max(0, min(end, self.range_length) - max(start, 0))
        return sum([self.is_index_valid(n) for n in range(start, end)])

    def get_rand_index(
        self, start: int | None = None, end: int | None = None, to_exclude: Sequence[int] = ()
    ) -> int:
        """A valid index at random, from start to before end."""
        low, high = start or 0, self.range_length if end is None else end
        excluded = {*to_exclude}
        for n in np.random.permutation(high - low):
            if low + int(n) not in excluded and self.is_index_valid(low + int(n)):
                return low + int(n)
        raise CompileError(f"get_rand_index: no valid config is left from {low} to {high - 1}")

    def get_next_index(
        self, index: int, n: int = 1, start: int | None = None, end: int | None = None
    ) -> int | None:
        """The n-th valid index behind one (before it where n is negative); None: there is none."""
        low, high = start or 0, self.range_length if end is None else end
        step = 1 if n > 0 else -1
        while n:
            index += step
            if not low <= index < high:
                return None
            n -= step if self.is_index_valid(index) else 0
        return index

    def sample_ints(self, m: int) -> list[int]:
        """Different valid indices at random, m at most."""
        order = np.random.permutation(self.range_length)
        found = (int(n) for n in order if self.is_index_valid(int(n)))
        return [n for _, n in zip(range(m), found, strict=False)]

    def random_walk(self, point: int) -> int:
        """An index whose config differs in one knob."""
        knobs, dims = self.point2knob(point), self.dims
        free = [n for n, d in enumerate(dims) if d > 1]
        while free:
            at = free[np.random.randint(len(free))]
            other = (knobs[at] + 1 + np.random.randint(dims[at] - 1)) % dims[at]
            new = self.knob2point([*knobs[:at], other, *knobs[at + 1 :]])
            if self.is_index_valid(new):
                return new
        return point

    def __repr__(self) -> str:
        rows = [f"{n:2d} {name}: {type(s).__name__}({len(s)})"
                for n, (name, s) in enumerate(self.space_map.items())]  # fmt: skip
        text = "\n".join(rows)
        return f"ConfigSpace (len={self.range_length}, space_map=\n{text}\n)"


class ConfigEntity(ConfigSpace):
    """A config: a value of each knob; what a template defines is known here."""

    def __init__(
        self,
        index: int | None,
        code_hash: str | None,
        entity_map: dict[str, Any],
        space: ConfigSpace | None = None,
    ) -> None:
        """index  its number in the space; -1 or None where that is not known."""
        super().__init__()
        self.index, self.code_hash = index, code_hash
        self._entity_map = dict(entity_map)
        self.space_map = {} if space is None else space.space_map
        self.cost: float | None = None

    def _define(self, kind: Any, name: str, *args: Any, **kwargs: Any) -> list[VirtualAxis]:
        """Nothing is left open any more: the axes are as many as those of the definition."""
        count = 0 if kind is OtherOptionSpace else kind.get_num_output(*args, **kwargs)
        return [VirtualAxis(None) for _ in range(count)]

    def multi_filter(self, filter: Filter) -> None:
        """Filters belong to the space."""

    def get_other_option(self) -> dict[str, Any]:
        """The values by name; entities as their texts."""
        return {n: e.val if isinstance(e, OtherOptionEntity) else str(e)
                for n, e in self._entity_map.items()}  # fmt: skip

    @property
    def values(self) -> dict[str, Any]:
        """The entities by name."""
        return dict(self._entity_map)

    def to_json_dict(self) -> dict[str, Any]:
        """The form that it has in logs."""
        entity = [[n, e.kind, e.data] for n, e in self._entity_map.items()]
        return {"index": self.index, "code_hash": self.code_hash, "entity": entity}

    @staticmethod
    def from_json_dict(json_dict: dict[str, Any]) -> ConfigEntity:
        """A config from its form in logs. Raises CompileError for another one."""
        try:
            made = {str(n): ENTITIES[kind](data) for n, kind, data in json_dict["entity"]}
            return ConfigEntity(json_dict["index"], json_dict.get("code_hash"), made)
        except (KeyError, TypeError, ValueError) as e:
            raise CompileError(
                f"no config: {json_dict!r:.80}; legal: index, code_hash, and entity: a list of "
                f"[name, kind, data] with kind one of {', '.join(ENTITIES)}"
            ) from e

    def __len__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigEntity) and other._entity_map == self._entity_map

    def __hash__(self) -> int:
        return hash(tuple(self._entity_map.items()))

    def __repr__(self) -> str:
        said = ", ".join([f"{n}={e.data}" for n, e in self._entity_map.items()])
        return f"[{said}],{self.code_hash},{self.index}"


class FallbackConfigEntity(ConfigSpace):
    """What a template gets where nothing was tuned: the first value of every knob, until it says
    otherwise."""

    is_fallback = True

    def __setitem__(self, name: str, entity: Any) -> None:
        """Let a knob have another value."""
        self._entity_map[name] = entity

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Cut an axis so that its parts are as large as limits allow, the innermost first.

        constraints  the largest size of each part; -1: no limit
        """
        space = self.space_map.get(name)
        if not isinstance(space, SplitSpace):
            raise UnknownKnob(unknown("split", name, self.space_map))
        if len(constraints) != space.num_output:
            raise ScheduleError(
                f"fallback_split({name!r}): {len(constraints)} limits; legal: {space.num_output}"
            )
        left, size = space.product, []
        for limit in reversed(constraints):
            fits = [f for f in get_factors(left) if limit < 0 or f <= limit]
            size.append(max(fits, default=1))
            left //= size[-1]
        self._entity_map[name] = SplitEntity(size[::-1])

    def fallback_with_reference_log(self, ref_log: Sequence[tuple[Any, Any]]) -> None:
        """Take the values of the fastest config of a log, splits with sizes that divide here.

        ref_log  pairs of MeasureInput and MeasureResult
        """
        good = [(r.mean, i.config) for i, r in ref_log if not r.error_no]
        if not good:
            return
        best = min(good, key=lambda v: v[0])[1]
        for name, entity in best.values.items():
            space = self.space_map.get(name)
            if isinstance(space, SplitSpace) and len(entity.size) == space.num_output:
                self.fallback_split(name, [-1, *entity.size[1:]])
            elif space is not None:
                self._entity_map[name] = entity

    def __repr__(self) -> str:
        said = ", ".join([f"{n}={e.data}" for n, e in self._entity_map.items()])
        return f"fallback [{said}]"
