"""One function while it is scheduled: finding things by name, replacing them, naming new ones.

The program is an immutable tree. An index (name -> node, node -> parent) is built when something is
looked up after a change; a change rebuilds only the nodes between the root and what changed.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from smelt.arith import Answer
from smelt.ir.build import value_of
from smelt.ir.errors import ScheduleError
from smelt.ir.expr import INDEX, Expr, ExprLike, Var, const, convert
from smelt.ir.node import Node
from smelt.ir.walk import substitute
from smelt.tir.facts import Facts
from smelt.tir.names import unique_name

from .. import nodes
from .canonical import bound_names, canonicalize
from .region import refreshed, told_by_body
from .show import show
from .trace_text import arguments_text, expr_text


@dataclass(frozen=True)
class Relaid:
    """What a parameter in another layout holds, or what was made of it.

    given  the parameter as it was
    at     variables: the indices of an element as it is
    value  what stands there, an expression of `given`; None where a map could not be inverted
    """

    given: nodes.Buffer
    at: tuple[Var, ...]
    value: Expr | None


Change = nodes.Stmt | None | Callable[[Any], nodes.Stmt]
"""What becomes of a statement: another, none, or a function of it when its parts are done."""


class PrimitiveCall:
    """A call of a primitive, for messages: its text is made only where it is shown."""

    __slots__ = ("args", "name")

    def __init__(self, name: str, args: dict[str, Any]) -> None:
        """Keep name and arguments; those under "*" are positional."""
        self.name, self.args = name, args

    def __str__(self) -> str:
        return f"{self.name}({arguments_text(self.args, _argument)})"


def _argument(v: object) -> str:
    if isinstance(v, str):
        return repr(str(v))
    if isinstance(v, list | tuple):
        return "[" + ", ".join(map(_argument, v)) + "]"
    if isinstance(v, Expr):
        return expr_text(v)
    if isinstance(v, int):
        return str(v) if isinstance(v, bool) else str(int(v))
    if callable(v):
        return f"<{getattr(v, '__name__', 'function')}>".replace("<<", "<").replace(">>", ">")
    return getattr(v, "name", None) or repr(v)


class Index:
    """Where everything is in one version of a function."""

    def __init__(self, func: nodes.PrimFunc) -> None:
        """Walk the statements once."""
        self.loops: dict[str, nodes.For] = {}
        self.blocks: dict[str, nodes.BlockRealize] = {}
        self.parent: dict[nodes.Stmt, nodes.Stmt] = {}
        self.order: dict[nodes.Stmt, int] = {}
        stack: list[nodes.Stmt] = [func.body]
        while stack:
            s = stack.pop()
            self.order[s] = len(self.order)
            if isinstance(s, nodes.For):
                self.loops[s.var.name] = s
            elif isinstance(s, nodes.BlockRealize):
                self.blocks[s.block.name] = s
            below = nodes.sub_statements(s)
            for b in below:
                self.parent[b] = s
            stack.extend(reversed(below))


class State:
    """A function, its index, its facts and its names.

    relaid  by name: what parameters hold that are not as they were given
    """

    def __init__(self, func: nodes.PrimFunc) -> None:
        """Give loops, blocks and variables names of their own and bind their ranges."""
        func = canonicalize(func)
        self.func = func
        self.facts = Facts(func)
        self.names, self.block_names = map(set, bound_names(func))
        self.call = PrimitiveCall("Schedule", {})
        self.render = "detail"
        self.history: list[tuple[PrimitiveCall, nodes.PrimFunc]] = []
        self.relaid: Mapping[str, Relaid] = {}
        self._index: Index | None = None
        self._checked: dict[nodes.Stmt, object] = {}

    def copy(self) -> State:
        """An independent state of the same (immutable) function."""
        other = copy.copy(self)
        other.facts, other.history, other._checked = Facts(self.func), list(self.history), {}
        other.names, other.block_names = set(self.names), set(self.block_names)
        return other

    # ------------------------------------------------------------------------------- finding

    @property
    def index(self) -> Index:
        """The index of the current version."""
        if self._index is None:
            self._index = Index(self.func)
        return self._index

    def loop(self, name: str) -> nodes.For:
        """The loop of a name."""
        found = self.index.loops.get(name)
        if found is None:
            self._gone("loop", name)
        return found

    def realize(self, name: str) -> nodes.BlockRealize:
        """The block of a name, where it is executed."""
        found = self.index.blocks.get(name)
        if found is None:
            self._gone("block", name)
        return found

    def parent(self, s: nodes.Stmt) -> nodes.Stmt | None:
        """The statement around one."""
        return self.index.parent.get(s)

    def above(self, s: nodes.Stmt) -> list[nodes.Stmt]:
        """The statements around one, innermost first."""
        out, parent = [], self.index.parent
        while (up := parent.get(s)) is not None:
            out.append(up)
            s = up
        return out

    def is_under(self, s: nodes.Stmt, ancestor: nodes.Stmt) -> bool:
        """Whether a statement stands inside another (or is it)."""
        return s is ancestor or any(up is ancestor for up in self.above(s))

    def scope(self, s: nodes.Stmt) -> nodes.BlockRealize:
        """The block that a statement stands in directly, other than itself."""
        node = s
        for up in self.above(s):
            if isinstance(up, nodes.BlockRealize) and not (node is up.block and s is node):
                return up
            node = up
        raise ScheduleError(f"{self.call}: the block 'root' stands in no other block")

    def loops_above(self, s: nodes.Stmt) -> list[nodes.For]:
        """The loops around a statement inside its scope block, outermost first."""
        return self._loops_until(s, lambda up: isinstance(up, nodes.Block))

    def loops_between(self, s: nodes.Stmt, outer: nodes.Stmt) -> list[nodes.For]:
        """The loops around a statement that stand inside `outer`, outermost first."""
        return self._loops_until(s, lambda up: up is outer)

    def _loops_until(self, s: nodes.Stmt, is_end: Callable[[nodes.Stmt], bool]) -> list[nodes.For]:
        inside = itertools.takewhile(lambda up: not is_end(up), self.above(s))
        return [up for up in inside if isinstance(up, nodes.For)][::-1]

    def top(self, s: nodes.Stmt, inside: nodes.Stmt) -> nodes.Stmt:
        """The statement directly in the body of `inside` (a Seq opened) that holds `s`."""
        node = s
        for up in self.above(s):
            if up is inside or (isinstance(up, nodes.Seq) and self.parent(up) is inside):
                return node
            node = up
        raise ScheduleError(f"{self.call}: a statement is not where it should be")

    def blocks_in(self, s: nodes.Stmt) -> list[nodes.BlockRealize]:
        """The blocks directly in a statement, in order: not those inside other blocks."""
        inside = nodes.walk(s.body if isinstance(s, nodes.Block) else s, nodes.is_block)
        return [x for x in inside if isinstance(x, nodes.BlockRealize)]

    def readers(self, scope: nodes.BlockRealize, buffer: nodes.Buffer) -> list[nodes.BlockRealize]:
        """The blocks of a scope that read a buffer, in order."""
        return [b for b in self.blocks_in(scope.block) if _among(b.block.reads, {buffer})]

    def writers(self, scope: nodes.BlockRealize, buffer: nodes.Buffer) -> list[nodes.BlockRealize]:
        """The blocks of a scope that write a buffer, in order."""
        return [b for b in self.blocks_in(scope.block) if _among(b.block.writes, {buffer})]

    def producers(self, b: nodes.BlockRealize) -> list[nodes.BlockRealize]:
        """The blocks that write what a block reads."""
        read = {r.buffer for r in b.block.reads}
        around = self.blocks_in(self.scope(b).block)
        return [p for p in around if p is not b and _among(p.block.writes, read)]

    def consumers(self, b: nodes.BlockRealize) -> list[nodes.BlockRealize]:
        """The blocks that read what a block writes."""
        written = {w.buffer for w in b.block.writes}
        around = self.blocks_in(self.scope(b).block)
        return [c for c in around if c is not b and _among(c.block.reads, written)]

    # ------------------------------------------------------------------------------ changing

    def replace(self, changes: Mapping[nodes.Stmt, Change]) -> None:
        """Put new statements in the place of old ones; None takes the emptied loops away too."""
        dirty = {up for s in changes for up in self.above(s)}
        body = self._rebuild(self.func.body, changes, dirty)
        assert isinstance(body, nodes.BlockRealize)
        self.set_func(self.func.replace(body=body))

    def _rebuild(
        self, s: nodes.Stmt, changes: Mapping[nodes.Stmt, Change], dirty: Iterable[nodes.Stmt]
    ) -> nodes.Stmt | None:
        change: Change = changes.get(s, s)
        if isinstance(change, nodes.Stmt | None):
            if change is not s or s not in dirty:
                return change
        elif s not in dirty:
            return change(s)
        new = self._rebuild_parts(s, changes, dirty)
        if new is not None and not isinstance(change, nodes.Stmt | None):
            new = change(new)
        if isinstance(new, nodes.Block) and new.name != "root" and told_by_body(new):
            new = refreshed(self, new)
        return new

    def _rebuild_parts(
        self, s: nodes.Stmt, changes: Mapping[nodes.Stmt, Change], dirty: Iterable[nodes.Stmt]
    ) -> nodes.Stmt | None:
        """A statement with its changed parts; None where nothing is left of it."""

        parts = [self._rebuild(x, changes, dirty) for x in nodes.sub_statements(s)]
        kept = [p for p in parts if p is not None]
        if isinstance(s, nodes.Seq):
            return nodes.seq(*kept) if kept else None
        if parts and not kept and not isinstance(s, nodes.Block):
            return None
        new = dict(zip(nodes.sub_statements(s), parts, strict=True))
        optional = (getattr(s, "init", None), getattr(s, "else_body", None))

        def part(c: Node) -> Node | None:
            if not isinstance(c, nodes.Stmt):
                return c
            return new[c] if new[c] is not None or c in optional else nodes.no_op()

        return s.with_children(part)

    def set_func(self, func: nodes.PrimFunc) -> None:
        """Another version of the whole function."""
        self.func = func
        self._index = None

    # -------------------------------------------------------------------------------- naming

    def fresh(self, base: str) -> str:
        """A name that no variable or buffer has or had: base, base_1, ..."""
        return unique_name(base, self.names)

    def fresh_block(self, base: str) -> str:
        """A name that no block has or had."""
        return unique_name(base, self.block_names)

    def new_var(self, base: str, low: ExprLike, extent: ExprLike) -> Var:
        """A new variable with a range."""
        v = Var(self.fresh(base), INDEX)
        self.facts.bind(v, convert(low, INDEX), convert(extent, INDEX))
        return v

    def nest(
        self,
        extents: Iterable[Expr],
        make: Callable[[list[Expr]], nodes.Stmt],
        keep_unit: bool = True,
    ) -> nodes.Stmt:
        """Loops ax0, ax1, ... from zero around a statement; `keep_unit`: those of extent 1, too."""
        loops: list[tuple[Var, Expr]] = []
        values: list[Expr] = []
        for extent in extents:
            if not keep_unit and value_of(extent) == 1:
                values.append(const(0, INDEX))
                continue
            v = self.new_var(f"ax{len(loops)}", 0, extent)
            loops.append((v, extent))
            values.append(v)
        stmt = make(values)
        for v, extent in reversed(loops):
            stmt = nodes.For(v, const(0, INDEX), extent, stmt)
        return stmt

    def copies(self, of: Iterable[nodes.For | nodes.IterVar], suffix: str) -> dict[Var, Var]:
        """New variables, by those of loops or of a block, with the same ranges."""
        doms = [(x.var, x.dom if isinstance(x, nodes.IterVar) else x) for x in of]
        return {v: self.new_var(f"{v.name}_{suffix}", d.min, d.extent) for v, d in doms}

    def iter_var(self, base: str, dom: nodes.Range, kind: str = "spatial") -> nodes.IterVar:
        """A new variable of a block over a domain."""
        return nodes.IterVar(self.new_var(base, dom.min, dom.extent), dom, kind)

    def iter_vars(self, domains: Iterable[nodes.Range]) -> tuple[nodes.IterVar, ...]:
        """New spatial variables v0, v1, ... of a block over some domains."""
        return tuple([self.iter_var(f"v{k}", d) for k, d in enumerate(domains)])

    def block_nest(self, block: nodes.Block, predicate: Expr | None = None) -> nodes.Stmt:
        """A block in loops ax0, ax1, ... over the domains of its variables.

        predicate  in terms of these variables
        """

        def make(loops: list[Expr]) -> nodes.Stmt:
            pairs = zip(block.iter_vars, loops, strict=True)
            at = {i.var: self.facts.simplify(i.dom.min + x) for i, x in pairs}
            guard = const(True) if predicate is None else substitute(predicate, at)
            return nodes.BlockRealize(tuple(at.values()), self.facts.conjunction(guard), block)

        return self.nest([i.dom.extent for i in block.iter_vars], make)

    # -------------------------------------------------------------------------------- errors

    def fail(
        self, what: str, *, mark: Mapping[Node, str] | None = None, legal: str = ""
    ) -> NoReturn:
        """Raise a ScheduleError that shows the program (as `error_render_level` says).

        mark  what is underlined, with a note; else the block that the call is about
        """
        if self.render == "none":
            raise ScheduleError(f"{self.call.name} was refused (error_render_level is 'none')")
        if mark is None and (b := self.index.blocks.get(self.call.args.get("block", ""))):
            mark = {b: "this block"}
        parts = [f"{self.call}: {what}"]
        if mark and self.render == "detail":
            parts += ["  " + line for line in show(self.func, mark).rstrip().splitlines()]
        if legal:
            parts.append(f"  legal: {legal}")
        raise ScheduleError("\n".join(parts))

    def demand(
        self,
        condition: Expr,
        otherwise: str,
        claim: str,
        *,
        mark: Mapping[Node, str] | None = None,
        legal: str = "",
    ) -> None:
        """Go on only where a condition is shown to hold.

        otherwise  what is wrong where it is shown never to hold
        claim      what could not be shown where neither is
        """
        answer = self.facts.answer(condition)
        if answer is Answer.NO:
            self.fail(otherwise, mark=mark, legal=legal)
        if answer is Answer.UNKNOWN:
            self.cannot_prove(claim, mark=mark, legal=legal)

    def cannot_prove(
        self, what: str, *, mark: Mapping[Node, str] | None = None, legal: str = ""
    ) -> NoReturn:
        """Raise the ScheduleError that says that the answer is not known."""
        self.fail(f"cannot prove that {what}", mark=mark, legal=legal)

    def _gone(self, kind: str, name: str) -> NoReturn:
        def names(func: nodes.PrimFunc) -> dict[str, str]:
            index = Index(func)
            if kind == "block":
                return {n: n for n in index.blocks if n != "root"}
            extents = {n: x.extent for n, x in index.loops.items()}
            known = {n: getattr(e, "value", getattr(e, "name", "...")) for n, e in extents.items()}
            return {n: f"{n} ({extent})" for n, extent in known.items()}

        lines = [f"{self.call}: {self.func.name} has no {kind} {str(name)!r}"]
        versions = [f for _, f in self.history] + [self.func]
        for step, (text, before) in enumerate(self.history):
            if name in names(before) and name not in names(versions[step + 1]):
                new = [n for n in names(versions[step + 1]) if n not in names(before)]
                became = f"replaced it by {_and(new)}" if new else "took it away"
                lines.append(f"  step {step + 1}, {text}, {became}")
        present = ", ".join(names(self.func).values())
        lines.append(f"  {kind}s of {self.func.name}: {present or 'none'}")
        raise ScheduleError("\n".join(lines))


def _among(regions: Iterable[nodes.BufferRegion], buffers: set[nodes.Buffer]) -> bool:
    """Whether one of the regions belongs to one of the buffers."""
    return any(r.buffer in buffers for r in regions)


def allocating(*buffers: nodes.Buffer) -> Change:
    """The change that lets a block allocate more buffers."""
    return lambda old: old.replace(alloc_buffers=(*old.alloc_buffers, *buffers))


def releasing(buffer: nodes.Buffer) -> Change:
    """The change that lets a block allocate a buffer no more."""
    return lambda b: b.replace(alloc_buffers=tuple([x for x in b.alloc_buffers if x is not buffer]))


def _and(items: Sequence[str]) -> str:
    return " and ".join(([", ".join(items[:-1])] if len(items) > 1 else []) + list(items[-1:]))
