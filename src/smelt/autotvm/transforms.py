"""What a template may leave open: how axes are split, ordered and treated, and any other choice.

A space lists its entities; an entity is one way, and `apply` carries it out on a schedule.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations, product
from math import prod
from typing import Any

from smelt.classic.te_schedule import thread_axis
from smelt.ir.build import value_of
from smelt.ir.errors import ScheduleError, Unsupported
from smelt.ir.expr import Expr
from smelt.runtime.errors import unknown
from smelt.tir.nodes import IterVar

_THREADS = ("blockIdx.z", "blockIdx.y", "blockIdx.x", "vthread", "vthread", "vthread",
            "threadIdx.z", "threadIdx.y", "threadIdx.x")  # fmt: skip


def get_factors(n: int) -> list[int]:
    """The numbers that divide n, in order."""
    return [k for k in range(1, n + 1) if n % k == 0]


def get_pow2s(n: int) -> list[int]:
    """The powers of two up to n, in order."""
    return [1 << k for k in range(n.bit_length())]


class VirtualAxis:
    """An axis of a template: a loop that there is, or that a split will make.

    length  its iterations; None where these depend on what is chosen
    """

    def __init__(self, var: Any, name: str = "") -> None:
        """An axis of a computation, a number of iterations, or another virtual axis."""
        self.name = name
        self.length: int | None
        if isinstance(var, VirtualAxis):
            self.name, self.length = name or var.name, var.length
        elif isinstance(var, IterVar):
            self.name = name or var.var.name
            self.length = None if var.dom is None else value_of(var.dom.extent)
        elif isinstance(var, int) and not isinstance(var, bool) and var > 0:
            self.length = var
        elif isinstance(var, Expr) and (value_of(var) or 0) > 0:
            self.length = value_of(var)
        elif var is None:
            self.length = None
        else:
            raise ScheduleError(
                f"{var!r} is no axis; legal: an axis of a computation (s[C].op.axis[0]), cfg.axis("
                "...), or a number of iterations"
            )

    @staticmethod
    def get_num_output(var: Any, name: str = "") -> int:
        """One."""
        return 1

    def __repr__(self) -> str:
        return f"vaxis({self.name or self.length})"


Axis = VirtualAxis
"""Its other classic name."""


class TransformSpace:
    """The ways to do one thing.

    ordered  whether neighbours are alike
    """

    ordered = False

    def __init__(self) -> None:
        self.entities: list[Any] = []
        self.num_output = 0

    def __len__(self) -> int:
        return len(self.entities)

    def __getitem__(self, index: int) -> Any:
        return self.entities[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.entities)

    def outputs(self) -> list[VirtualAxis]:
        """The axes behind it; a split's have lengths only once it is chosen."""
        return [VirtualAxis(None) for _ in range(self.num_output)]


