"""`@op`: one function is an operator.

    @op
    def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor: ...

Positional parameters are operands (`Tensor`, `Tensor | None` = may be left out, `*xs` = any
number); keyword-only parameters are attributes with their types, and so are those that
`@attributes(...)` declares of a body that takes them as `**attrs`. Running the body on placeholders
gives shapes, types and the fusion kind, memoised by operand types and attributes.

Users write their own in the same way (`smelt.op`); `@my_op.schedule` gives one a schedule rule.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter
from typing import Any, overload

from smelt.ir.build import is_const
from smelt.ir.errors import CompileError, SmeltError, TypeMismatch
from smelt.ir.expr import Expr, IntImm
from smelt.ir.types import TensorType, TupleType, Type
from smelt.runtime.errors import nearest, unknown
from smelt.te.broadcast import Pair, describe, noting
from smelt.te.tensor import ComputeOp, ExternOp, PlaceholderOp, Tensor, placeholder, topological
from smelt.tir.nodes import BufferLoad, Reduce
from smelt.tir.rewrite import loads

from .common import operand

Attrs = Mapping[str, Any]

Rule = Callable[[Any, Any], None]
"""(Schedule, Machine): schedules the kernel that an operator is in."""

Meaning = Callable[..., Any]
"""What an operator computes, written from its definition: arrays (None = operand left out) and all
attributes -> an array, or a tuple where there are several results."""

When = Callable[[Sequence[TensorType | None], Attrs], bool]
"""(types of the operands, attributes) -> whether another body of an operator computes the same."""

KINDS = ("elementwise", "broadcast", "injective", "contraction", "reduce", "opaque")
"""What an operator's index maps look like: see `_kind`."""

_OPS: dict[str, Op] = {}


@dataclass(frozen=True)
class Body:
    """Another algorithm for an operator.

    fn    a function like the operator's own, of tensors and attributes
    when  for which operands and attributes it computes what the operator does
    """

    name: str
    fn: Callable[..., Any]
    when: When


class OpInstance:
    """An operator on operands of certain types: its tensor expression and what follows from it."""

    def __init__(
        self,
        inputs: tuple[Tensor | None, ...],
        outputs: tuple[Tensor, ...],
        kind: str,
        equal: tuple[Pair, ...] = (),
    ) -> None:
        """Keep the traced body, and the pairs of symbolic extents that have to fit."""
        self.equal = equal
        self.inputs, self.outputs, self.kind = inputs, outputs, kind
        self.types = tuple([TensorType(t.shape, t.type) for t in outputs])

    @cached_property
    def by_element(self) -> bool:
        """Whether an element of the result is computed from the operands' elements at its place,
        which is all that counts of the place; operands broadcast as numpy's do. What only moves
        elements is no such operator, even where it moves none: its attributes name dimensions."""
        stages = [s for s in topological(self.outputs) if not isinstance(s, PlaceholderOp)]
        computes = [s for s in stages if isinstance(s, ComputeOp) and not s.reduce_axis]
        if len(self.outputs) != 1 or len(computes) < len(stages):
            return False
        moves = all(isinstance(s.body[0], BufferLoad) for s in computes)
        return not moves and all(_at_its_place(s) for s in computes)

    @cached_property
    def source_axes(self) -> tuple[int | None, ...] | None:
        """Where each axis of the first operand stands in the result, as it is; None: nowhere.

        None instead of all: elements of the result are not just elements of that operand. Every
        one of them has to be one load, through one stage or several.
        """
        first = self.inputs[0] if self.inputs else None
        if self.kind == "opaque" or first is None:
            return None
        found: dict[Any, tuple[int | None, ...]] = {first: tuple(range(len(first.shape)))}
        for stage in topological(self.outputs):
            if not isinstance(stage, ComputeOp):
                continue
            load = stage.body[0]
            point: list[Any] = [a.var for a in stage.axis]
            if not isinstance(load, BufferLoad) or load.buffer not in found:
                return None
            kept = {
                at: point.index(i)
                for at, i in enumerate(load.indices)
                if i in point and stage.axis[point.index(i)].dom.extent is load.buffer.shape[at]
            }
            found[stage.outputs[0]] = tuple(
                [None if at is None else kept.get(at) for at in found[load.buffer]]
            )
        return found[self.outputs[0]]

    @cached_property
    def by_row(self) -> bool:
        """Whether several reductions run along one dimension of the first operand, each over the
        elements in line with the result's, and all other operands are vectors and numbers."""
        x = self.inputs[0] if self.inputs else None
        if self.kind != "opaque" or x is None or [t.shape for t in self.outputs] != [x.shape]:
            return False
        stages = [s for s in topological(self.outputs) if not isinstance(s, PlaceholderOp)]
        if any(len(t.shape) > 1 for t in self.inputs[1:] if t is not None):
            return False
        lines: set[int] = set()
        for s in stages:
            if not isinstance(s, ComputeOp):
                return False
            point, along = ([a.var for a in axes] for axes in (s.axis, s.reduce_axis))
            for load in [n for e in s.body for n in loads(e)]:
                if load.buffer is x:
                    lines |= {d for d, i in enumerate(load.indices) if i in along}
                    if any(i not in point and i not in along for i in load.indices):
                        return False
        return len(lines) == 1


