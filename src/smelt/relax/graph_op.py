"""Operators that are functions from graph values to graph values: a dialect's, or the core's own.

    RELAY = Dialect("relay")

    @RELAY.op("nn.bias_add")
    def bias_add(data: RelaxExpr, bias: RelaxExpr, *, axis: int = 1) -> RelaxExpr: ...

The body writes the call in the core's operators. Running it on placeholders gives the result's
type, memoised by operand types and attributes, and the fusion kind; `expand_ops` runs it on the
real operands before a program is compiled. Operands may be tuples. `@composite` makes such an
operator of the core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from smelt.ir.build import value_of
from smelt.ir.errors import SmeltError, TypeMismatch, Unsupported
from smelt.ir.types import IncompleteType, TensorType, TupleType, Type
from smelt.runtime.errors import nearest
from smelt.topi.registry import Attrs, Op, OpInstance, enter

from .nodes import Call, Constant, RelaxExpr, Tuple, Var, call, incomplete, tensor_type_of, values
from .views import VIEW_NAMES

Results = int | Callable[[Call], int]

_ORDER = ("elementwise", "broadcast", "injective", "reduce", "contraction", "opaque")
"""Fusion kinds from the lightest on."""


class Dialect:
    """The operators of a dialect by name, and how the dialect writes expressions."""

    def __init__(self, name: str) -> None:
        """No operators yet. The dialect sets how it writes, and `make`: (operator, *operands).

        text    of an expression; astext also with the version and the constants
        """
        self.name = name
        self.ops: dict[str, GraphOp] = {}
        self.text: Callable[[RelaxExpr], str] = repr
        self.astext: Callable[[RelaxExpr, bool], str] = lambda e, _: repr(e)
        self.make: Callable[..., RelaxExpr] = call

    def __repr__(self) -> str:
        return f"Dialect({self.name!r})"

    def op(
        self,
        *names: str,
        kind: str | None = None,
        prepare: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        needs: Sequence[str] = (),
        results: Results = 1,
        order: str = "",
    ) -> Callable[[Callable[..., Any]], GraphOp]:
        """Enter a function as an operator; more names share its body.

        kind     the fusion kind, where the body's is not the right one
        prepare  brings all attributes into the form that calls hold, e.g. strides=2 as (2, 2)
        needs    operands whose values decide the type: the body gets constants there
        results  how many results there are, or a function of the call that tells
        order    how attributes say the order of the first operand's dimensions, so that a call can
                 take another one: "layout", "weights" (data_layout, and kernel_layout of the second
                 operand), "axis", "reduced" (axis, keepdims, exclude), "widths" (pad_width); "":
                 they do not
        """

        def enter(fn: Callable[..., Any]) -> GraphOp:
            made = [GraphOp(self, name, fn, kind, prepare, needs, results, order) for name in names]
            for m in made:
                if m.name in self.ops:
                    raise ValueError(f"{self.name} has an operator {m.name!r} already")
                self.ops[m.name] = m
            return made[0]

        return enter

    def get(self, name: str) -> GraphOp:
        """The operator of this name."""
        found = self.ops.get(name)
        if found is None:
            raise Unsupported(f"{self.name} has no operator {name!r}{nearest(name, self.ops)}")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.ops))


class GraphOpInstance:
    """An operator on operands of certain types: its expansion on placeholders.

    params  one placeholder an operand, None for those left out
    body    the core's expression of them
    """

    def __init__(self, params: tuple[Var | None, ...], body: RelaxExpr, kind: str | None) -> None:
        """Keep the expansion."""
        self.params, self.body = params, body
        self.type = body.type
        self.kind = kind or _kind(body)

    @cached_property
    def by_element(self) -> bool:
        """What OpInstance says by this name, of the whole expansion."""
        parts = list(values(self.body))
        return (
            not isinstance(self.type, TupleType)
            and all(by_element(v) for v in parts if isinstance(v, Call))
            and all(v.data.size == 1 for v in parts if isinstance(v, Constant))
        )

    @cached_property
    def by_row(self) -> bool:
        """The same of one operator in it, on the first operand."""
        return any(
            v.args[:1] == self.params[:1] and found.by_row
            for v in values(self.body)
            if isinstance(v, Call) and (found := instance_of(v)) is not None
        )


class GraphOp(Op):
    """An operator that a body of graph values defines."""

    def __init__(
        self,
        dialect: Dialect | None,
        name: str,
        fn: Callable[..., Any],
        kind: str | None = None,
        prepare: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        needs: Sequence[str] = (),
        results: Results = 1,
        order: str = "",
    ) -> None:
        """Read operands and attributes off the signature, as for every operator."""
        super().__init__(fn, name, kind)
        self.dialect, self.prepare, self.results, self.order = dialect, prepare, results, order
        self.needs = tuple([self.operands.index(n) for n in needs])

    def __reduce__(self) -> tuple[Any, ...]:
        if self.dialect is None:
            return super().__reduce__()
        raise TypeError(f"the operator {self.name} of {self.dialect.name} has to be expanded first")

    def __str__(self) -> str:
        return self.name

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        """Faces build calls with their own functions; an operator alone is not called."""
        face = "smelt.relax.op" if self.dialect is None else self.dialect.name
        raise TypeMismatch(
            f"{self.name} is an operator; {face}.{self.name}(...) makes a call of it"
        )

    def normalize(self, attrs: Attrs) -> dict[str, Any]:
        """All attributes in declared order, in the form that calls hold."""
        full = super().normalize(attrs)
        return full if self.prepare is None else self._named(self.prepare, full)

    def instance(self, types: Sequence[Type | None], attrs: Attrs) -> Any:
        """The expansion for operands of these types (None = operand left out)."""
        return super().instance(types, attrs)  # type: ignore[arg-type]

    def infer(self, types: Sequence[Type | None], attrs: Attrs) -> tuple[TensorType, ...]:
        """The types of the results."""
        found = self.result_type(types, attrs)
        return found.items if isinstance(found, TupleType) else (found,)  # type: ignore[return-value]

    def result_type(self, types: Sequence[Type | None], attrs: Attrs) -> Type:
        """The type of a call; not known where the values of operands decide it."""
        if any(i < len(types) and types[i] is not None for i in self.needs):
            self._check_count(types)  # type: ignore[arg-type]
            return IncompleteType()
        found: Type = self.instance(types, attrs).type
        return found

    def expand(self, call: Call) -> RelaxExpr:
        """The core's expression of a call; operands whose values decide the type are constants."""
        for i in self.needs:
            if i < len(call.args) and not isinstance(call.args[i], Constant | None):
                raise Unsupported(
                    f"{self.name}: the size of the result depends on data, the operand "
                    f"{self.operands[i]!r}; legal: a constant, or what follows from constants and "
                    "known shapes (shape_of)"
                )
        return self._body(call.args, call.attrs)

    def _trace(self, types: Sequence[Type | None], attrs: Attrs) -> Any:
        self._check_count(types)  # type: ignore[arg-type]
        names = [*self.operands, *[f"arg{i}" for i in range(len(types))]]
        pairs = zip(types, names, strict=False)
        params = tuple([None if t is None else Var(n, t) for t, n in pairs])
        return GraphOpInstance(params, self._body(params, attrs), self.fixed_kind)

    def _body(self, args: Sequence[RelaxExpr | None], attrs: Attrs) -> RelaxExpr:
        made = self._named(self.fn, *args, **attrs)
        return Tuple(tuple(made)) if isinstance(made, list | tuple) else made

    def _named(self, fn: Callable[..., Any], *args: Any, **attrs: Any) -> Any:
        """What a function gives; its errors name the operator."""
        try:
            return fn(*args, **attrs)
        except SmeltError as e:
            if str(e).startswith(self.name + ":"):
                raise
            raise type(e)(f"{self.name}: {e}") from e


