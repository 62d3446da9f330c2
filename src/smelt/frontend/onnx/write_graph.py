"""A graph program as nodes of ONNX: what writers of operators build with.

    @written("log2")
    def log2(w: Writer, x: RelaxExpr) -> RelaxExpr:
        return call("log", x) * (1 / math.log(2))

A writer takes the operands and, as keywords, the attributes of a call. It gives the names of the
values that hold the results (`w.emit`), other operators that compute the same, or None: it has no
form for this call, and the next writer of the operator is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from smelt.ir import dtype as dt
from smelt.ir.errors import Unsupported
from smelt.ir.expr import Expr, IntImm
from smelt.ir.node import ordered, postorder
from smelt.ir.types import TensorType, TupleType
from smelt.relax.graph_op import GraphOp
from smelt.relax.host_ops import HostOp
from smelt.relax.nodes import (
    Call,
    Constant,
    Function,
    GlobalVar,
    If,
    Let,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
    below,
    call,
    constant,
    memory_key,
    tensor_types,
)
from smelt.topi.registry import Op

from .write_sizes import Sizes

_LOOP = "a function that calls itself, or is a value: a loop that only the run counts"

Results: TypeAlias = Any
"""The name of a value, or of several in a tuple."""

Form: TypeAlias = Callable[..., Any]

WRITERS: dict[str, list[Form]] = {}
"""The writers of each operator in the order in which they are asked."""

LATER: dict[str, list[Form]] = {}
"""Those asked behind the operator of ONNX that is the same one."""


def _adding(table: dict[str, list[Form]]) -> Callable[..., Callable[[Form], Form]]:
    def written(*ops: str) -> Callable[[Form], Form]:
        def enter(fn: Form) -> Form:
            for op in ops:
                table.setdefault(op, []).append(fn)
            return fn

        return enter

    return written


written = _adding(WRITERS)
otherwise = _adding(LATER)
"""`@otherwise("gelu")`: how it is written where ONNX's operator of the same meaning will not do."""

SAME: dict[str, Form] = {}
"""Those of operators that are ONNX's own."""


class Names:
    """Names that are given out once."""

    def __init__(self, inputs: Iterable[str] = (), outputs: Iterable[str] = ()) -> None:
        """Those of inputs and results are taken first."""
        self._taken: dict[str, int] = {}
        self.inputs = [self.unique(n) for n in inputs]
        self.outputs = [self.unique(n) for n in outputs]

    def unique(self, name: str) -> str:
        """The name, or with a number behind it."""
        count = self._taken.get(name)
        if count is None:
            self._taken[name] = 0
            return name
        while True:
            count += 1
            made = f"{name}_{count}"
            if made not in self._taken:
                self._taken[name] = count
                self._taken[made] = 0
                return made


@dataclass
class Block:
    """The nodes of a graph, and the values that are its results."""

    nodes: list[Node] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    types: list[TensorType] = field(default_factory=list)


@dataclass
class Node:
    """A node whose values bear working names; label: what the model called it; domain: whose
    operator it is, "" for ONNX's own."""

    op: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any]
    label: str
    domain: str = ""

    def read(self) -> list[str]:
        """The values that it needs, those in its branches too."""
        inner = [b for b in self.attrs.values() if isinstance(b, Block)]
        found = [n for b in inner for node in b.nodes for n in node.read()]
        return [*self.inputs, *found, *[r for b in inner for r in b.results]]


def element_number(dtype: str) -> int:
    """ONNX's number for an element type."""
    if dtype == "string":
        return int(onnx.TensorProto.STRING)
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dt.to_numpy(dtype))))


def onnx_type(dtype: str) -> str:
    """An element type as ONNX's definitions write it."""
    known = {"float32": "float", "float64": "double", "float4_e2m1fn": "float4e2m1",
             "float8_e8m0fnu": "float8e8m0"}  # fmt: skip
    return known.get(dtype, dtype.replace("float8_", "float8"))


