"""How If, Loop and Scan are drawn, with graphs of their own inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .draw import EPSILON, Draw, Out, Size, Skip, Value, count
from .table import TABLE, WEIGHTS, draws

__all__: list[str] = []

INNER = {
    "Add", "Sub", "Mul", "Neg", "Abs", "Relu", "Tanh", "Sigmoid", "Transpose", "Where", "Cast",
    "Max", "Concat", "Slice", "ReduceSum", "ReduceMax", "Softmax", "MatMul", "Reshape", "Clip",
    "Less", "Equal", "Gather", "Identity", "Unsqueeze", "Squeeze", "If",
}  # fmt: skip


def nodes_inside(d: Draw, wanted: int) -> None:
    """Some nodes in an inner graph."""
    names = [n for n in TABLE if n in INNER]
    for _ in range(20 * wanted):
        if not wanted:
            return
        op, mark = d.rng.choices(names, [WEIGHTS[n] for n in names])[0], d.mark()
        before = len(d.graph.nodes)
        try:
            TABLE[op](d, op)
        except Skip:
            d.undo(mark)
        else:
            wanted -= len(d.graph.nodes) > before


def depth_of(d: Draw) -> int:
    return 0 if d.outer is None else 1 + depth_of(d.outer)


def inner(d: Draw) -> Draw:
    """The draw of an inner graph."""
    if depth_of(d) > 1:
        raise Skip
    return Draw(0, d.opset, d.runs, outer=d, size=min(d.size, 600))


def own(d: Draw) -> list[Value]:
    """The values that an inner graph's nodes make."""
    made = {o for n in d.graph.nodes for o in n.outputs if n.op != "Constant"}
    return [v for v in d.values if v.name in made and count(v.shape)]


def as_result(d: Draw, v: Value) -> Value:
    """A value that the inner graph itself makes: others go through Identity."""
    if v in own(d) or v.name in d.graph.constants:
        return v
    return d.emit("Identity", [v], {}, [Out(v.dtype, v.shape, v.lo, v.hi, v.err, v.step)])[0]


def fitted(d: Draw, like: Value) -> Value:
    """A value of a type and a shape: one that the graph makes, or something made of another."""
    found = [v for v in own(d) if v.dtype == like.dtype and v.shape == like.shape]
    if found:
        return d.rng.choice(found)
    around = [v for v in d.values if v.dtype == like.dtype and v.shape == like.shape]
    if around:
        return as_result(d, d.rng.choice(around))
    return d.leaf(like.dtype, like.shape)


@draws("If", weight=1.2)
def _if(d: Draw, op: str) -> None:
    """Both branches give the same types and shapes; the condition is known to the run only."""
    condition = d.pick("bool", where=lambda v: not v.shape, shape=lambda: ())
    one, other = inner(d), inner(d)
    nodes_inside(one, d.between(1, 3))
    results = own(one)
    if not results:
        raise Skip
    chosen = d.rng.sample(results, min(len(results), d.between(1, 2)))
    nodes_inside(other, d.between(0, 3))
    matching = [fitted(other, v) for v in chosen]
    if len({v.name for v in matching}) < len(matching):
        raise Skip
    one.graph.results = [v.name for v in chosen]
    other.graph.results = [v.name for v in matching]
    outs = []
    for a, b in zip(chosen, matching, strict=True):
        lo, hi, err = min(a.lo, b.lo), max(a.hi, b.hi), max(a.err, b.err)
        outs.append(Out(a.dtype, a.shape, lo, hi, err, min(a.step, b.step)))
    graphs = [one.graph, other.graph]
    if d.chance(0.5):
        graphs.reverse()
    d.emit(op, [condition], {"then_branch": graphs[0], "else_branch": graphs[1]}, outs)


