"""A model as boxes and links: kernels with the operators in them, or the graph as imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from smelt.artifact.graph import Launch
from smelt.artifact.model import size_text
from smelt.ir.module import IRModule
from smelt.ir.types import IncompleteType, TensorType, TupleType, Type
from smelt.relax import nodes as relax

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
        self.results: dict[relax.RelaxExpr, list[Box]] = {}

    def sources(self, v: relax.RelaxExpr) -> list[Box]:
        """The boxes that a value comes from; none for a constant."""
        match v:
            case relax.Tuple(items):
                return [b for i in items for b in self.sources(i)]
            case relax.TupleGetItem(value, index):
                found = self.results.get(value) or self.sources(value)
                return [found[index]] if len(found) > 1 else found
            case relax.MatchCast(value) | relax.Let(body=value):
                return self.sources(value)
        return self.results.get(v, [])

    def read(self, box: Box, v: relax.RelaxExpr | None) -> None:
        """Note that a box reads a value."""
        if isinstance(v, relax.Constant):
            box.weights.append(f"{v.name or 'constant'} {type_text(v.type)}")
        elif isinstance(v, relax.Tuple):
            for item in v.items:
                self.read(box, item)
        elif v is not None:
            text = type_text(v.type)
            self.network.links += [Link(s, box, text) for s in dict.fromkeys(self.sources(v))]

    def add(
        self, box: Box, v: relax.RelaxExpr | None, reads: Iterable[relax.RelaxExpr | None] = ()
    ) -> None:
        """A box that stands for a value."""
        self.network.boxes.append(box)
        if v is not None:
            self.results[v] = [box]
        for r in reads:
            self.read(box, r)

    def outputs(self, main: relax.Function) -> Network:
        """The network, after its results' boxes are added."""
        names = main.attrs.get("output_names") or ()
        for n, r in enumerate(main.results()):
            name = str(names[n]) if n < len(names) else f"output{n}"
            self.add(Box("output", name), None, [r])
        return self.network


def kernel_network(fused: IRModule, launches: Sequence[Launch]) -> Network:
    """The kernels of a fused module.

    launches  the calls of kernels, in order
    """
    drawn, main = _Drawn(), fused["main"]
    assert isinstance(main, relax.Function)
    for p in main.params:
        drawn.add(Box("input", p.name), p)
    calls = iter(enumerate(launches))
    for v in relax.values(main.body):
        if isinstance(v, relax.Call) and isinstance(v.op, relax.GlobalVar):
            n, launch = next(calls)
            _kernel(drawn, v, launch, n)
        elif isinstance(v, relax.Call):
            drawn.add(Box("view", v.callee, _known([v.name])), v, v.args)
    network = drawn.outputs(main)
    network.boxes = _folded(network.boxes)
    return network


def _kernel(drawn: _Drawn, call: relax.Call, launch: Launch, n: int) -> None:
    """The box of one kernel's call; its operators inside, where there are several."""
    group = launch.group
    inner = [v for v in relax.values(group.body) if isinstance(v, relax.Call)]
    box = Box("kernel", launch.name, launch.nodes, launch=n)
    # Equal kernels share the function, so that its calls have the names of one of them.
    own = launch.nodes if len(launch.nodes) == len(inner) else [""] * len(inner)
    drawn.network.boxes.append(box)
    outer: dict[relax.RelaxExpr | None, relax.RelaxExpr | None] = dict(
        zip(group.params, call.args, strict=False)
    )
    for c, name in zip(inner, own, strict=True):
        if len(inner) > 1:
            operator = Box("operator", c.callee, _known([name]))
            box.inside.append(operator)
        drawn.results[c] = [operator if len(inner) > 1 else box]
        for a in c.args:
            drawn.read(drawn.results[c][0], outer.get(a, a))
    results = group.body.items if isinstance(group.body, relax.Tuple) else (group.body,)
    drawn.results[call] = [(drawn.sources(r) or [box])[0] for r in results]
    for c in inner:
        del drawn.results[c]  # another call of the same group makes boxes of its own


def _known(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([n for n in names if n]))


def imported_network(mod: IRModule) -> Network:
    """The operators of a module as imported; what it decides and repeats are boxes as well."""
    drawn, main = _Drawn(), mod["main"]
    assert isinstance(main, relax.Function)
    for v in [*main.params, *relax.values(main.body)]:
        match v:
            case relax.Var(name) if v not in drawn.results and isinstance(v.type, TensorType):
                drawn.add(Box("input", name), v)
            case relax.Call():
                drawn.add(Box("operator", v.callee, _known([v.name])), v, v.args)
            case relax.If(condition, then, otherwise):
                drawn.add(Box("operator", "if"), v, [condition, then.body, otherwise.body])
            case relax.Let(var, relax.Function() as f):
                drawn.add(Box("operator", f"body of {var.name}"), None, [f.body])
    return drawn.outputs(main)


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
