"""Graph programs: a DAG of operator calls on tensors with symbolic shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import Expr
from smelt.ir.module import VARIABLES
from smelt.ir.node import Node, ordered, postorder
from smelt.ir.operators import Arithmetic
from smelt.ir.text import Scripted, script
from smelt.ir.types import (
    FuncType,
    IncompleteType,
    Named,
    TensorType,
    TupleType,
    Type,
    parts_of,
    tensor_type,
)
from smelt.topi.registry import Op, get_op


class CallAttrs(dict[str, Any]):
    """The attributes of a call: a mapping whose items are attributes too, `attrs.strides`."""

    __slots__ = ("op",)

    def __init__(self, op: str, values: Mapping[str, Any]) -> None:
        """Name the operator, for messages."""
        super().__init__(values)
        self.op = op

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        known = ", ".join(self) or "none"
        raise AttributeError(f"{self.op} has no attribute {name!r}; attributes: {known}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (CallAttrs, (self.op, dict(self)))


class ConstantArray(np.ndarray):
    """The array of a constant: what is computed from it is a plain array again."""

    def __array_wrap__(self, made: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return made[()] if return_scalar else np.asarray(made)

    def __repr__(self) -> str:
        return repr(self.numpy())

    def numpy(self) -> np.ndarray:
        """The plain array; the memory is the same."""
        return self.view(np.ndarray)

    asnumpy = numpy


def memory_key(data: np.ndarray) -> tuple[Any, ...]:
    """What is equal for arrays that are the same memory, as long as both are alive."""
    shown = data.__array_interface__
    return (shown["data"][0], shown["typestr"], data.shape, data.strides)


_WORDS = {"Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "LT": "less",
          "LE": "less_equal", "GT": "greater", "GE": "greater_equal"}  # fmt: skip
"""Python's operators, and those of graphs that they are."""


class RelaxExpr(Arithmetic["RelaxExpr"], Node):
    """A value of a graph program. Has identity; `type` is what is known of it.

    +, -, *, /, ** and comparisons with < and > are calls of the operators of those names, in the
    words of the dialect that the operands belong to; == is identity.
    """

    __extra_slots__: ClassVar[tuple[str, ...]] = ()

    @property
    def type(self) -> Type:
        """What is known of the value."""
        raise AttributeError(f"a {type(self).__name__} has no type of its own")

    @property
    def checked_type(self) -> Type:
        """The type; an error where it is not known yet."""
        if isinstance(self.type, IncompleteType):
            raise TypeMismatch(
                f"the type of this {type(self).__name__} is not known yet; run InferType"
            )
        return self.type

    struct_info = checked_type

    def __str__(self) -> str:
        words = _words(self)
        return script(self) if words is None else words.text(self)

    def astext(self, show_meta_data: bool = True) -> str:
        """The text in the words of the dialect that the program is written in, else the script.

        show_meta_data  list the constants that the text refers to
        """
        words = _words(self)
        return script(self) if words is None else words.astext(self, show_meta_data)

    def __call__(self, *args: RelaxExpr) -> Call:
        """A call of this value, which is a function."""
        return call_function(self, args)

    def __getitem__(self, index: int) -> RelaxExpr:
        """An item of a value that is a tuple; IndexError behind the last one."""
        t = self.type
        if not isinstance(t, TupleType | IncompleteType):
            raise TypeMismatch(f"a {type(self).__name__} of type {t} has no items; tuples have")
        if isinstance(t, TupleType):
            if not -len(t.items) <= index < len(t.items):
                raise IndexError(f"item {index} of a tuple with {len(t.items)} items")
            index %= len(t.items)
        return self.items[index] if isinstance(self, Tuple) else TupleGetItem(self, index)

    @staticmethod
    def apply(op: str, a: Any, b: Any) -> Any:
        """What Python's operators mean."""
        return _combined(_WORDS[op], a, b) if op in _WORDS else NotImplemented

    def __pow__(self, other: Any) -> RelaxExpr:
        return _combined("power", self, other)

    def __neg__(self) -> RelaxExpr:
        return _combined("negative", self)


