"""No walk forgets a field: a marker is planted in each field of each class of node in turn.

The oracle opens every field there is (`__match_args__`), so that a class or a field that is new
fails here until it has a sample and every walk knows it.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from smelt import te
from smelt.artifact.call_tir import program_for
from smelt.ir import expr as ir
from smelt.ir import structural_equal, structural_hash
from smelt.ir.expr import Expr, Var, const
from smelt.ir.node import Node, postorder
from smelt.ir.types import tensor_type
from smelt.ir.walk import free_vars, substitute
from smelt.relax import nodes as relax
from smelt.relax.nodes import GlobalVar, call_tir
from smelt.tir import nodes as tir
from smelt.tir.interpret import interpret
from smelt.tir.nodes import Buffer, Stmt
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.rewrite import Rewriter, loads, renamed, replace_buffers, substitute_stmt
from smelt.tir.schedule import Schedule
from smelt.tir.verify import verify

H, J, K, X, P = Var("i"), Var("j"), Var("k"), Var("x", "float32"), Var("p", "bool")
MARK = Var("marker")
SPOT = Buffer("spot", (const(9), const(9)), scope="shared")
SPARE = Buffer("spare", SPOT.shape)
A = Buffer("A", (const(9), const(9)))
OWN = Buffer("own", (const(4), const(5)), "float32", "local", (const(7), const(1)), (1,))
TABLE = Buffer("table", (const(9), const(9)))
DATA = np.arange(81, dtype="float32").reshape(9, 9)
LANES = te.placeholder((9,), name="T").replace(strides=(const(1),))
NOTES = {"note": 1}


def _at(v: Var) -> tir.Range:
    return tir.Range(const(0), v + 3)


def _iter(name: str, kind: str = "spatial") -> tir.IterVar:
    return tir.IterVar(Var(name), tir.Range(const(1), const(8)), kind)


def _store(at: Expr = H, value: Expr = X) -> Stmt:
    return tir.BufferStore(A, value, (at, J))


_X, _Y = Var("x0", "float32"), Var("y0", "float32")
SUM = tir.Combiner("sum", (_X,), (_Y,), (_X + _Y,), (const(0.0),))
AXIS = _iter("r", "reduce")
V = _iter("v")
BLOCK = tir.Block(
    "B", (V,), (tir.BufferRegion(A, (_at(H), _at(J))),), (tir.BufferRegion(A, (_at(K), _at(J))),),
    _store(V.var), _store(V.var, const(0.0)), (OWN,), NOTES,
)  # fmt: skip
BINARY = [c for c in vars(ir).values() if inspect.isclass(c) and issubclass(c, ir.Binary)]
ABSTRACT = {Expr, ir.Typed, ir.Operation, ir.Binary, ir.Compare, Stmt}
SAMPLES: tuple[Node, ...] = (
    *[c(H, J) for c in BINARY if c not in (*ABSTRACT, ir.And, ir.Or, ir.Div)],
    ir.And(P, ir.LT(H, J)), ir.Or(P, ir.LT(H, J)), ir.Div(X, X + 1.0), ir.Not(P),
    Var("n"), ir.IntImm("int32", 3), ir.FloatImm("float64", 1.5), ir.StringImm("text"),
    ir.Select(P, H, J), ir.Cast("int32", H), ir.Call("float32", "pow", (X, X + 1.0)),
    ir.Ramp(H, const(2), 4), ir.Broadcast(H, 4),
    ir.Shuffle(ir.Broadcast(H, 4), ir.Ramp(J, const(1), 4), (0, 5, 2, 3)),
    tir.BufferLoad(A, (H, J)), tir.Reduce(SUM, (X + 1.0,), (AXIS,), P, 0, (X,)),
    tir.Range(H, J), OWN, LANES, SUM, AXIS, tir.BufferRegion(A, (_at(H), _at(J))),
    tir.BufferStore(A, X, (H, J)), tir.Evaluate(H), tir.Seq((_store(), _store(J))),
    tir.For(Var("l"), const(1), const(4), _store(), "serial", None, NOTES),
    tir.For(Var("t"), const(0), const(4), _store(), "thread_binding", "threadIdx.x"),
    tir.While(P, _store()), tir.IfThenElse(P, _store(), _store(J)),
    tir.LetStmt(Var("y"), H, _store()), tir.AssertStmt(P, "message"),
    tir.Allocate(OWN, _store(), NOTES), tir.AllocateConst(TABLE, DATA, _store()),
    BLOCK, tir.BlockRealize((H,), P, BLOCK),
    tir.PrimFunc((A, H, J, K, X, P), _store(), {"name": "f", "note": 1}),
)  # fmt: skip
OTHER: dict[str, dict[Any, str | None]] = {
    "type": {"int32": "int16", "float64": "float16", "float32": "float64", "int64": "int32"},
    "op": {"pow": "atan2"},
    "kind": {"serial": "parallel", "spatial": "reduce", "reduce": "opaque", "thread_binding": None},
    "scope": {"local": "shared", "global": "local"},
    "thread": {"threadIdx.x": "threadIdx.y"},
}
"""Texts that mean something, and what else may stand there."""
NAMES = {(c, "name") for c in (Var, Buffer, te.Tensor)}
"""Texts that do not count."""


def _classes(of: type[Node]) -> Iterator[type[Node]]:
    for c in of.__subclasses__():
        if c.__module__.startswith(("smelt.ir.expr", "smelt.tir", "smelt.te")):
            yield c
        yield from _classes(c)


def _annotation(cls: type, field: str) -> str:
    own = [inspect.get_annotations(c) for c in cls.__mro__ if isinstance(c, type(Node))]
    return next(str(a[field]) for a in own if field in a)


def _marked(value: Any, spot: bool) -> Any:
    """A field's value with the marker in its first part that can hold it; None: there is none."""
    match value:
        case Buffer():
            return (SPOT if spot else value.replace(shape=(MARK + 1, *value.shape[1:]))) if (
                spot or value is OWN) else None  # fmt: skip
        case tir.Range():
            return None if spot else value.replace(extent=MARK + 1)
        case tir.IterVar():
            return None if spot else value.replace(dom=_marked(value.dom, spot))
        case tir.BufferRegion():
            return value.replace(buffer=SPOT) if spot else value.replace(region=(
                value.region[0], _marked(value.region[1], spot)))  # fmt: skip
        case tir.Combiner():
            return None if spot else value.replace(result=(value.result[0] + _as(MARK + 1, X),))
        case tir.Block():
            return value.replace(body=_marked(value.body, spot))
        case Stmt():
            return tir.seq(
                value, tir.BufferStore(SPOT, X, (H, J)) if spot else tir.Evaluate(MARK + 1)
            )
        case Expr():
            return _as(SPOT[H, J] if spot else MARK + 1, value)
        case Mapping():
            return None if spot else {**value, "deep": [1, {"in": (2, MARK + 1)}]}
        case tuple() if value:
            new = _marked(value[-1], spot)
            return None if new is None else (*value[:-1], new)
    return None


