"""Regions: the parts of a function that another compiler gets.

Between AnnotateTarget and PartitionGraph regions are marked in the graph itself: what flows into
one passes through `annotation.compiler_begin`, what flows out through `annotation.compiler_end`.
This file reads the marks, writes them, merges regions, and takes them out as functions.

Only values of the function itself are in regions; the branches of an If and the bodies of inner
functions are not entered. Tuples belong to whoever takes them as an operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from smelt.ir.node import reachable
from smelt.ir.types import TupleType
from smelt.relax.compose.common import items_of
from smelt.relax.dpl.graph import DataflowGraph, op_name, operands, rebuilt, walk
from smelt.relax.graph import Leaders, cut_out, is_closed
from smelt.topi.registry import get_op

from .. import nodes

BEGIN, END = "annotation.compiler_begin", "annotation.compiler_end"


@dataclass(eq=False)
class Region:
    """A part of a function. target: the name of the compiler, or "default"."""

    target: str


Regions = dict[nodes.RelaxExpr, Region]


def top_level(f: nodes.Function) -> list[nodes.RelaxExpr]:
    """The values of a function, operands first, without those in branches and inner functions."""
    return walk(f.body, lambda n: [o for o in operands(n) if not isinstance(o, nodes.Function)])


def feeds(node: nodes.RelaxExpr) -> list[nodes.RelaxExpr]:
    """The values that a node needs; tuples stand for their values, functions for what they see."""
    found: dict[nodes.RelaxExpr, None] = {}
    stack = [node]
    seen = {node}
    while stack:
        inside = [o for o in operands(stack.pop()) if o not in seen]
        seen.update(inside)
        for o in inside:
            if isinstance(o, nodes.Tuple):
                stack.append(o)
            elif isinstance(o, nodes.Function):
                found.update(dict.fromkeys(DataflowGraph(o).order[:-1] if not is_closed(o) else ()))
            else:
                found[o] = None
    return list(found)


def adopt_items(order: Iterable[nodes.RelaxExpr], regions: Regions) -> Regions:
    """The same regions with the items of their tuples in them."""
    for n in order:
        if isinstance(n, nodes.TupleGetItem) and n.value in regions:
            regions[n] = regions[n.value]
    return regions


# ---------------------------------------------------------------------------------------- marks


def _mark(op: str, x: nodes.RelaxExpr, target: str) -> nodes.RelaxExpr:
    """A value with a mark on it, or on each of its items."""
    if isinstance(x.type, TupleType):
        return nodes.Tuple(tuple([_mark(op, i, target) for i in items_of(x)]))
    return nodes.Call(get_op(op), (x,), {"compiler": target}, x.type)


def _is_mark(n: nodes.RelaxExpr, *names: str) -> bool:
    return isinstance(n, nodes.Call) and op_name(n.op) in (names or (BEGIN, END))


def _marked(n: nodes.RelaxExpr) -> tuple[nodes.RelaxExpr, str]:
    """What a mark stands on, and for which compiler."""
    assert isinstance(n, nodes.Call)
    assert n.args[0] is not None
    return n.args[0], str(n.attrs["compiler"])


class _Marker:
    """Writes the marks of one function."""

    def __init__(self, regions: Regions) -> None:
        self.regions = regions
        self.done: dict[nodes.RelaxExpr, nodes.RelaxExpr] = {}
        self.inner: dict[nodes.RelaxExpr, nodes.RelaxExpr] = {}
        self.begun: dict[tuple[nodes.RelaxExpr, Region], nodes.RelaxExpr] = {}

    def run(self, f: nodes.Function) -> nodes.Function:
        """The function with marks around its regions."""
        for n in DataflowGraph(f).order:
            self.done[n] = self.one(n)
        return self.done[f]  # type: ignore[return-value]

    def one(self, n: nodes.RelaxExpr) -> nodes.RelaxExpr:
        """A value as those outside its region see it."""
        region = self.regions.get(n)
        if region is None:
            if isinstance(n, nodes.TupleGetItem):
                return self.done[n.value][n.index]
            return rebuilt(n, self.done)
        uses = {o: self.use(o, region) for o in operands(n)}
        new = self.inner[n] = n.with_children(lambda c: uses.get(c, c))
        return _mark(END, new, region.target)

    def use(self, o: nodes.RelaxExpr, region: Region) -> nodes.RelaxExpr:
        """An operand as a region sees it."""
        if self.regions.get(o) is region:
            return self.inner[o]
        if isinstance(o, nodes.Function):
            return self.done[o]
        found = self.begun.get((o, region))
        if found is None:
            found = self.begun[o, region] = self.begin(o, region)
        return found

    def begin(self, o: nodes.RelaxExpr, region: Region) -> nodes.RelaxExpr:
        """What flows in, item by item."""
        if isinstance(o, nodes.Tuple):
            return nodes.Tuple(tuple([self.use(i, region) for i in o.items]))
        return _mark(BEGIN, self.done[o], region.target)


def mark_regions(f: nodes.Function, regions: Regions) -> nodes.Function:
    """A function with marks where values flow into its regions and out of them."""
    return _Marker(regions).run(f)


def read_regions(f: nodes.Function) -> tuple[nodes.Function, Regions]:
    """A function without marks, and the regions that they said."""
    order = top_level(f)
    found: Regions = {}
    for end in order:
        if _is_mark(end, END):
            x, target = _marked(end)
            _flood(x, Region(target), found)
    done: dict[nodes.RelaxExpr, Any] = {}
    for n in DataflowGraph(f).order:
        if _is_mark(n):
            done[n] = done[_marked(n)[0]]
        elif isinstance(n, nodes.TupleGetItem):
            same = done[n.value] is n.value
            done[n] = n if same else done[n.value][n.index]
        else:
            done[n] = rebuilt(n, done)
    regions = {done[n]: r for n, r in found.items() if not isinstance(n, nodes.Tuple)}
    return done[f], regions


def _flood(start: nodes.RelaxExpr, region: Region, found: Regions) -> None:
    """Give a region everything above `start` up to the marks; regions that are met are the same."""
    todo = [start]
    met: set[Region] = set()
    while todo:
        n = todo.pop()
        if n in found:
            met.add(found[n])
            continue
        found[n] = region
        inside = [o for o in operands(n) if not _is_mark(o)]
        todo += [o for o in inside if isinstance(o, nodes.Call | nodes.TupleGetItem | nodes.Tuple)]
    met.discard(region)
    for n, r in found.items() if met else ():
        if r in met:
            found[n] = region


# ---------------------------------------------------------------------------------------- merge


class _Groups:
    """Regions that are being merged, and what each needs."""

    def __init__(self, order: Sequence[nodes.RelaxExpr], regions: Regions) -> None:
        self.leader = Leaders()
        self.needs: dict[Any, set[Any]] = {}
        self.of: dict[nodes.RelaxExpr, Any] = {}
        for n in order:
            if not isinstance(n, nodes.Var | nodes.Constant | nodes.Tuple):
                group = self.of[n] = regions.get(n, n)
                self.leader.setdefault(group, group)
                self.needs.setdefault(group, set())
        self.feeds = {n: [o for o in feeds(n) if o in self.of] for n in self.of}
        for n, sources in self.feeds.items():
            self.needs[self.of[n]].update([self.of[o] for o in sources])
        for group, needed in self.needs.items():
            needed.discard(group)

    def around(self, first: Any, then: Any) -> bool:
        """Whether a way from one group to another goes through a third."""
        ends = (first, then)
        starts = [g for g in map(self.leader.find, self.needs[then]) if g not in ends]
        return first in reachable(starts, lambda g: map(self.leader.find, self.needs[g]))

    def merge(self, first: Any, then: Any) -> None:
        """Make one group of two."""
        self.leader[first] = then
        needed = {self.leader.find(g) for g in self.needs[then] | self.needs.pop(first)}
        self.needs[then] = needed - {then}


def merge_regions(order: Sequence[nodes.RelaxExpr], regions: Regions) -> Regions:
    """Adjacent regions of one target as one, unless something outside would lie between.

    order  the values of the function, operands first
    """
    groups = _Groups(order, regions)
    for n in groups.of:
        for o in groups.feeds[n]:
            first, then = groups.leader.find(groups.of[o]), groups.leader.find(groups.of[n])
            both = isinstance(first, Region) and isinstance(then, Region) and first is not then
            if both and first.target == then.target and not groups.around(first, then):
                groups.merge(first, then)
    return {n: groups.leader.find(r) for n, r in regions.items()}


# ----------------------------------------------------------------------------------------- lift


@dataclass
class Lifted:
    """A region that is taken out.

    members  its values, operands first
    outputs  those that are used outside
    needs    what it needs, in order of first use
    inputs   what of that its function takes
    """

    region: Region
    members: dict[nodes.RelaxExpr, None]
    outputs: list[nodes.RelaxExpr]
    needs: list[nodes.RelaxExpr] = field(default_factory=list)
    inputs: list[nodes.RelaxExpr] = field(default_factory=list)
    call: nodes.Call | None = None

    def find_needs(self) -> None:
        """Walk from the outputs to what is not a member."""
        ends = nodes.Tuple(tuple(self.outputs))
        inside = {ends, *self.members}
        below = walk(ends, lambda n: feeds(n) if n in inside else ())
        self.needs = [n for n in below if n not in inside]

    def function(
        self, prefix: str, attrs: Mapping[str, Any], bind_constants: bool
    ) -> nodes.Function:
        """The region as a function; constants that do not stay inside become inputs."""
        bound = nodes.Constant if bind_constants else ()
        self.inputs = [n for n in self.needs if not isinstance(n, bound)]
        one = len(self.outputs) == 1
        result = self.outputs[0] if one else nodes.Tuple(tuple(self.outputs))
        inside = {result, *self.members}
        given = set(self.inputs)

        def opened(n: nodes.RelaxExpr) -> bool:
            return n in inside or (isinstance(n, nodes.Tuple) and n not in given)

        order = walk(result, lambda n: operands(n) if opened(n) else ())
        return cut_out([n for n in order if opened(n)], result, self.inputs, prefix, attrs)


def lift_regions(
    f: nodes.Function,
    regions: Regions,
    make: Callable[[Lifted], tuple[nodes.GlobalVar, nodes.Function]],
) -> tuple[nodes.Function, dict[str, nodes.Function]]:
    """A function with its regions taken out, and the functions that they became, by name.

    make  the name and the function of a region; regions come in order of evaluation
    """
    order = top_level(f)
    graph = DataflowGraph(f)
    parts: dict[Region, Lifted] = {}
    for n in order:
        if n in regions:
            part = parts.setdefault(regions[n], Lifted(regions[n], {}, []))
            part.members[n] = None
            part.outputs += [n] if _leaves(n, regions, graph) else []
    for part in parts.values():
        part.find_needs()

    def inside(n: nodes.RelaxExpr) -> list[nodes.RelaxExpr]:
        part = parts.get(regions[n]) if n in regions else None
        return operands(n) if part is None else part.needs

    functions: dict[str, nodes.Function] = {}
    done: dict[nodes.RelaxExpr, nodes.RelaxExpr] = {}
    for n in walk(f.body, inside):
        if n not in regions:
            done[n] = rebuilt(n, done)
            continue
        part = parts[regions[n]]
        if part.call is None:
            name, made = make(part)
            functions[name.name] = made
            args = tuple([done[i] for i in part.inputs])
            part.call = nodes.Call(name, args, {}, made.body.type)
        several = len(part.outputs) > 1
        index = part.outputs.index(n)
        done[n] = nodes.TupleGetItem(part.call, index) if several else part.call
    return f.replace(body=done[f.body]), functions


def _leaves(n: nodes.RelaxExpr, regions: Regions, graph: DataflowGraph) -> bool:
    """Whether something outside its region uses a value; tuples count as those who take them."""
    stack = list(graph.users_of(n))
    while stack:
        u = stack.pop()
        if isinstance(u, nodes.Tuple):
            stack += graph.users_of(u)
        elif regions.get(u) is not regions[n]:
            return True
    return False