class Var(Named, RelaxExpr):
    """A parameter, or the variable of a Let."""

    name: str
    type: Type

    @property
    def type_annotation(self) -> Type:
        """Its type."""
        return self.type


class Constant(RelaxExpr):
    """An array known at compile time, held by reference. `name` tells where it comes from."""

    data: np.ndarray
    type: TensorType
    name: str = ""

    def __post_init__(self) -> None:
        self.data = self.data.view(ConstantArray)  # type: ignore[misc]


class GlobalVar(Named, RelaxExpr):
    """A function of the module, by name; a value too. The module knows its type."""

    name: str

    @property
    def type(self) -> Type:
        """Not known here."""
        return IncompleteType()

    def __str__(self) -> str:
        return f"@{self.name}"


VARIABLES["global"] = GlobalVar

CONSTANTS: list[Any] = []
"""The dialect that prints what holds constants alone, which belong to none; it enters itself."""


class Call(RelaxExpr):
    """An operator, a function of the module (`GlobalVar`) or a closure, applied to values.

    op     an operator; a GlobalVar; a Constructor of a data type; a Function, or a value that is
           one, called in place
    args   operands; None stands for an optional operand left out
    attrs  all attributes of the operator, in declared order
    type   the result's type: a TupleType where the operator has several results
    name   a hint for people: the node's name in the model
    nodes  of a call of a kernel: the names of all nodes of the model that it computes; groups that
           compute the same share one function, so its body names the nodes of one of them only
    """

    op: Op | GlobalVar | RelaxExpr
    args: tuple[RelaxExpr | None, ...]
    attrs: Mapping[str, Any]
    type: Type
    name: str = ""
    nodes: tuple[str, ...] = ()

    @property
    def callee(self) -> str:
        """The name of the operator or function; of a function called in place "function"."""
        return getattr(self.op, "name", "") or "function"


class Tuple(RelaxExpr):
    """Several values together."""

    items: tuple[RelaxExpr, ...]

    @property
    def type(self) -> Type:
        """The tuple of the items' types."""
        return TupleType(tuple([i.type for i in self.items]))

    @property
    def fields(self) -> tuple[RelaxExpr, ...]:
        """The values."""
        return self.items


class TupleGetItem(RelaxExpr):
    """One item of a tuple."""

    value: RelaxExpr
    index: int

    @property
    def type(self) -> Type:
        """The item's type."""
        t = self.value.type
        if isinstance(t, IncompleteType):
            return t
        assert isinstance(t, TupleType)
        return t.items[self.index]

    @property
    def tuple_value(self) -> RelaxExpr:
        """The tuple."""
        return self.value


class Function(Scripted, RelaxExpr):
    """A graph function; a value too: a closure over the variables around it.

    A Tuple as body returns several results.

    attrs  plain data, e.g. {"output_names": (...)}
    """

    params: tuple[Var, ...]
    body: RelaxExpr
    attrs: Mapping[str, Any] = {}

    @property
    def type(self) -> Type:
        """From the parameters' types to the body's."""
        known = tuple([p.type for p in self.params])
        return FuncType(known, self.body.type, tuple(self.attrs.get("type_params", ())))

    @property
    def ret_type(self) -> Type:
        """The type of the result."""
        return self.body.type

    def results(self) -> tuple[RelaxExpr, ...]:
        """The results one by one."""
        return self.body.items if isinstance(self.body, Tuple) else (self.body,)

    def with_attr(self, name: str, value: Any) -> Function:
        """A copy with one attribute set."""
        return self.replace(attrs={**self.attrs, name: value})

    def __str__(self) -> str:
        return RelaxExpr.__str__(self)


class If(RelaxExpr):
    """A branch on a scalar bool; the branches are functions without parameters of their own."""

    condition: RelaxExpr
    then_branch: Function
    else_branch: Function
    type: Type

    @property
    def cond(self) -> RelaxExpr:
        """The scalar bool that decides."""
        return self.condition

    @property
    def true_branch(self) -> RelaxExpr:
        """The value where it is true."""
        return self.then_branch.body

    @property
    def false_branch(self) -> RelaxExpr:
        """The value where it is false."""
        return self.else_branch.body