class Entity(ABC):
    """One way to do one thing: `kind` and `data` are its form in logs."""

    kind: str

    @property
    @abstractmethod
    def data(self) -> Any:
        """What JSON can hold of it."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.data == self.data

    def __hash__(self) -> int:
        return hash((self.kind, repr(self.data)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.data})"


def _refused(kind: str, policy: str, known: Sequence[str]) -> ScheduleError:
    return ScheduleError(f"{kind}: {unknown('policy', policy, known).replace('policys', 'legal')}")


# ---------------------------------------------------------------------------------------- splits


class SplitSpace(TransformSpace):
    """Ways to cut an axis into `num_outputs` ones."""

    ordered = True
    POLICIES = ("factors", "power2", "verbose", "candidate")

    def __init__(self, axis: Any, policy: str = "factors", **options: Any) -> None:
        """policy, options  see ConfigSpace.define_split."""
        super().__init__()
        self.policy = "verbose" if policy == "all" else policy
        if self.policy not in self.POLICIES:
            raise _refused("define_split", policy, self.POLICIES)
        self.axis = VirtualAxis(axis)
        self.num_output = int(options.get("num_outputs", 0))
        if self.policy == "candidate":
            self._take(options.get("candidate", ()))
        else:
            self._generate(options)
        keep = options.get("filter", lambda e: True)
        self.entities = [e for e in self.entities if keep(e)]

    @property
    def product(self) -> int:
        """The iterations of the axis."""
        if self.axis.length is None:
            raise ScheduleError(
                f"define_split: the number of iterations of {self.axis.name or 'the axis'} is not "
                'known; legal: policy="candidate", or an axis of a known extent'
            )
        return self.axis.length

    def _take(self, given: Sequence[Sequence[int]]) -> None:
        sizes = [list(map(int, s)) for s in given]
        self.num_output = self.num_output or (len(sizes[0]) if sizes else 0)
        for s in sizes:
            if len(s) != self.num_output or any(n < 1 for n in s[1:]):
                raise ScheduleError(
                    f"define_split: the candidate {s}; legal: {self.num_output} numbers from 1 on, "
                    "the first one -1 for whatever is left"
                )
        self.entities = [SplitEntity(s) for s in sizes]

    def _generate(self, options: dict[str, Any]) -> None:
        if self.num_output < 1:
            raise ScheduleError("define_split: num_outputs is missing; legal: a number from 1 on")
        total = self.product
        factors = get_factors(total) if self.policy != "power2" else get_pow2s(total)
        if self.policy == "verbose":
            factors = sorted({*factors, *get_pow2s(total)})
        factors = [f for f in factors if f <= options.get("max_factor", total)]
        exact = options.get("no_tail", self.policy == "factors")
        for inner in product(factors, repeat=self.num_output - 1):
            taken = prod(inner)
            if total % taken == 0 or (taken < total and not exact):
                self.entities.append(SplitEntity([-1, *inner[::-1]]))

    @staticmethod
    def get_num_output(axes: Any, policy: str = "factors", **options: Any) -> int:
        """How many axes a split gives."""
        return int(options.get("num_outputs", 0) or len(next(iter(options["candidate"]))))


class SplitEntity(Entity):
    """How many iterations each part has, outermost first; -1: whatever is left."""

    kind = "sp"

    def __init__(self, size: Sequence[int]) -> None:
        """size  a number a part."""
        self.size = list(size)

    @property
    def data(self) -> list[int]:
        """The sizes."""
        return self.size

    def apply(self, sch: Any, op: Any, axis: Any) -> list[Any]:
        """Split an axis of a stage; the new axes, outermost first."""
        made = []
        for n in range(1, len(self.size)):
            outer, axis = sch[op].split(axis, factor=prod(self.size[n:]))
            made.append(outer)
        return [*made, axis]


# ---------------------------------------------------------------------------------------- orders


class ReorderSpace(TransformSpace):
    """Orders of axes."""

    POLICIES = ("identity", "all", "interval_all", "candidate", "interleave")

    def __init__(self, axes: Sequence[Any], policy: str = "all", **options: Any) -> None:
        """policy, options  see ConfigSpace.define_reorder."""
        super().__init__()
        if policy not in self.POLICIES:
            raise _refused("define_reorder", policy, self.POLICIES)
        self.axes, self.num_output = list(axes), len(axes)
        every = range(self.num_output)
        orders: Any = [tuple(every)]
        if policy == "all":
            orders = permutations(every)
        elif policy == "interval_all":
            low, high = options["interval"]
            orders = [(*every[:low], *p, *every[high:]) for p in permutations(every[low:high])]
        elif policy == "candidate":
            orders = [self._places(c) for c in options["candidate"]]
        elif policy == "interleave":
            orders = self._interleaved(options["spatial"], options["reduce"])
        self.entities = [ReorderEntity(p) for p in orders]

    def _places(self, order: Sequence[Any]) -> list[int]:
        known = {id(a): n for n, a in enumerate(self.axes)}
        places = [known.get(id(a), -1) for a in order]
        if sorted(places) != list(range(self.num_output)):
            raise ScheduleError(
                f"define_reorder: the candidate {list(order)} is no order of {self.axes}; legal: "
                "each of the axes once"
            )
        return places

    def _interleaved(
        self, spatial: Sequence[Sequence[Any]], reduce: Sequence[Sequence[Any]]
    ) -> Iterator[list[int]]:
        """The outermost axes first; behind them the others, each chain in its order."""
        chains = [list(c) for c in (*spatial, *reduce)]
        heads = [c[0] for c in chains if c]
        for tail in _merged([c[1:] for c in chains]):
            yield self._places([*heads, *tail])

    @staticmethod
    def get_num_output(axes: Sequence[Any], policy: str = "all", **options: Any) -> int:
        """As many as come in."""
        return len(axes)


def _merged(chains: Sequence[list[Any]]) -> Iterator[list[Any]]:
    """Every order of the members of some chains in which each chain keeps its own."""
    if not any(chains):
        yield []
    for n, chain in enumerate(chains):
        if chain:
            for rest in _merged([*chains[:n], chain[1:], *chains[n + 1 :]]):
                yield [chain[0], *rest]


class ReorderEntity(Entity):
    """An order: of each place the axis that stands there."""

    kind = "re"

    def __init__(self, perm: Sequence[int]) -> None:
        """perm  positions of the axes as they were given."""
        self.perm = list(perm)

    @property
    def data(self) -> list[int]:
        """The order."""
        return self.perm

    def apply(self, sch: Any, op: Any, axes: Sequence[Any]) -> list[Any]:
        """Order the axes of a stage; the axes in their new order."""
        if len(axes) != len(self.perm):
            raise ScheduleError(f"{self}: {len(axes)} axes given; legal: {len(self.perm)}")
        found = [axes[n] for n in self.perm]
        sch[op].reorder(*found)
        return found


# ----------------------------------------------------------------------------------- annotations


class AnnotateSpace(TransformSpace):
    """Kinds of loops: of each axis unrolled, a vector, or neither."""

    POLICIES = ("none", "unroll", "vec", "unroll_vec", "vec_unroll", "try_unroll", "try_vec",
                "try_unroll_vec", "try_vec_unroll", "bind_gpu", "bind_gpu_virtual",
                "locate_cache")  # fmt: skip

    def __init__(self, axes: Sequence[Any], policy: str, **options: Any) -> None:
        """policy, options  see ConfigSpace.define_annotate."""
        super().__init__()
        if policy not in self.POLICIES:
            raise _refused("define_annotate", policy, self.POLICIES)
        count = self.num_output = len(axes)
        if policy == "locate_cache":
            found: list[Any] = list(combinations(range(count), options["num_anchor"]))
        elif policy.startswith("bind_gpu"):
            found = [_threads(count, policy)]
        else:
            kinds = policy.replace("try", "none").split("_")
            found = [a for a in product(kinds, repeat=count) if a.count("vec") <= 1]
        self.entities = [AnnotateEntity(a) for a in found]

    @staticmethod
    def get_num_output(axes: Sequence[Any], policy: str = "", **options: Any) -> int:
        """As many as come in."""
        return len(axes)


def _threads(count: int, policy: str) -> list[str]:
    """The thread axes of so many loops: blocks, then threads."""
    per = 3 if policy == "bind_gpu_virtual" else 2
    if count % per or not 0 < count <= 3 * per:
        raise ScheduleError(
            f"define_annotate: {policy!r} with {count} axes; legal: 1 to 3 for each of {per} levels"
        )
    levels = (
        [_THREADS[:3], _THREADS[6:]] if per == 2 else [_THREADS[:3], _THREADS[3:6], _THREADS[6:]]
    )
    return [tag for level in levels for tag in level[3 - count // per :]]


class AnnotateEntity(Entity):
    """What each axis becomes: "none", "unroll", "vec", a thread axis; or where caches stand."""

    kind = "an"

    def __init__(self, anns: Sequence[Any]) -> None:
        """anns  a word an axis; for caches the number of an axis each."""
        self.anns = list(anns)

    @property
    def data(self) -> list[Any]:
        """The words."""
        return self.anns

    def apply(
        self,
        sch: Any,
        op: Any,
        axes: Sequence[Any],
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: Any = None,
        source: Sequence[Any] | None = None,
    ) -> Sequence[Any]:
        """Treat the axes of a stage; the axes.

        axis_lens   their iterations, which the limits are compared with
        max_unroll  loops of more iterations are not unrolled
        vec_size    iterations that make a vector; None: any
        source      stages that are computed at the axes, for "locate_cache"
        """
        if source is not None:
            for cached, at in zip(source, self.anns, strict=True):
                sch[cached].compute_at(sch[op], axes[at])
            return axes
        if len(axes) != len(self.anns):
            raise ScheduleError(f"{self}: {len(axes)} axes given; legal: {len(self.anns)}")
        for n, (word, axis) in enumerate(zip(self.anns, axes, strict=True)):
            length = None if axis_lens is None else axis_lens[n]
            if word == "unroll":
                if max_unroll is None or length is None or length <= max_unroll:
                    sch[op].unroll(axis)
            elif word == "vec":
                if vec_size is None or length is None or length in vec_size:
                    sch[op].vectorize(axis)
            elif word in _THREADS:
                sch[op].bind(axis, thread_axis(word))
            elif word != "none":
                raise Unsupported(f"{self}: {word!r} is nothing that an axis can become")
        return axes


# ----------------------------------------------------------------------------------------- others


class OtherOptionSpace(TransformSpace):
    """Any values to choose one of."""

    def __init__(self, candidate: Sequence[Any], policy: str = "candidate", **options: Any) -> None:
        """candidate  the values; numbers in order count as neighbours."""
        super().__init__()
        values = [c.val if isinstance(c, OtherOptionEntity) else c for c in candidate]
        self.entities = [OtherOptionEntity(v) for v in values]
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        self.ordered = numbers and values == sorted(values)

    @staticmethod
    def get_num_output(axes: Any, policy: str = "", **options: Any) -> int:
        """None: no axes come of it."""
        return 0


class OtherOptionEntity(Entity):
    """A value: cfg["name"].val."""

    kind = "ot"

    def __init__(self, val: Any) -> None:
        """val  what the template asks for."""
        self.val = val

    @property
    def data(self) -> Any:
        """The value."""
        return self.val


ENTITIES = {e.kind: e for e in (SplitEntity, ReorderEntity, AnnotateEntity, OtherOptionEntity)}
"""By the word that stands for them in logs."""