def _as(e: Expr, like: Expr) -> Expr:
    """An expression of the type of another one."""
    if like.dtype.startswith("int64x"):
        return ir.Broadcast(_as(e, H), 4)
    return e > 0 if like.dtype == "bool" else ir.cast(like.dtype, e)


def _other(cls: type, field: str, value: Any) -> Any:
    """Another value of plain data; None where the field has none."""
    match value:
        case str() if field in OTHER and value in OTHER[field]:
            return OTHER[field][value]
        case str():
            return value + "_too"
        case int() | float():
            return None if cls is tir.Reduce else value * 2
        case tuple() if value and isinstance(value[0], int):
            return (*value[:-1], value[-1] + 1)
        case Mapping():
            return {**value, "more": 1}
    return None


def _planted(spot: bool) -> Iterator[Any]:
    for node in SAMPLES:
        for f in node.__match_args__:
            if f in ("op", "attrs") or (isinstance(node, tir.PrimFunc) and f == "params"):
                continue  # tensors' operations are no nodes; attributes of programs are plain data
            binds = isinstance(node, tir.For | tir.LetStmt | tir.IterVar) and f == "var"
            if binds or f in ("lhs", "rhs"):
                continue
            new = _marked(getattr(node, f), spot)
            if new is not None:
                yield pytest.param(node, f, node.replace(**{f: new}), id=f"{_name(node)}.{f}")


