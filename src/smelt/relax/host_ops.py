"""Calls with data-dependent sizes: their types, and what computes them.

An importer that knows all types says them itself: `host_call` makes calls that the virtual machine
runs in numpy, `run_size` makes data-dependent sizes, `call_with_sizes` calls that use such sizes in
attributes.

Operators of a dialect say which operands decide the type (`GraphOp.needs`). Where these are
constants the operator is one of known sizes; else `transform/tell_sizes` makes operators of the
core of it that use sizes of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any

from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.expr import INDEX, Expr, IntImm, convert
from smelt.ir.expr import Var as SizeVar
from smelt.ir.node import postorder
from smelt.ir.tables import entering
from smelt.ir.types import IncompleteType, TensorType, TupleType, Type, tensor_type
from smelt.topi.registry import get_op

from .graph_op import Dialect, GraphOp, needs_values
from .nodes import Call, CallAttrs, Constant, RelaxExpr, TupleGetItem, Var, call, check_inplace

VM = Dialect("vm")
"""Operators of programs with data-dependent sizes."""


class HostOp(GraphOp):
    """An operator that the virtual machine always runs in numpy; each call says its type."""

    def __init__(self, name: str) -> None:
        """Name an entry of runtime/vm_host."""
        super().__init__(VM, name, _operands)

    def normalize(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes as the call says them."""
        return dict(attrs)

    def result_type(self, types: Sequence[Type | None], attrs: Mapping[str, Any]) -> Type:
        """Operands do not tell it: calls do."""
        return IncompleteType()


def _operands(*operands: RelaxExpr) -> RelaxExpr:
    raise Unsupported("runs in the virtual machine only")


def host_call(op: str, *args: RelaxExpr, type: Type, name: str = "", **attrs: Any) -> Call:
    """A call of an operator of runtime/vm_host with a result of this type.

    attrs  plain data, as JSON holds it
    """
    return Call(HostOp(op), args, CallAttrs(op, attrs), type, name)


def packed_call(
    func: str,
    args: Sequence[RelaxExpr],
    type: Type,
    inplace: Sequence[int] = (),
    fresh: bool = False,
) -> Call:
    """A call of a function that is registered by name (smelt.register_func), which Python runs.

    inplace  for each result the operand that the function updates to it, or -1: it gives it
    fresh    it gets the results, whose sizes are numbers, behind the operands, and writes to them
    """
    types: list[Type] = [*type.items] if isinstance(type, TupleType) else [type]
    if not isinstance(func, str) or not func:
        raise TypeMismatch(f"the function is {func!r}; legal: the name of a registered function")
    outputs = []
    for t in types:
        if not isinstance(t, TensorType):
            raise TypeMismatch(f"{func}: the results are {type}; legal: tensors")
        dims = [e.value if isinstance(e, IntImm) else None for e in t.shape]
        if fresh and None in dims:
            raise TypeMismatch(f"{func}: sizes of results that it writes to have to be numbers")
        outputs.append([t.dtype, dims])
    made = host_call("packed", *args, type=type, func=func, inplace=list(inplace),
                     outputs=outputs, fresh=fresh)  # fmt: skip
    if inplace:
        check_inplace(func, made, inplace)
    return made


@VM.op("vm.depend")
def _depend(x: RelaxExpr, *definitions: RelaxExpr) -> RelaxExpr:
    """x; what is computed with it may use the sizes in the definitions' types."""
    return x


def _dependent(name: str) -> None:
    """Enter vm.<name>: an operator without operands, on the definitions of sizes in attributes."""

    def body(*definitions: RelaxExpr, **attrs: Any) -> RelaxExpr:
        return call(name, **attrs)

    own = [Parameter(a, Parameter.KEYWORD_ONLY) for a in get_op(name).attributes]
    operands = Parameter("definitions", Parameter.VAR_POSITIONAL)
    vars(body)["__signature__"] = Signature([operands, *own])
    VM.op(f"vm.{name}")(body)


for _name in ("arange", "full", "eye"):
    _dependent(_name)


def tellers(
    numbers: RelaxExpr, sizes: Sequence[Expr], where: str, wanted: RelaxExpr | None = None,
    name: str = "",
) -> list[RelaxExpr]:  # fmt: skip
    """What tells sizes of the run: values whose types have them, one each.

    numbers  what the sizes are, 0 or more
    where    what the numbers are, for messages
    wanted   what they have to be; of one element: what their product has to be
    """
    if not sizes:
        return []
    t = TupleType(tuple([tensor_type([e], "uint8") for e in sizes]))
    given = [v for v in (numbers, wanted) if v is not None]
    made = host_call("sizes", *given, type=t, name=name, where=where)
    return [TupleGetItem(made, n) for n in range(len(sizes))]


def run_size(name: str) -> SizeVar:
    """A size that a value will tell while the program runs: see `define_sizes`."""
    size = SizeVar(name, INDEX)
    size.definition = None  # type: ignore[attr-defined]
    return size


def define_sizes(definition: RelaxExpr) -> RelaxExpr:
    """Note that a tensor tells the sizes of the run in its type that nothing tells yet."""
    t = definition.type
    for e in t.shape if isinstance(t, TensorType) else ():
        if isinstance(e, SizeVar) and getattr(e, "definition", e) is None:
            e.definition = definition  # type: ignore[attr-defined]
    return definition


def call_with_sizes(op: str, *args: RelaxExpr | None, name: str = "", **attrs: Any) -> Call:
    """A call of a core operator that depends on what tells the sizes in its attributes."""
    shown = {
        e for a in args if a is not None and isinstance(a.type, TensorType) for e in a.type.shape
    }
    used = [v for a in attrs.values() for v in sizes_of(a) if v not in shown]
    found = [getattr(v, "definition", None) for v in sorted(used, key=lambda v: v.name)]
    definitions = list(dict.fromkeys([t for t in found if t is not None]))
    return call_behind(definitions, op, *args, name=name, **attrs)


