"""A model as boxes and links: kernels with the operators in them, or the graph as imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from smelt.artifact.graph import Launch
from smelt.artifact.model import size_text
from smelt.ir.module import IRModule
from smelt.ir.types import IncompleteType, TensorType, TupleType, Type
from smelt.relax.nodes import (
    Call,
    Constant,
    Function,
    GlobalVar,
    If,
    Let,
    MatchCast,
    RelaxExpr,
    TupleGetItem,
    Var,
    values,
)
from smelt.relax.nodes import Tuple as GraphTuple

__all__ = ["Box", "Link", "Network", "imported_network", "kernel_network", "type_text"]

_FOLD_FROM = 48  # boxes; of what is shorter, repetitions are not folded
_BLOCK = 12  # boxes that a fold has at least, where what repeats is shorter


@dataclass(eq=False, slots=True)
class Box:
    """What is drawn as a box.

    kind     "input", "output", "kernel", "operator", "view" (nothing is computed) or "block"
    nodes    the model's names of what is in it
    weights  the constants that it reads
    launch   of a kernel: which call of the plan it is
    inside   what it is made of: operators, or the boxes of a block
    """

    kind: str
    label: str
    nodes: tuple[str, ...] = ()
    weights: list[str] = field(default_factory=list)
    launch: int | None = None
    inside: list[Box] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Link:
    """A value that one innermost box gives to another."""

    source: Box
    target: Box
    type: str


@dataclass(slots=True)
class Network:
    """The boxes of a model, each after those that it reads, and their links."""

    boxes: list[Box] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)

    def every(self) -> Iterator[Box]:
        """All boxes, those in others too."""
        todo = list(self.boxes)
        while todo:
            box = todo.pop()
            todo += box.inside
            yield box


def type_text(t: Type) -> str:
    """A type for people: float32 1×64×56×56."""
    if isinstance(t, TupleType):
        return ", ".join([type_text(i) for i in t.items])
    if isinstance(t, TensorType):
        return f"{t.dtype} {'×'.join([str(size_text(e)) for e in t.shape])}".rstrip()
    return "object" if isinstance(t, IncompleteType) else str(t)


class _Drawn:
    """The boxes made so far, and which of them gives what."""

    def __init__(self) -> None:
        self.network = Network()
        self.results: dict[RelaxExpr, list[Box]] = {}

    def sources(self, v: RelaxExpr) -> list[Box]:
        """The boxes that a value comes from; none for a constant."""
        match v:
            case GraphTuple(items):
                return [b for i in items for b in self.sources(i)]
            case TupleGetItem(value, index):
                found = self.results.get(value) or self.sources(value)
                return [found[index]] if len(found) > 1 else found
            case MatchCast(value) | Let(body=value):
                return self.sources(value)
        return self.results.get(v, [])

    def read(self, box: Box, v: RelaxExpr | None) -> None:
        """Note that a box reads a value."""
        if isinstance(v, Constant):
            box.weights.append(f"{v.name or 'constant'} {type_text(v.type)}")
        elif isinstance(v, GraphTuple):
            for item in v.items:
                self.read(box, item)
        elif v is not None:
            text = type_text(v.type)
            self.network.links += [Link(s, box, text) for s in dict.fromkeys(self.sources(v))]

    def add(self, box: Box, v: RelaxExpr | None, reads: Iterable[RelaxExpr | None] = ()) -> None:
        """A box that stands for a value."""
        self.network.boxes.append(box)
        if v is not None:
            self.results[v] = [box]
        for r in reads:
            self.read(box, r)

    def outputs(self, main: Function) -> Network:
        """The network, after its results' boxes are added."""
        names = main.attrs.get("output_names") or ()
        for n, r in enumerate(main.results()):
            name = str(names[n]) if n < len(names) else f"output{n}"
            self.add(Box("output", name), None, [r])
        return self.network


def kernel_network(fused: IRModule, before: IRModule, launches: Sequence[Launch]) -> Network:
    """The kernels of a fused module.

    before    the same module before it was fused, which knows the nodes of every kernel
    launches  the calls of kernels, in order
    """
    drawn, main = _Drawn(), fused["main"]
    assert isinstance(main, Function)
    names = _node_names(fused, before)
    for p in main.params:
        drawn.add(Box("input", p.name), p)
    calls = iter(enumerate(launches))
    for v in values(main.body):
        if isinstance(v, Call) and isinstance(v.op, GlobalVar):
            n, launch = next(calls)
            _kernel(drawn, v, launch, names.get(v, {}), n)
        elif isinstance(v, Call):
            drawn.add(Box("view", v.callee, _known([v.name])), v, v.args)
    network = drawn.outputs(main)
    network.boxes = _folded(network.boxes)
    return network


def _kernel(
    drawn: _Drawn, call: Call, launch: Launch, names: Mapping[RelaxExpr, str], n: int
) -> None:
    """The box of one kernel's call; its operators inside, where there are several."""
    group = launch.group
    inner = [v for v in values(group.body) if isinstance(v, Call)]
    nodes = _known([names.get(c, "") for c in inner]) or _known([call.name])
    box = Box("kernel", launch.name, nodes, launch=n)
    drawn.network.boxes.append(box)
    outer: dict[RelaxExpr | None, RelaxExpr | None] = dict(
        zip(group.params, call.args, strict=False)
    )
    for c in inner:
        if len(inner) > 1:
            operator = Box("operator", c.callee, _known([names.get(c, "")]))
            box.inside.append(operator)
        drawn.results[c] = [operator if len(inner) > 1 else box]
        for a in c.args:
            drawn.read(drawn.results[c][0], outer.get(a, a))
    results = group.body.items if isinstance(group.body, GraphTuple) else (group.body,)
    drawn.results[call] = [(drawn.sources(r) or [box])[0] for r in results]
    for c in inner:
        del drawn.results[c]  # another call of the same group makes boxes of its own