def _carried(d: Draw, body: Draw, init: Value) -> tuple[Value, Callable[[], Value]]:
    """A loop's state inside the body, and the function that makes its next value.

    The next value is cut to the state's interval and, of floats, made smaller, so that the error
    that is assumed of the state holds after any number of turns.
    """
    err = max(4 * init.err, 64 * EPSILON[init.dtype]) if init.is_float else 0.0
    low, high = min(init.lo, -2.0), max(init.hi, 2.0)
    if init.dtype.startswith("u"):
        low = 0.0
    state = Value(body.fresh("s"), init.dtype, init.shape, low, high, err)
    state.step = 0.0 if init.is_float else 1.0
    body.graph.inputs[state.name] = (init.dtype, [_name(d, s) for s in init.shape])
    body.add(state)

    def following() -> Value:
        choices = [v for v in body.values if v.dtype == state.dtype and v.shape == state.shape]
        v = body.rng.choice(choices[-4:])
        if state.dtype == "bool":
            return as_result(body, v)
        if state.is_float:
            k = EPSILON[v.dtype]
            if v.err * 0.25 + 8 * k > err:
                raise Skip
            v = body.within(v, -8.0, 8.0)
            small = body.scalar(0.25, v.dtype)
            out = Out(v.dtype, v.shape, v.lo / 4, v.hi / 4, v.err / 4 + 2 * k * v.top)
            v = body.emit("Mul", [v, small], {}, [out])[0]
        return as_result(body, body.within(v, low, high))

    return state, following


def _name(d: Draw, s: Size) -> int | str:
    return s[0] if s.fixed else d.symbols.get(s, "free")


@draws("Loop", weight=0.8)
def _loop(d: Draw, op: str) -> None:
    """A known or computed number of turns; states, and sometimes a result for every turn."""
    turns = d.between(not d.chance(0.1), 4)
    limit = d.leaf("int64", (), turns, turns) if d.chance(0.5) else d.scalar(turns, "int64")
    body = inner(d)
    number = Value(body.fresh("i"), "int64", (), 0, turns, 0, 1)
    going = Value(body.fresh("g"), "bool", (), 0, 1, 0, 1)
    for v in (number, going):
        body.graph.inputs[v.name] = (v.dtype, [])
        body.all[v.name] = v
    body.add(number)
    kinds = ("float32", "float32", "int64", "bool", "int32", "float64")
    inits = [d.pick(d.rng.choice(kinds)) for _ in range(d.between(1, 2))]
    states = [_carried(d, body, v) for v in inits]
    nodes_inside(body, d.between(1, 4))
    again = body.emit("Identity", [going], {}, [Out("bool", (), 0, 1)])[0]
    following = [make() for _, make in states]
    scanned = [v for v in own(body) if v.name != again.name and v not in following]
    scanned = d.rng.sample(scanned, min(len(scanned), turns, d.between(0, 1)))
    names = [v.name for v in (again, *following, *scanned)]
    if len(set(names)) < len(names):
        raise Skip
    body.graph.results = names
    outs = [
        Out(s.dtype, s.shape, s.lo, s.hi, s.err, s.step if not s.is_float else 0) for s, _ in states
    ]
    outs += [Out(v.dtype, (d.const(turns), *v.shape), v.lo, v.hi, v.err, v.step) for v in scanned]
    start = d.scalar(1, "bool") if d.chance(0.5) else None
    d.emit(op, [limit, start, *inits], {"body": body.graph}, outs)


@draws("Scan", weight=0.5)
def _scan(d: Draw, op: str) -> None:
    """States, and operands that are walked along their first axis."""
    if d.opset < 9:
        raise Skip
    x = d.pick(("float32", "int64", "float64"), where=lambda v: v.rank > 0)
    body = inner(d)
    inits = [d.pick(d.one("float32", "int64")) for _ in range(d.between(0, 1))]
    states = [_carried(d, body, v) for v in inits]
    piece = Value(body.fresh("p"), x.dtype, x.shape[1:], x.lo, x.hi, x.err, x.step)
    body.graph.inputs[piece.name] = (x.dtype, [_name(d, s) for s in x.shape[1:]])
    body.add(piece)
    nodes_inside(body, d.between(1, 3))
    following = [make() for _, make in states]
    scanned = [v for v in own(body) if v not in following]
    if not scanned:
        raise Skip
    scanned = [d.rng.choice(scanned)]
    body.graph.results = [v.name for v in (*following, *scanned)]
    attrs: dict[str, Any] = {"body": body.graph, "num_scan_inputs": 1}
    if d.chance(0.3):
        attrs["scan_input_directions"] = [1]
    if d.chance(0.2):
        attrs["scan_output_directions"] = [1]
    outs = [
        Out(s.dtype, s.shape, s.lo, s.hi, s.err, s.step if not s.is_float else 0) for s, _ in states
    ]
    outs += [Out(v.dtype, (x.shape[0], *v.shape), v.lo, v.hi, v.err, v.step) for v in scanned]
    d.emit(op, [*inits, x], attrs, outs)