class Op:
    """An operator: a named function from tensors and attributes to tensors."""

    def __init__(
        self, fn: Callable[..., Any], name: str, kind: str | None = None, *,
        commutative: bool = False, channels_last: bool = False, chooses: bool = False,
    ) -> None:  # fmt: skip
        """Read the operands and attributes off the function's signature."""
        self.fn, self.name, self.fixed_kind = fn, name, kind
        self.commutative, self.channels_last, self.chooses = commutative, channels_last, chooses
        self.rule: Rule | None = None
        self.bodies: list[Body] = []
        self.update: Callable[..., Any] | None = None
        self.meaning: Meaning | None = None
        self.__doc__ = fn.__doc__
        self.operands: list[str] = []
        self.optional: set[str] = set()
        self.variadic = False
        self.attributes: dict[str, Parameter] = {}
        for p in inspect.signature(fn).parameters.values():
            if p.kind == p.KEYWORD_ONLY:
                self.attributes[p.name] = p
            elif p.kind == p.VAR_KEYWORD or p.default not in (p.empty, None):
                raise CompileError(
                    f"the operator {name!r}: the parameter {p.name!r} is no operand; attributes "
                    "are parameters after *, each with its name and default"
                )
            else:
                self.operands.append(p.name)
                self.variadic = self.variadic or p.kind == p.VAR_POSITIONAL
                if "None" in str(p.annotation):
                    self.optional.add(p.name)
        self._memo: dict[Any, OpInstance] = {}

    @property
    def user_defined(self) -> bool:
        """Whether a user defined it: other processes do not have it."""
        return str(self.fn.__module__).partition(".")[0] != "smelt"

    def numpy(self, meaning: Meaning) -> Meaning:
        """`@my_op.numpy`: what it computes, on arrays. The interpreter uses it; constant folding
        does so for smelt's own operators.

        It is what compiled code is tested against, so it never looks at the tensor expression.
        """
        self.meaning = meaning
        return meaning

    def implements(self, when: When) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """`@my_op.implements(when)`: another algorithm, a function like the operator's own.

        The cost decides for each kernel which one it uses. Results may be rounded otherwise, so the
        function is tested against the operator's own body.
        """
        if self.user_defined:
            raise CompileError(
                f"{self.name} is an operator of your own, of which other processes only have the "
                "program; several bodies are for smelt's operators"
            )

        def enter(fn: Callable[..., Any]) -> Callable[..., Any]:
            self.bodies.append(Body(fn.__name__, fn, when))
            return fn

        return enter

    def updates(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """`@my_op.updates`: its algorithm as a copy of the first operand, some elements of which
        are changed then. Where nothing else reads that operand, the kernel changes its memory.

        fn  a function like the operator's own
        """
        if self.user_defined:
            raise CompileError(
                f"{self.name} is an operator of your own, of which other processes only have the "
                "program; R.call_tir_inplace calls a program that writes to its operands"
            )
        self.update = fn
        return fn

    def schedule(self, rule: Rule) -> Rule:
        """`@my_op.schedule`: a function (sch, machine) that schedules kernels with this operator.

        sch       the Schedule of the kernel's program: the operator's blocks bear the names of its
                  `te.compute`s, and elementwise neighbours may be in the kernel too
        machine  a `smelt.target.Machine`
        """
        if not self.user_defined:
            raise CompileError(f"{self.name} is smelt's own operator; its schedule is in the rules")
        if not callable(rule):
            raise CompileError(
                f"{self.name}.schedule: a {type(rule).__name__} is given; "
                "a function (sch, machine) is needed"
            )
        self.rule = rule
        return rule

    def __repr__(self) -> str:
        return f"Op({self.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (get_op, (self.name,))

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        """The tensor expression of this operator on te tensors, and numbers beside them."""
        dtype = next((a.dtype for a in args if isinstance(a, Tensor)), "float32")
        return self.fn(*[operand(a, dtype) for a in args], **attrs)

    def normalize(self, attrs: Attrs) -> dict[str, Any]:
        """All attributes in declared order, defaults filled in, lists as tuples."""
        for name in attrs:
            if name not in self.attributes:
                said = unknown("attribute", name, self.attributes)
                raise TypeMismatch(f"{self.name} has {said}")
        full = {}
        for name, p in self.attributes.items():
            if name in attrs:
                full[name] = plain(attrs[name])
            elif p.default is p.empty:
                raise TypeMismatch(f"{self.name} needs the attribute {name!r}")
            else:
                full[name] = p.default
        return full

    def instance(self, types: Sequence[TensorType | None], attrs: Attrs) -> OpInstance:
        """The traced body for operands of these types (None = operand left out)."""
        key = (tuple(types), tuple([(k, _hashable(v)) for k, v in attrs.items()]))
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._trace(types, self.normalize(attrs))
        return found

    def infer(self, types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
        """The types of the results."""
        return self.instance(types, attrs).types

    def result_type(self, types: Sequence[Type | None], attrs: Attrs) -> Type:
        """The type of a call: a tuple where the operator has several results."""
        for i, t in enumerate(types):
            if t is not None and not isinstance(t, TensorType):
                raise TypeMismatch(f"{self.name}: operand {i} is a tuple; take one of its items")
        found = self.infer(types, attrs)  # type: ignore[arg-type]
        return found[0] if len(found) == 1 else TupleType(found)

    def _trace(self, types: Sequence[TensorType | None], attrs: Attrs) -> OpInstance:
        self._check_count(types)
        names = self.operands
        if self.variadic:
            names = [f"{self.operands[-1]}{i}" for i in range(len(types))]
        named = zip(types, names, strict=False)
        args = tuple([None if t is None else placeholder(t.shape, t.dtype, n) for t, n in named])
        try:
            with noting() as equal:
                result = self.fn(*args, **attrs)
        except SmeltError as e:
            if str(e).startswith(self.name + ":"):
                raise
            more = f"\n  operands: {_listed(args)}" if self.user_defined else ""
            raise type(e)(f"{self.name}: {e}{more}") from e
        except Exception as e:
            if not self.user_defined:
                raise
            raise TypeMismatch(
                f"{self.name}: its body failed: {type(e).__name__}: {e}\n"
                f"  operands: {_listed(args)}"
            ) from e
        outputs = tuple(result) if isinstance(result, list | tuple) else (result,)
        for t in outputs:
            if not isinstance(t, Tensor):
                raise TypeMismatch(
                    f"{self.name}: its body gives a {type(t).__name__}; legal: a te.Tensor, or "
                    f"several in a tuple\n  operands: {_listed(args)}"
                )
        return OpInstance(args, outputs, self.fixed_kind or _kind(outputs), tuple(equal))

    def _check_count(self, types: Sequence[TensorType | None]) -> None:
        if self.variadic:
            return
        need = [o for o in self.operands if o not in self.optional]
        if not len(need) <= len(types) <= len(self.operands):
            raise TypeMismatch(
                f"{self.name} takes {len(self.operands)} operands "
                f"({', '.join(self.operands)}), {len(types)} given"
            )
        for name, t in zip(self.operands, types, strict=False):
            if t is None and name not in self.optional:
                raise TypeMismatch(f"{self.name}: the operand {name!r} is missing")


def _listed(args: Sequence[Tensor | None]) -> str:
    given = [f"{a.name} {a.dtype}{describe(a.shape)}" for a in args if a is not None]
    return "; ".join(given) or "none"


def attributes(**defaults: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the attributes of a body, in order, where it takes them as `**attrs`.

    A default of Parameter.empty: it has to be given.
    """

    def declare(fn: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(fn).parameters.values()
        operands = [p for p in own if p.kind == Parameter.POSITIONAL_OR_KEYWORD]
        given = [Parameter(n, Parameter.KEYWORD_ONLY, default=d) for n, d in defaults.items()]
        signature = inspect.Signature([*operands, *given])

        @functools.wraps(fn)
        def body(*args: Any, **attrs: Any) -> Any:
            bound = signature.bind(*args, **attrs)
            bound.apply_defaults()
            return fn(*bound.args, **bound.kwargs)

        vars(body)["__signature__"] = signature
        return body

    return declare


def plain(value: Any) -> Any:
    """An attribute as Python data; sizes that are not known stay expressions."""
    if isinstance(value, list | tuple):
        return tuple([plain(v) for v in value])
    if isinstance(value, IntImm):
        return value.value
    return value


def _hashable(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple([_hashable(v) for v in value])
    return (type(value).__name__, value) if not isinstance(value, Expr) else value


def _kind(outputs: Sequence[Tensor]) -> str:
    """The fusion kind: what the loads and reductions of the body look like.

    elementwise  every input is read at the output's own index
    broadcast    some input lacks dimensions or repeats along them
    injective    an index map moves elements, none is read twice for one result
    contraction  one reduction of a product of two inputs (the anchor of a fused kernel)
    reduce       one reduction otherwise
    opaque       several reductions or results, or a program: a kernel of its own
    """
    stages = topological(outputs)
    computes = [o for o in stages if isinstance(o, ComputeOp)]
    reductions = [o for o in computes if o.reduce_axis]
    if len(reductions) > 1 or len(outputs) > 1 or any(isinstance(o, ExternOp) for o in stages):
        return "opaque"
    if reductions:
        e = reductions[0].body[0]
        assert isinstance(e, Reduce)
        factors = {x.buffer for x in loads(e.sources[0])}
        return "contraction" if e.combiner.name == "sum" and len(factors) >= 2 else "reduce"
    worst = "elementwise"
    for o in computes:
        point = tuple([a.var for a in o.axis])
        for load in [x for e in o.body for x in loads(e)]:
            if load.indices == point:
                continue
            places = [point.index(i) for i in load.indices if i in point]
            moved = any(i not in point and not isinstance(i, IntImm) for i in load.indices)
            if moved or places != sorted(set(places)):
                return "injective"
            worst = "broadcast"
    return worst


def _at_its_place(stage: ComputeOp) -> bool:
    """Whether an element is made of loads at its own place, the last dimensions of it or 0 where
    a dimension is repeated, and the place stands nowhere else."""
    point = [a.var for a in stage.axis]
    stack: list[Expr] = list(stage.body)
    while stack:
        e = stack.pop()
        if isinstance(e, BufferLoad):
            own = point[len(point) - len(e.indices) :]
            if len(own) < len(e.indices) or not all(
                i is v or is_const(i, 0) for i, v in zip(e.indices, own, strict=True)
            ):
                return False
        elif e in point:
            return False
        else:
            stack.extend(c for c in e.children() if isinstance(c, Expr))
    return True


@overload
def op(fn: Callable[..., Any]) -> Op:
    """`@op`: the name is the function's, the kind is derived."""


@overload
def op(
    *, name: str | None = None, kind: str | None = None, commutative: bool = False,
    channels_last: bool = False, chooses: bool = False, numpy: Meaning | None = None,
) -> Callable[[Callable[..., Any]], Op]:  # fmt: skip
    """`@op(...)`: with a name of its own, or with what the body does not say."""


def op(
    fn: Callable[..., Any] | None = None, *, name: str | None = None, kind: str | None = None,
    commutative: bool = False, channels_last: bool = False, chooses: bool = False,
    numpy: Meaning | None = None,
) -> Any:  # fmt: skip
    """Make a function an operator.

    name           the function's where it is not given; a name is given once, but a function that
                   is defined again (a notebook's cell) takes its old place
    kind           overrides the derived fusion kind, see KINDS
    commutative    its two operands may change places
    channels_last  its kernels walk over the channels of images x[n, c, ...], which lie innermost in
                   memory then
    chooses        each element of its result is one of the operands' elements or a number, which
                   grows with them: operands brought into a range give the result brought into it
    numpy          what it computes, see Op.numpy
    """

    if kind is not None and kind not in KINDS:
        raise CompileError(f"op: no kind {kind!r}{nearest(kind, KINDS)}; kinds: {', '.join(KINDS)}")

    def make(f: Callable[..., Any]) -> Op:
        made = Op(f, name or f.__name__.rstrip("_"), kind, commutative=commutative,
                  channels_last=channels_last, chooses=chooses)  # fmt: skip
        made.meaning = numpy
        return enter(made)

    return make if fn is None else make(fn)


def enter(made: Op) -> Op:
    """Put an operator among those that are found by name."""
    found = _OPS.get(made.name)
    if found is not None and not (made.user_defined and _home(found.fn) == _home(made.fn)):
        whose = f"defined in {found.fn.__module__}" if found.user_defined else "smelt's own"
        raise CompileError(
            f'the operator {made.name!r} is {whose}; give yours another name: @smelt.op(name="...")'
        )
    _OPS[made.name] = made
    return made


def _home(fn: Callable[..., Any]) -> tuple[str, str]:
    """Where a function is defined: a cell of a notebook that runs again defines the same."""
    return fn.__module__, fn.__qualname__


def get_op(name: str) -> Op:
    """The operator of this name."""
    if name not in _OPS:
        raise TypeMismatch(f"no operator {name!r}{nearest(name, _OPS)}")
    return _OPS[name]


def ops() -> dict[str, Op]:
    """All operators by name."""
    return dict(_OPS)