def composite(fn: Callable[..., Any]) -> GraphOp:
    """`@composite`: an operator of the core whose body is written in others of its operators."""
    made = GraphOp(None, fn.__name__, fn)
    enter(made)
    return made


def of_dialect(op: object) -> bool:
    """Whether an operator is a dialect's, and means what its body says; the core's have a meaning
    in numpy of their own."""
    return isinstance(op, GraphOp) and op.dialect is not None


def needs_values(node: object) -> bool:
    """Whether the values of operands decide the type of a call."""
    if not isinstance(node, Call) or not isinstance(node.op, GraphOp):
        return False
    return any(i < len(node.args) and node.args[i] is not None for i in node.op.needs)


def instance_of(node: Call) -> OpInstance | GraphOpInstance | None:
    """The traced body of a call; None where types or values have to be known first."""
    types = [None if a is None else a.type for a in node.args]
    if not isinstance(node.op, Op) or needs_values(node) or any(incomplete(t) for t in types):
        return None
    return node.op.instance(types, node.attrs)  # type: ignore[arg-type]


def kind_of(node: Call) -> str:
    """The fusion kind of a call; opaque where types or values have to be known first."""
    found = instance_of(node)
    return "opaque" if found is None else found.kind


def by_element(node: RelaxExpr | None) -> bool:
    """Whether a value is a call of which each element follows from those at its place alone."""
    found = instance_of(node) if isinstance(node, Call) else None
    return found is not None and found.by_element


def _kind(body: RelaxExpr) -> str:
    """The heaviest kind of an expansion; two expensive ones together are opaque."""
    if isinstance(body.type, TupleType):
        return "opaque"
    worst, expensive = "elementwise", 0
    for node in values(body):
        if not isinstance(node, Call) or not isinstance(node.op, Op):
            continue
        if node.op.name in VIEW_NAMES:
            kind = "broadcast" if _only_ones(node) else "injective"
        else:
            kind = kind_of(node)
        expensive += kind in ("reduce", "contraction")
        worst = max(worst, kind, key=_ORDER.index)
    return "opaque" if expensive > 1 else worst


def _only_ones(view: Call) -> bool:
    """Whether a view repeats elements, or brings or takes dimensions of extent 1, and no more."""
    if view.callee == "broadcast_to":
        return True
    shapes = [tensor_type_of(x).shape for x in (view.args[0], view)]
    before, after = ([e for e in shape if value_of(e) != 1] for shape in shapes)
    return view.callee in ("reshape", "expand_dims", "squeeze") and before == after