def _name(node: Node) -> str:
    return type(node).__name__


def everything(value: Any) -> Iterator[Node]:
    """All nodes in all fields, whatever any walk says."""
    todo, seen = [value], set[int]()
    while todo:
        x = todo.pop()
        if isinstance(x, Node) and id(x) not in seen:
            seen.add(id(x))
            yield x
            todo += [getattr(x, f) for f in x.__match_args__]
        elif isinstance(x, Mapping):
            todo += x.values()
        elif isinstance(x, tuple | list):
            todo += x


def _inside(node: Node, marker: Node) -> bool:
    return any(x is marker for x in everything(node))


def _rewritten(node: Node, by: Rewriter) -> Node:
    """A node where a program has it: alone, or in the statement that it is a part of."""
    match node:
        case tir.PrimFunc():
            return by.program(node)
        case Stmt():
            return by.stmt(node)
        case Buffer():
            return by.stmt(tir.Allocate(node, _store()))
        case tir.BufferRegion():
            return by.region(node)
    return by.child(node)


# ------------------------------------------------------------------------------------- the laws


def test_every_class_has_a_sample() -> None:
    assert {type(s) for s in SAMPLES} | ABSTRACT == {
        c for c in _classes(Node) if c.__module__.startswith(("smelt.ir", "smelt.tir", "smelt.te."))
    }


def test_every_field_that_may_hold_an_expression_holds_a_marker_in_turn() -> None:
    plain = {"str", "int", "float", "str | None", "tuple[int, ...]"}
    found = {(type(p.values[0]), p.values[1]) for p in _planted(False)}
    left = {
        f"{_name(s)}.{f}"
        for s in SAMPLES
        for f in s.__match_args__
        if (type(s), f) not in found and _annotation(type(s), f) not in plain
    }
    assert left == {
        "For.var", "LetStmt.var", "IterVar.var", "Combiner.lhs", "Combiner.rhs",  # bound here
        "BufferLoad.buffer", "BufferStore.buffer", "BufferRegion.buffer",  # bound elsewhere
        "PrimFunc.params", "PrimFunc.attrs", "Tensor.op",
        "AllocateConst.buffer", "AllocateConst.data",  # of a known shape, and numbers
    }  # fmt: skip


@pytest.mark.parametrize(("node", "field", "marked"), [*_planted(False), *_planted(True)])
def test_children_find_it(node: Node, field: str, marked: Node) -> None:
    marker = MARK if _inside(marked, MARK) else SPOT
    assert _inside(marked, marker)
    assert not _inside(node, marker)
    assert any(x is marker for x in postorder(marked))
    if marker is MARK:
        assert MARK in free_vars(marked)
    swap: dict[Any, Node] = {MARK: H, SPOT: SPARE}

    def without(x: Any) -> Any:
        return swap[x] if isinstance(x, Var | Buffer) and x in swap else x.with_children(without)

    assert not _inside(without(marked), marker)
    assert node.with_children(lambda c: c) is node


@pytest.mark.parametrize(("node", "field", "marked"), list(_planted(False)))
def test_substitution_replaces_it(node: Node, field: str, marked: Node) -> None:
    new = _rewritten(marked, Rewriter({MARK: const(5)}))
    assert type(new) is type(marked) or isinstance(marked, Buffer | Expr)
    assert not _inside(new, MARK)
    assert _rewritten(node, Rewriter({MARK: const(5)})) is node or isinstance(node, Buffer)
    if isinstance(marked, Stmt):
        assert not _inside(substitute_stmt(marked, {MARK: const(5)}), MARK)
    if isinstance(marked, Expr):
        assert not _inside(substitute(marked, {MARK: const(5)}), MARK)


def test_substitution_keeps_what_a_reduction_binds_and_the_axes_that_do_not_change() -> None:
    loop, size = _iter("r", "reduce"), Var("size")
    axis = loop.replace(dom=tir.Range(const(0), size))
    total = tir.Reduce(SUM, (X + ir.cast("float32", axis.var),), (axis, loop), P)
    new = substitute(total, {size: const(7), axis.var: J})
    assert isinstance(new, tir.Reduce)
    assert new.axis[0].var is axis.var
    assert new.axis[0].dom.extent is const(7)
    assert new.axis[1] is loop
    assert new.combiner is SUM
    assert substitute(new, {size: const(7)}) is new