def call_behind(
    definitions: Sequence[RelaxExpr], op: str, *args: RelaxExpr | None, name: str = "", **attrs: Any
) -> Call:
    """A call of a core operator that may use the sizes in the definitions' types."""
    given = next((a for a in args if a is not None), None)
    if given is None and definitions:
        return call(VM.get(f"vm.{op}"), *definitions, name=name, **attrs)
    held = [behind(definitions, a) if a is not None and a is given else a for a in args]
    return call(op, *held, name=name, **attrs)


def behind(definitions: Sequence[RelaxExpr], x: RelaxExpr) -> RelaxExpr:
    """A value; what is computed with it may use the sizes in the definitions' types."""
    return call(VM.get("vm.depend"), x, *definitions) if definitions else x


def sizes_of(value: Any) -> list[SizeVar]:
    """The sizes in an attribute, an expression or expressions within tuples and lists, as they come
    in it."""
    if isinstance(value, Expr):
        return [v for v in postorder(value) if isinstance(v, SizeVar)]
    return [v for e in value for v in sizes_of(e)] if isinstance(value, tuple | list) else []


Size = Callable[[int], Expr]
"""The size of a number, which only the run tells; another one for each number."""

HOST_TYPES: dict[str, Callable[..., Type]] = {}
"""Functions of (operand types, attributes, Size), by operator of a dialect that needs values."""


def is_host_call(node: Any) -> bool:
    """Whether the virtual machine itself runs a call: a service of the runtime, or numpy."""
    return isinstance(node, Call) and isinstance(node.op, HostOp)


def needs_run(node: Any) -> bool:
    """Whether the type of a call follows from values that only the run knows."""
    return needs_values(node) and any(
        i < len(node.args) and not isinstance(node.args[i], Constant | None) for i in node.op.needs
    )


def call_type(node: Call, types: Sequence[Type | None], size: Size) -> Type:
    """The type of a call of an operator whose operands have these types."""
    op: Any = node.op
    if isinstance(op, HostOp):
        return node.type
    if not needs_values(node):
        found: Type = op.result_type(types, node.attrs)
        return found
    if needs_run(node):
        if op.name not in HOST_TYPES:
            raise Unsupported(
                f"{op.name}: the size of the result depends on data; the virtual machine runs "
                f"these: {', '.join(sorted(HOST_TYPES))}"
            )
        if any(t is None for t in types):
            raise Unsupported(f"{op.name}: operands are left out; give all of them")
        return HOST_TYPES[op.name](types, node.attrs, size)
    given = [a if t is None or isinstance(a, Constant) else Var("x", t)
             for a, t in zip(node.args, types, strict=True)]  # fmt: skip
    made: Type = op.expand(node.replace(args=tuple(given))).type
    return made


_enter = entering(HOST_TYPES)


def _tensor(types: Sequence[Any], n: int) -> TensorType:
    t = types[n]
    if not isinstance(t, TensorType):
        raise TypeMismatch(f"operand {n} is no tensor")
    return t


def _length(types: Sequence[Any], n: int) -> int:
    """The known length of a vector of sizes: it is the rank of the result."""
    t = _tensor(types, n)
    if t.rank != 1 or not isinstance(t.shape[0], IntImm):
        raise TypeMismatch(
            f"operand {n}, the sizes, has to be a vector of known length: it tells how many "
            "dimensions the result has"
        )
    return t.shape[0].value


@_enter("arange")
def _arange(types: Any, attrs: Any, size: Size) -> Type:
    return tensor_type([size(0)], attrs["dtype"])


@_enter("argwhere")
def _argwhere(types: Any, attrs: Any, size: Size) -> Type:
    return tensor_type([size(0), _tensor(types, 0).rank], "int32")


@_enter("dyn.reshape", "dyn.broadcast_to", "dyn.full", "dyn.zeros", "dyn.ones")
def _sized(types: Any, attrs: Any, size: Size) -> Type:
    """The last operand holds the sizes; the first one has the element type, if nothing else has."""
    rank = _length(types, len(types) - 1)
    dtype = attrs.get("dtype") or _tensor(types, 0).dtype
    return tensor_type([size(d) for d in range(rank)], dtype)


@_enter("dyn.tile")
def _tile(types: Any, attrs: Any, size: Size) -> Type:
    rank = max(_tensor(types, 0).rank, _length(types, 1))
    return tensor_type([size(d) for d in range(rank)], _tensor(types, 0).dtype)


@_enter("dyn.strided_slice")
def _slice(types: Any, attrs: Any, size: Size) -> Type:
    data, cut = _tensor(types, 0), _length(types, 1)
    shape = [size(d) if d < cut else e for d, e in enumerate(data.shape)]
    return tensor_type(shape, data.dtype)


@_enter("dyn.one_hot")
def _one_hot(types: Any, attrs: Any, size: Size) -> Type:
    shape = list(_tensor(types, 0).shape)
    at = attrs["axis"] % (len(shape) + 1)
    return tensor_type([*shape[:at], size(0), *shape[at:]], attrs["dtype"])


@_enter("dyn.topk")
def _topk(types: Any, attrs: Any, size: Size) -> Type:
    data = _tensor(types, 0)
    at = attrs["axis"] % data.rank
    shape = [size(0) if d == at else convert(e) for d, e in enumerate(data.shape)]
    values, places = tensor_type(shape, data.dtype), tensor_type(shape, attrs["dtype"])
    kinds: dict[str, Type] = {"both": TupleType((values, places)), "values": values}
    return kinds.get(attrs["ret_type"], places)