class Writer(Sizes):
    """The graph that is being written.

    made      the names of what is written already
    label     the name of the call that is being written
    current   that call; None where it is none of the program's own
    users     what each value of the program is part of
    final     the names that values bear in the model, by working name
    problems  what has no form: the operator, why, and the names of the nodes
    """

    def __init__(self, opset: int, body: RelaxExpr) -> None:
        """Start with no nodes; opset: of the operators."""
        super().__init__()
        self.opset, self.label = opset, ""
        self.made: dict[RelaxExpr, Results] = {}
        self.block = Block()
        self.constants: dict[str, np.ndarray] = {}
        self.labels: dict[str, str] = {}
        self.final: dict[str, str] = {}
        self.node_names = Names()
        self.problems: dict[tuple[str, str], list[str]] = {}
        self._memory: dict[Any, str] = {}
        self._count = 0
        self._schemas: dict[str, Any] = {}
        self.current: Call | None = None
        self.users: dict[RelaxExpr, list[RelaxExpr]] = {body: [body]}
        for n in postorder(body):
            for child in below(n) if isinstance(n, RelaxExpr) else ():
                if isinstance(child, RelaxExpr):
                    self.users.setdefault(child, []).append(n)  # type: ignore[arg-type]

    def used_once(self, x: RelaxExpr) -> bool:
        """Whether one value alone is made of another."""
        return len(self.users.get(x, ())) == 1

    def only_cut(self, x: RelaxExpr) -> bool:
        """Whether only the begin of a value is of interest, all that there is in it."""
        users = self.users.get(x)
        return bool(users) and all(
            isinstance(u, Call)
            and u.args[0] is x
            and (u.callee == "strided_slice" or (u.callee == "vm.depend" and self.only_cut(u)))
            for u in users or ()
        )

    # -------------------------------------------------------------------------------- nodes

    def fresh(self) -> str:
        """A working name."""
        self._count += 1
        return f"%{self._count}"

    def schema(self, op: str) -> Any:
        """ONNX's definition of an operator; Unsupported where the operator set has none."""
        if op not in self._schemas:
            try:
                found = onnx.defs.get_schema(op, self.opset, "")
            except onnx.defs.SchemaError:
                since = onnx.defs.get_schema(op).since_version
                raise Unsupported(f"{op} comes with operator set {since}") from None
            self._schemas[op] = found
        return self._schemas[op]

    def emit(self, op: str, *operands: Any, results: int = 1, **attrs: Any) -> Results:
        """A node; operands: values, names, arrays, or None. An attribute of None is left out.

        Gives the name of the result, or of several in a tuple.
        """
        known = self.schema(op).attributes
        given = {n: v for n, v in attrs.items() if v is not None}
        unknown = [n for n in given if n not in known]
        if unknown:
            raise Unsupported(f"{op} of operator set {self.opset} has no attribute {unknown[0]}")
        self._check_types(op, operands)
        inputs = [self.operand(o) for o in operands]
        while inputs and not inputs[-1]:
            inputs.pop()
        outputs = [self.fresh() for _ in range(results)]
        self.block.nodes.append(Node(op, inputs, outputs, given, self.label))
        return outputs[0] if results == 1 else tuple(outputs)

    def emit_of(self, domain: str, op: str, *operands: Any, **attrs: Any) -> str:
        """A node of another domain's operator, which is taken as it is; the name of its result."""
        inputs, made = [self.operand(o) for o in operands], self.fresh()
        self.block.nodes.append(Node(op, inputs, [made], attrs, self.label, domain))
        return made

    def _check_types(self, op: str, operands: Sequence[Any]) -> None:
        formal = self.schema(op).inputs
        for k, o in enumerate(operands):
            if isinstance(o, RelaxExpr) and isinstance(o.type, TensorType):
                self.check_type(op, formal[min(k, len(formal) - 1)], o.type.dtype)

    def check_type(self, op: str, formal: Any, dtype: str) -> None:
        """Unsupported where an operand or a result of an operator may not have an element type."""
        if f"tensor({onnx_type(dtype)})" not in formal.types:
            raise Unsupported(f"{op} of operator set {self.opset} is not defined for {dtype}")

    def operand(self, o: Any) -> str:
        """The name of an operand of a node."""
        if o is None:
            return ""
        if isinstance(o, RelaxExpr):
            return self.write(o)  # type: ignore[no-any-return]
        return o if isinstance(o, str) else self.array(np.asarray(o))

    def array(self, data: np.ndarray, label: str = "") -> str:
        """An initializer; the same memory is one initializer, and so are few equal elements."""
        data = data.view(np.ndarray)
        key: Any = memory_key(data)
        if data.size <= 64 and data.dtype != object and not label:
            key = (data.tobytes(), str(data.dtype), data.shape)
        found = self._memory.get(key)
        if found is None:
            found = self._memory[key] = self.fresh()
            self.constants[found] = data
            self.labels[found] = label
        return found

    def number_of(self, dtype: str) -> int:
        """ONNX's number for an element type."""
        return element_number(dtype)

    def number(self, value: Any, like: RelaxExpr | str) -> str:
        """A number without dimensions, of an element type or of that of a value."""
        dtype = like if isinstance(like, str) else dtype_of(like)
        return self.array(np.asarray(value, dt.to_numpy(dtype)))

    def as_type(self, x: Any, dtype: str) -> str:
        """The value cast; x: an operand."""
        return self.emit("Cast", x, to=element_number(dtype))  # type: ignore[no-any-return]

    # ------------------------------------------------------------------------------- values

    def write(self, e: RelaxExpr) -> Results:
        """The name of a value, or of several; it is written where it is not yet."""
        if e not in self.made:
            for v in ordered((e,), self._parts):
                if v not in self.made:
                    self.made[v] = self._value(v)
        return self.made[e]

    def write_all(self, e: RelaxExpr) -> Results:
        """The same, noting what has no form instead of raising it."""
        for v in ordered((e,), self._parts):
            if v in self.made:
                continue
            try:
                self.made[v] = self._value(v)
            except Unsupported as error:
                name = v.callee if isinstance(v, Call) else "loop"
                at = self.problems.setdefault((name, str(error)), [])
                at.append(getattr(v, "name", ""))
                count = len(v.type.items) if isinstance(v.type, TupleType) else 0
                self.made[v] = ("",) * count if count else ""
        return self.made[e]

    def _parts(self, e: RelaxExpr) -> list[RelaxExpr]:
        if e in self.made:
            return []
        match e:
            case If(condition):
                return [condition]
            case Function() | GlobalVar() | Let():
                return []
            case Call(args=args):
                return [a for a in args if a is not None]
        return [n for n in below(e) if isinstance(n, RelaxExpr)]

    def _value(self, e: RelaxExpr) -> Results:
        match e:
            case Call():
                return self._call(e)
            case Constant(data):
                return self.array(data, e.name)
            case Tuple(items):
                return tuple([self.made[i] for i in items])
            case TupleGetItem(value, index):
                return self.made[value][index]
            case If():
                return self._branch(e)
            case Var(name):
                raise Unsupported(f"the variable {name}, which is no parameter")
            case Function() | GlobalVar():
                return ""  # whoever calls it says that
        raise Unsupported(_LOOP)

    def _call(self, c: Call) -> Results:
        """A call by the first of its operator's writers that has a form for it."""
        if not isinstance(c.op, Op):
            raise Unsupported(_LOOP)
        forms = forms_of(c.callee)
        if isinstance(c.op, GraphOp) and not isinstance(c.op, HostOp):
            expand = c.op.expand
            forms.append(lambda w, *args, **attrs: expand(c))
        outer = self.label, self.current
        self.label, self.current = c.name or self.label, c
        try:
            return self.first_of(forms, c.args, c.attrs)
        finally:
            self.label, self.current = outer

    def first_of(
        self, forms: Sequence[Form], operands: Sequence[Any], attrs: Mapping[str, Any]
    ) -> Results:
        """What the first form makes that there is; Unsupported says why the first one asked not."""
        reason = None
        for form in forms:
            try:
                made = form(self, *operands, **attrs)
                if made is not None:
                    return self.write(made) if isinstance(made, RelaxExpr) else made
            except Unsupported as error:
                reason = reason or error
        raise reason or Unsupported("ONNX has no such operator")

    def emit_as(self, c: Call, form: Form, *operands: Any, **attrs: Any) -> Results:
        """What a writer makes of another call, under the name of that one."""
        outer, self.label = self.label, c.name or self.label
        try:
            return form(self, *operands, **attrs)
        finally:
            self.label = outer

    def _branch(self, e: If) -> Results:
        """Both branches as graphs of their own, which see the values around them."""
        attrs = {}
        outer = self.block, self.made, self.sizes_made
        for name, f in (("then_branch", e.then_branch), ("else_branch", e.else_branch)):
            self.block = Block()
            self.made, self.sizes_made = dict(outer[1]), dict(outer[2])
            self.find_sizes(f.body)
            found = self.write_all(f.body)
            names = found if isinstance(found, tuple) else (found,)
            self.block.results = [self.emit("Identity", n) for n in names]  # values of its own
            self.block.types = tensor_types(f.body.type)
            attrs[name] = self.block
            self.block, self.made, self.sizes_made = outer
        count = len(e.type.items) if isinstance(e.type, TupleType) else 1
        return self.emit("If", self.made[e.condition], results=count, **attrs)