def _known(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([n for n in names if n]))


def imported_network(mod: IRModule) -> Network:
    """The operators of a module as imported; what it decides and repeats are boxes as well."""
    drawn, main = _Drawn(), mod["main"]
    assert isinstance(main, Function)
    for v in [*main.params, *values(main.body)]:
        match v:
            case Var(name) if v not in drawn.results and isinstance(v.type, TensorType):
                drawn.add(Box("input", name), v)
            case Call():
                drawn.add(Box("operator", v.callee, _known([v.name])), v, v.args)
            case If(condition, then, otherwise):
                drawn.add(Box("operator", "if"), v, [condition, then.body, otherwise.body])
            case Let(var, Function() as f):
                drawn.add(Box("operator", f"body of {var.name}"), None, [f.body])
    return drawn.outputs(main)


# ----------------------------------------------------------------------------- names of the nodes


Names = dict[RelaxExpr, str]
Values = Mapping[RelaxExpr, RelaxExpr | None]


def _node_names(fused: IRModule, before: IRModule) -> dict[RelaxExpr, Names]:
    """Per call of a kernel: the node's name of each operator in it.

    Equal kernels share a function, which has the names of one of them. So both graphs are walked
    side by side from their results.
    """
    found: dict[RelaxExpr, Names] = {}
    seen: set[tuple[RelaxExpr, int]] = set()
    inside: dict[RelaxExpr, RelaxExpr | None] = {}  # parameters of functions called in place
    views: Names = {}
    # A value and what it was, the names of the kernel around it, and what that was given.
    todo: list[tuple[RelaxExpr | None, RelaxExpr | None, Names, Values]] = []
    todo.append((fused["main"].body, before["main"].body, views, {}))
    while todo:
        v, p, names, given = todo.pop()
        p = _behind(p, inside)
        if v is None or p is None or (v, id(names)) in seen:
            continue
        seen.add((v, id(names)))
        if v in given:
            todo.append((given[v], p, views, {}))
        elif isinstance(v, Call) and isinstance(v.op, GlobalVar):
            f = fused.functions[v.op.name]
            if isinstance(f, Function):
                arguments: Values = dict(zip(f.params, v.args, strict=False))
                todo.append((f.body, p, found.setdefault(v, {}), arguments))
        elif isinstance(v, Call) and isinstance(p, Call) and v.callee == p.callee:
            names[v] = p.name
            todo += [(a, b, names, given) for a, b in zip(v.args, p.args, strict=False)]
        elif isinstance(v, Call) and len(v.args) == 1:
            todo.append((v.args[0], p, names, given))  # a copy that fusion put in
        elif type(v) is type(p) and not isinstance(v, Call):
            for a, b in zip(v.children(), p.children(), strict=False):
                if isinstance(a, RelaxExpr) and isinstance(b, RelaxExpr):
                    todo.append((a, b, names, given))
    return found


def _behind(p: RelaxExpr | None, inside: dict[RelaxExpr, RelaxExpr | None]) -> RelaxExpr | None:
    """A value without the items and functions called in place that it is seen through."""
    while p is not None:
        match p:
            case TupleGetItem(GraphTuple(items), index):
                p = items[index]
            case Call(Function(params, body), args):
                inside.update(zip(params, args, strict=False))
                p = body
            case Var() if p in inside:
                p = inside[p]
            case _:
                break
    return p


# ------------------------------------------------------------------------------- repeated stretches


def _folded(boxes: list[Box]) -> list[Box]:
    """Boxes with repeated stretches as blocks. A stretch of the order can always be one box."""
    if len(boxes) < _FOLD_FROM:
        return boxes
    ids: dict[tuple[str, str], int] = {}
    keys = [ids.setdefault((b.kind, b.label), len(ids)) for b in boxes]
    start, period, total = _repetition(keys)
    if total < 2 * period or total < _BLOCK:
        return boxes
    turns = total // period
    blocks = -(-turns // max(1, _BLOCK // period))
    size = period * -(-turns // blocks)
    made: list[Box] = []
    for n, at in enumerate(range(start, start + total, size), 1):
        inside = boxes[at : min(at + size, start + total)]
        nodes = [n for b in inside for n in b.nodes]
        made.append(Box("block", f"repetition {n} of {blocks}", tuple(nodes), inside=inside))
    return [*_folded(boxes[:start]), *made, *_folded(boxes[start + total :])]


def _repetition(keys: Sequence[int]) -> tuple[int, int, int]:
    """Where the longest repetition stands: its start, period and length, a multiple of that."""
    best = (0, 1, 0)
    for period in range(1, len(keys) // 2 + 1):
        run = 0
        for n in range(len(keys) - period):
            run = run + 1 if keys[n] == keys[n + period] else 0
            total = (run + period) // period * period if run >= period else 0
            if total > best[2]:
                best = (n + period + 1 - (run + period), period, total)
    return best