class Let(RelaxExpr):
    """A named value. A Function as `value` may call itself by the variable."""

    var: Var
    value: RelaxExpr
    body: RelaxExpr

    @property
    def type(self) -> Type:
        """The body's type."""
        node: RelaxExpr = self
        while isinstance(node, Let):
            node = node.body
        return node.type


def let_values(bindings: Sequence[tuple[Var, RelaxExpr]], body: RelaxExpr) -> RelaxExpr:
    """A value below others that have names; each may use those before it."""
    for var, value in reversed(bindings):
        body = Let(var, value, body)
    return body


class MatchCast(RelaxExpr):
    """The value itself, of which is claimed that it has a type; the type may introduce sizes.

    A size that nothing before mentions is what the value shows in its place; other extents are
    checked.
    """

    value: RelaxExpr
    type: Type


def dialect_of(e: Node) -> Any:
    """Whose words an expression is written in: the first found; None: the core's own.

    A dialect's operators have a `dialect`, and so have its variables.
    """
    for node in postorder(e):
        found = getattr(node.op if isinstance(node, Call) else node, "dialect", None)
        if found is not None:
            return found
    return None


def _words(e: RelaxExpr) -> Any:
    """The dialect that an expression is printed in; None: the script."""
    found = dialect_of(e)
    values = [n for n in postorder(e) if isinstance(n, RelaxExpr)]
    if found is None and all(isinstance(n, Constant | Tuple) for n in values):
        return next(iter(CONSTANTS), None)
    return found


def _nearest_dialect(e: Any) -> Any:
    """The dialect of the value itself, without looking far."""
    for _ in range(100):
        match e:
            case Call(op, args):
                found = getattr(op, "dialect", None)
                if found is not None or not args:
                    return found
                e = args[0]
            case TupleGetItem(value):
                e = value
            case Let(body=body):
                e = body
            case If(then_branch=branch):
                e = branch.body
            case _:
                break
    return getattr(e, "dialect", None)


def _combined(name: str, *operands: Any) -> RelaxExpr:
    """An operator of a name on values, and numbers beside them."""
    dialect = next((d for d in map(_nearest_dialect, operands) if d is not None), None)
    if dialect is not None:
        return dialect.make(name, *operands)  # type: ignore[no-any-return]
    known = next(o for o in operands if isinstance(o, RelaxExpr))
    kind = dt.to_numpy(known.type.dtype if isinstance(known.type, TensorType) else "float32")
    values = [o if isinstance(o, RelaxExpr) else constant(np.asarray(o, kind)) for o in operands]
    return call(name, *values)


def tensor_type_of(x: RelaxExpr | None) -> TensorType:
    """The type of a value that is one tensor."""
    assert x is not None
    t = x.type
    assert isinstance(t, TensorType)
    return t


def tensor_types(t: Type) -> list[TensorType]:
    """The types of a tensor, or of the tensors in a tuple, one by one."""
    items = t.items if isinstance(t, TupleType) else (t,)
    return [i for i in items if isinstance(i, TensorType)]


def constant(data: np.ndarray, name: str = "") -> Constant:
    """A constant from an array, which is referred to and not copied."""
    return Constant(data, tensor_type(data.shape, dt.from_numpy(data.dtype)), name)


def call(op: Op | str, *args: RelaxExpr | None, name: str = "", **attrs: Any) -> Call:
    """An operator applied to values; the result's type is inferred."""
    op = get_op(op) if isinstance(op, str) else op
    full = op.normalize(attrs)
    types = [None if a is None else a.type for a in args]
    return Call(op, args, CallAttrs(op.name, full), result_type(op, types, full), name)


def result_type(op: Op, types: Sequence[Type | None], attrs: Mapping[str, Any]) -> Type:
    """The type of a call of an operator; not known where an operand's is not."""
    if any(incomplete(t) for t in types):
        return IncompleteType()
    return op.result_type(types, attrs)


def incomplete(t: Type | None) -> bool:
    """Whether something of a type is not known yet."""
    if t is None or isinstance(t, TensorType):  # first: most values are
        return False
    return isinstance(t, IncompleteType) or any(map(incomplete, parts_of(t)))