def forms_of(op: str) -> list[Form]:
    """The writers of an operator in order."""
    return [*WRITERS.get(op, ()), *([SAME[op]] if op in SAME else []), *LATER.get(op, ())]


def type_of(x: RelaxExpr) -> TensorType:
    """The type of a value that is one tensor."""
    assert isinstance(x.type, TensorType)
    return x.type


def dtype_of(x: RelaxExpr) -> str:
    """The element type."""
    return type_of(x).dtype


def shape_of(x: RelaxExpr) -> tuple[Any, ...]:
    """The extents, numbers where they are known."""
    return plain(type_of(x).shape)


def plain(dims: Sequence[int | Expr]) -> tuple[Any, ...]:
    """Extents, numbers where they are known."""
    return tuple([e.value if isinstance(e, IntImm) else e for e in dims])


def known(x: RelaxExpr | None) -> np.ndarray | None:
    """The array of a constant; None: it is none."""
    return x.data.view(np.ndarray) if isinstance(x, Constant) else None


def at_once(
    x: RelaxExpr, fn: Callable[[np.ndarray], np.ndarray], op: str, **attrs: Any
) -> RelaxExpr:
    """What an operator makes of a value; of a constant, the constant, by a function of arrays."""
    data = known(x)
    return call(op, x, **attrs) if data is None else constant(fn(data), getattr(x, "name", ""))