@pytest.mark.parametrize(("node", "field", "marked"), list(_planted(True)))
def test_buffers_are_exchanged(node: Node, field: str, marked: Node) -> None:
    new = _rewritten(marked, Rewriter(buffers={SPOT: SPARE}))
    assert not _inside(new, SPOT)
    assert _inside(new, SPARE)
    if isinstance(marked, Stmt):
        assert not _inside(replace_buffers(marked, {SPOT: SPARE}), SPOT)


@pytest.mark.parametrize("node", [s for s in SAMPLES if isinstance(s, Stmt)], ids=_name)
def test_copies_have_names_of_their_own(node: Stmt) -> None:
    new = renamed(node)
    assert structural_equal(new, node)
    bound = {
        x
        for s in everything(node)
        for x in (
            getattr(s, "var", None),
            *getattr(s, "alloc_buffers", ()),
            *([s.buffer] if isinstance(s, tir.Allocate | tir.AllocateConst) else ()),
        )
        if x is not None
    }
    assert not [x for x in everything(new) if x in bound]


@pytest.mark.parametrize(("node", "field", "marked"), [*_planted(False), *_planted(True)])
def test_equality_and_hash_see_it(node: Node, field: str, marked: Node) -> None:
    assert structural_equal(marked, marked)
    assert not structural_equal(node, marked)
    assert structural_hash(node) != structural_hash(marked)


def _plain() -> Iterator[Any]:
    for node in SAMPLES:
        for f in node.__match_args__:
            new = _other(type(node), f, getattr(node, f))
            if new is not None and (type(node), f) not in NAMES:
                yield pytest.param(node, node.replace(**{f: new}), id=f"{_name(node)}.{f}")


@pytest.mark.parametrize(("node", "other"), list(_plain()))
def test_plain_data_count(node: Node, other: Node) -> None:
    one, two = _defined(node), _defined(other)
    assert structural_equal(one, one)
    assert not structural_equal(one, two)
    assert structural_hash(one) != structural_hash(two)
    if not isinstance(node, te.Tensor):
        assert structural_equal(pickle.loads(pickle.dumps(other)), other, map_free_vars=True)


def _defined(node: Node) -> Node:
    """A variable or buffer where it is defined: elsewhere its identity counts."""
    return tir.PrimFunc((node,), _store()) if isinstance(node, Var | Buffer) else node


@pytest.mark.parametrize(("node", "field", "marked"), [*_planted(False), *_planted(True)])
def test_pickles_keep_it(node: Node, field: str, marked: Node) -> None:
    if not isinstance(marked, te.Tensor):
        again = pickle.loads(pickle.dumps(_defined(marked)))
        assert structural_equal(again, _defined(marked), map_free_vars=True)
        assert not structural_equal(again, _defined(node), map_free_vars=True)


# ----------------------------------------------------------------------------------------- text


def _program(node: Node) -> tir.PrimFunc | None:
    """A program with a node in it, everything that it does not bind a parameter."""
    match node:
        case tir.PrimFunc():
            return node.replace(params=(*node.params, SPOT, MARK))
        case Buffer() if type(node) is Buffer:
            body: Stmt = tir.Allocate(node, _store())
        case tir.Block():
            body = tir.BlockRealize((H,), const(True), node)
        case tir.IterVar():
            body = tir.BlockRealize((H,), const(True), tir.Block("B", (node,), (), (), _store()))
        case tir.BufferRegion():
            body = tir.BlockRealize((), const(True), tir.Block("B", (), (node,), (node,), _store()))
        case tir.Range():
            return _program(tir.BufferRegion(A, (node, _at(J))))
        case Stmt():
            body = node
        case Expr() if not isinstance(node, tir.Reduce):
            body = tir.Evaluate(node)
        case _:
            return None
    return tir.PrimFunc((A, SPOT, H, J, K, X, P, MARK), body, {"name": "main"})


def _texts() -> Iterator[Any]:
    marked = [(p.values[0], p.values[2], p.id) for p in [*_planted(False), *_planted(True)]]
    plain = [(*p.values, p.id) for p in _plain()]
    for node, other, name in (*marked, *plain):
        if _program(node) is not None and not isinstance(node, Var):
            yield pytest.param(node, other, id=name)