def call_function(
    callee: GlobalVar | RelaxExpr, args: Sequence[RelaxExpr], type: Type | None = None
) -> Call:
    """A function of the module, or a closure, applied to values.

    type  the result's; None: what the closure's type says, else not known yet
    """
    if type is None:
        known = callee.type if isinstance(callee, RelaxExpr) else IncompleteType()
        type = known.ret_type if isinstance(known, FuncType) else IncompleteType()
    return Call(callee, tuple(args), CallAttrs("a function", {}), type)


INPLACE = "inplace"
"""The attribute of a call of a tensor program that writes to its operands: for each result the
operand whose memory it is, or -1."""


def call_tir(func: GlobalVar, args: Sequence[RelaxExpr], type: Type, name: str = "") -> Call:
    """A tensor program of the module applied to values; results have the given type."""
    return Call(func, tuple(args), {}, type, name)


def updating(where: str, c: Call, indices: Any) -> Call:
    """A call of a tensor program that writes to its operands; indices: see `given_indices`.

    Raises TypeMismatch, in which `where` says who asks, where they cannot be.
    """
    given = given_indices(indices)
    check_inplace(where, c, given)
    return c.replace(attrs={INPLACE: given})


def given_indices(indices: Any) -> tuple[Any, ...]:
    """What is given of INPLACE: an index for each result, or that of the only one."""
    return tuple(indices) if isinstance(indices, list | tuple) else (indices,)


def same_types(a: Type, b: Type) -> bool:
    """Whether two tensors have one shape and element type."""
    both = isinstance(a, TensorType) and isinstance(b, TensorType)
    return a == b or (both and (a.shape, a.dtype) == (b.shape, b.dtype))  # type: ignore[attr-defined]


def check_inplace(where: str, c: Call, indices: Sequence[object]) -> None:
    """Raise a TypeMismatch where the results of a call cannot be these operands.

    where    who says so; indices: of INPLACE
    """
    types, args = tensor_types(c.type), [a for a in c.args if a is not None]
    if len(indices) != len(types):
        raise TypeMismatch(f"{where}: {len(indices)} indices for {len(types)} results")
    for n, (i, t) in enumerate(zip(indices, types, strict=True)):
        if type(i) is not int or not -1 <= i < len(args):
            raise TypeMismatch(
                f"{where}: the index of result {n} is {i!r}; legal: -1, or an operand's from 0 to "
                f"{len(args) - 1}"
            )
        if i >= 0 and indices.count(i) > 1:
            raise TypeMismatch(f"{where}: operand {i} would be two results")
        if i >= 0 and not incomplete(args[i].type) and not same_types(args[i].type, t):
            raise TypeMismatch(
                f"{where}: operand {i} is {args[i].type}, and result {n}, which is to be its "
                f"memory, {t}"
            )


def renewed_call(node: Call, *args: RelaxExpr | None, **attrs: Any) -> Call:
    """A call on other operands, some attributes changed; its type is found anew."""
    if isinstance(node.op, Op):
        return call(node.op, *args, name=node.name, **{**node.attrs, **attrs})
    given = [a for a in args if a is not None]
    before = [a.type for a in node.args if a is not None]
    told = isinstance(node.op, GlobalVar) and not isinstance(node.attrs, CallAttrs)
    if told or [a.type for a in given] == before:  # a tensor program's results are what is told
        return node.replace(args=tuple(args))
    made = call_function(node.op, given)
    return made.replace(attrs=node.attrs, name=node.name)


def below(node: Node) -> list[Node]:
    """What a node is made of, without what has no values in it."""
    return [c for c in node.children() if not isinstance(c, _NO_VALUES)]


def values(root: RelaxExpr, parts: Callable[[Node], Iterable[Node]] = below) -> Iterator[RelaxExpr]:
    """Every value below `root` once, operands first; branches are not entered.

    Names of the module's functions are none.

    parts  what has to come before a node
    """
    start: tuple[Node, ...] = (root,)
    for node in ordered(start, parts):
        if isinstance(node, RelaxExpr) and not isinstance(node, GlobalVar):
            yield node


_NO_VALUES = (Type, Expr)