@pytest.mark.parametrize(("node", "other"), list(_texts()))
def test_the_text_has_it(node: Node, other: Node) -> None:
    one, two = _program(node), _program(other)
    assert one is not None
    assert two is not None
    assert script(one) != script(two)
    for f in (one, two):
        assert structural_equal(parse(script(f)), f), script(f)


@pytest.mark.parametrize("field", ["sources", "condition", "init"])
def test_the_text_of_a_reduction_has_its(field: str) -> None:
    node = next(s for s in SAMPLES if isinstance(s, tir.Reduce))
    assert script(node) == "T.reduce('sum', x + 1.0, [r], where=p, init=x)"
    new = node.replace(**{field: _marked(getattr(node, field), False)})
    assert script(new) != script(node)


def test_reductions_are_equal_up_to_the_names_that_they_bind() -> None:
    a = te.placeholder((4, 8), name="a")

    def total(name: str, end: int = 8) -> Expr:
        k, sum_of = te.reduce_axis((0, end), name), te.comm_reducer(lambda x, y: x + y, _zero)
        made: Expr = sum_of(a[H, k], axis=k)
        return made

    assert structural_equal(total("k"), total("r"))
    assert structural_hash(total("k")) == structural_hash(total("r"))
    assert not structural_equal(total("k"), total("k", 7))


def _zero(dtype: str) -> Expr:
    return const(0, dtype)


# -------------------------------------------------------------------------------------- programs

NESTED = parse("""
@T.prim_func
def f(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
    for i in range(8):
        with T.block("outer"):
            v = T.axis.spatial(8, i)
            t = T.alloc_buffer((v + 1, 16))
            for j in T.serial(v + 1, annotations={"size": v + 1}):
                with T.block("B"):
                    w = T.axis.spatial(v + 1, j)
                    t[w, 0] = A[v, w]
            for j in range(v + 1):
                with T.block("C"):
                    T.block_attr({"upto": [v + 1]})
                    w = T.axis.spatial(v + 1, j)
                    C[v, w] = t[w, 0]
""")
"""Domains, a shape and annotations in terms of the variable of a block around."""


def test_a_schedule_takes_domains_shapes_and_annotations_along() -> None:
    verify(NESTED)
    s = Schedule(NESTED)
    s.transform_block_layout("outer", lambda i: (i,))
    verify(s.func)
    text = script(s.func)
    assert "v + 1" not in text
    for part in ("alloc_buffer((v0 + 1, 16)", '"size": v0 + 1', '"upto": [v0 + 1]',
                 "spatial(v0 + 1, j)", "spatial(v0 + 1, j_1)"):  # fmt: skip
        assert part in text


def test_a_buffer_that_is_allocated_twice_is_two_in_a_copy() -> None:
    t, out = Buffer("t", (const(1),)), Buffer("out", (const(2),))

    def use(k: int) -> Stmt:
        store = tir.BufferStore(out, t[0], (const(k),))
        return tir.Allocate(t, tir.seq(tir.BufferStore(t, const(1.0), (const(0),)), store))

    new = renamed(tir.seq(use(0), use(1)))
    assert isinstance(new, tir.Seq)
    for part in new.stmts:
        assert isinstance(part, tir.Allocate)
        assert [x.buffer for x in loads(part)] == [part.buffer]


def test_a_called_program_takes_its_sizes_into_what_it_allocates() -> None:
    text = """
@T.prim_func
def square(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    n = T.int64()
    t = T.alloc_buffer((n, n))
    for i, j in T.grid(n, n):
        with T.block("t"):
            v, w = T.axis.remap("SS", [i, j])
            t[v, w] = A[v] * A[w]
    for i in range(n):
        with T.block("B"):
            v = T.axis.spatial(n, i)
            B[v] = t[v, v]
"""
    size = tensor_type((Var("m"),))
    call = call_tir(GlobalVar("square"), [relax.Var("x", size)], size)
    made = program_for(parse(text), call)
    verify(made)
    out = np.zeros(3, "float32")
    interpret(made, np.arange(3, dtype="float32"), out, *([3] if len(made.params) > 2 else []))
    assert out.tolist() == [0, 1, 4]
