"""Blocks of the text form: axes, regions, predicates, init, buffers of a block."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Expr, Var, cast, const

from .names import unique_name
from .nodes import Block, BlockRealize, Buffer, BufferRegion, IterVar, Range, Stmt
from .parser_buffer import OPTIONS, BufferParser
from .parser_source import Source, describe
from .parser_values import is_number, plain
from .script_names import BINDING, CONTEXT, STATEMENT, VALUE, entry

_KINDS = ("spatial", "reduce", "opaque")
_LETTERS = {k[0].upper(): k for k in _KINDS}
_TRUE = const(True)


class Opened(NamedTuple):
    """A suite that begins, in a scope that has begun with it.

    close  called with the suite's body at its end: gives what the body belongs to, if anything
    """

    body: list[ast.stmt]
    close: Callable[[Stmt], Any]


class BlockParts:
    """What the statements of a block have said of it so far.

    name  None: the function's own level, which becomes the block "root" where there has to be one
    said  names of statements that may stand once
    """

    def __init__(self, name: str | None) -> None:
        """Start with nothing said."""
        self.name = name
        self.iters: list[IterVar] = []
        self.values: list[Expr] = []
        self.predicate: Expr = _TRUE
        self.reads: tuple[BufferRegion, ...] | None = None
        self.writes: tuple[BufferRegion, ...] | None = None
        self.init: Stmt | None = None
        self.allocs: list[Buffer] = []
        self.attrs: dict[str, Any] = {}
        self.said: set[str] = set()

    def realize(self, body: Stmt) -> BlockRealize:
        """The block around its body."""
        block = Block(
            self.name or "root",
            tuple(self.iters),
            self.reads or (),
            self.writes or (),
            body,
            self.init,
            tuple(self.allocs),
            self.attrs,
        )
        return BlockRealize(tuple(self.values), self.predicate, block)


def _is_data(value: object) -> bool:
    """Whether a value may be an attribute."""
    if isinstance(value, dict):
        return all(isinstance(k, str | int) and _is_data(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_data, value))
    return value is None or isinstance(value, bool | int | float | str | Expr)


class BlockParser(BufferParser):
    """Parses blocks.

    blocks      the blocks around what is parsed, the function's own level first
    bare        blocks whose text leaves out (reads, writes)
    domains     what loop variables and axes run over
    named       the names of blocks
    rooted      whether there is any block
    no_root     whether the text says that there is no block "root"
    params      the function's parameters by name
    func_attrs  the function's attributes
    given       those of them that a let has given one
    lets        variables with a value, and how deep in scopes they are bound
    notes       the annotations of the loops around, by their variables, and of buffers' allocations
    """

    def __init__(
        self, source: Source, env: Mapping[str, Any], aliases: frozenset[str] = frozenset("T")
    ) -> None:
        """Start outside of any block."""
        super().__init__(source, env, aliases)
        self.blocks: list[BlockParts] = [BlockParts(None)]
        self.bare: dict[Block, tuple[bool, bool]] = {}
        self.domains: dict[Expr, Range] = {}
        self.named: set[str] = set()
        self.rooted = self.no_root = False
        self.params: dict[str, Var | Buffer] = {}
        self.func_attrs: dict[str, Any] = {}
        self.declared: dict[Var, ast.AST] = {}
        self.given: set[Var] = set()
        self.lets: dict[Var, int] = {}
        self.notes: dict[Var | Buffer, dict[str, Any]] = {}

    def opened(self, body: list[ast.stmt], close: Callable[[Stmt], Any]) -> Opened:
        """A suite, in a scope of its own from here on."""
        self.push()
        return Opened(body, close)

    def data(self, node: ast.expr) -> Any:
        """Plain data: attributes and annotations."""
        if isinstance(node, ast.Dict):
            if None in node.keys:
                self.fail(node, "** spreads out nothing here")
            pairs = zip(node.keys, node.values, strict=True)
            return {self.key(k): self.data(v) for k, v in pairs if k is not None}
        if isinstance(node, ast.List | ast.Tuple):
            items = [self.data(e) for e in self.elements(node.elts)]
            return items if isinstance(node, ast.List) else tuple(items)
        found = plain(self.value(node))
        if not _is_data(found):
            self.fail(node, f"{describe(found)} is no plain data", "numbers, texts, lists of them")
        return found

    def key(self, node: ast.expr) -> str | int:
        """A key of plain data."""
        found = self.value(node)
        if not isinstance(found, str | int):
            self.fail(node, f"expected a name, got {describe(found)}")
        return found

    def attributes(self, node: ast.expr) -> dict[str, Any]:
        """A dictionary of attributes or annotations."""
        found = self.data(node)
        if not isinstance(found, Mapping) or not all(isinstance(k, str) for k in found):
            self.fail(node, f"expected attributes, got {describe(found)}", '{"name": value}')
        return dict(found)

    def in_block(self, node: ast.Call, once: bool = True) -> BlockParts:
        """The block that a statement is about."""
        parts, name = self.blocks[-1], self.script_name(node.func) or ""
        if parts.name is None:
            self.fail(node, f"T.{name} stands outside of a block", "with T.block(name): around it")
        if once and name in parts.said:
            self.fail(node, f"the block {parts.name} has a T.{name} already")
        parts.said.add(name)
        return parts

    def block(self, name: str, body: list[ast.stmt]) -> Opened:
        """A block; what describes it may stand anywhere in it."""
        self.rooted = True
        parts = BlockParts(name)
        self.blocks.append(parts)

        def close(inner: Stmt) -> Stmt:
            self.blocks.pop()
            made = parts.realize(inner)
            root = name == "root" and not parts.iters
            if (parts.reads is None or parts.writes is None) and not root:
                self.bare[made.block] = (parts.reads is None, parts.writes is None)
            return made

        return self.opened(body, close)

    # -------------------------------------------------------------------------------- axes

    def integer(self, node: ast.AST, value: Any, dtype: str) -> Expr:
        """A bound or a value in the type of its axis."""
        value = plain(value)
        if not is_number(value) and not isinstance(value, Expr):
            self.fail(node, f"expected an integer, got {describe(value)}")
        e = self.as_expr(node, value, dtype)
        if not dt.is_int(e.dtype) or dt.lanes(e.dtype) > 1:
            self.fail(node, f"expected an integer, got {describe(e)}")
        return cast(dtype, e)

    def bind_axis(self, parts: BlockParts, target: str, kind: str, dom: Range, value: Expr) -> None:
        """Enter an iteration variable of the block."""
        var = Var(self.fresh(target), value.dtype)
        self.define(target, var)
        self.domains[var] = dom
        parts.iters.append(IterVar(var, dom, kind))
        parts.values.append(value)


# ------------------------------------------------------------------------------------- statements


@entry(BINDING, *[f"axis.{k}(dom, value, dtype=)" for k in (*_KINDS, *_LETTERS)])
def _axis(
    p: BlockParser, node: ast.Call, target: str, dom: ast.expr, value: ast.expr, **options: ast.expr
) -> None:
    """One iteration variable: bare numbers and the domain take the value's type."""
    parts = p.in_block(node, once=False)
    kind = (p.script_name(node.func) or "")[len("axis.") :]
    given = p.value(dom)
    bounds = tuple(given) if isinstance(given, tuple | list) else (given,)
    if not 1 <= len(bounds) <= 2:
        p.fail(dom, f"a domain of {len(bounds)} bounds", "an extent, or (low, high)")
    at = plain(p.value(value))
    typed = (x for x in (at, *map(plain, reversed(bounds))) if isinstance(x, Expr))
    own = p.dtype_arg(options["dtype"]) if options else next((x.dtype for x in typed), INDEX)
    if not dt.is_int(own) or dt.lanes(own) > 1:
        p.fail(node, f"the axis {target} is of type {own}", "an integer")
    ends = [p.integer(dom, b, own) for b in bounds]
    r = Range(const(0, own), ends[0]) if len(ends) == 1 else p.interval(dom, *ends)
    p.bind_axis(parts, target, _LETTERS.get(kind, kind), r, p.integer(value, at, own))


@entry(BINDING, "axis.remap(kinds, loops)")
def _remap(
    p: BlockParser, node: ast.Call, target: str | list[ast.expr], kinds: ast.expr, loops: ast.expr
) -> None:
    """vi, vj = T.axis.remap("SR", [i, j]): each loop's domain and value."""
    targets = [ast.Name(target)] if isinstance(target, str) else target
    parts = p.in_block(node, once=False)
    letters, around = p.text_arg(kinds), p.value(loops)
    around = around if isinstance(around, tuple | list) else (around,)
    if not len(letters) == len(around) == len(targets):
        counts = f"{len(targets)} names, {len(letters)} letters, {len(around)} loops"
        p.fail(node, f"T.axis.remap: {counts}", "one letter and one loop for each name")
    for letter, loop, name in zip(letters, around, targets, strict=True):
        if letter not in _LETTERS:
            p.fail(kinds, f"{letter!r} is no kind of axis", "S, R or O: " + ", ".join(_KINDS))
        dom = p.domains.get(loop) if isinstance(loop, Var) else None
        if dom is None:
            p.fail(loops, f"expected loop variables, got {describe(loop)}")
        if not isinstance(name, ast.Name):
            p.fail(name, "expected a name")
        p.bind_axis(parts, name.id, _LETTERS[letter], dom, loop)


@entry(STATEMENT, "reads(*regions)", "writes(*regions)")
def _regions(p: BlockParser, node: ast.Call, *regions: ast.expr) -> None:
    parts = p.in_block(node)
    if len(regions) == 1 and isinstance(regions[0], ast.List | ast.Tuple):
        regions = tuple(p.elements(regions[0].elts))
    found = tuple([p.region(r) for r in regions])
    if p.script_name(node.func) == "reads":
        parts.reads = found
    else:
        parts.writes = found


@entry(STATEMENT, "where(condition)")
def _where(p: BlockParser, node: ast.Call, condition: ast.expr) -> None:
    p.in_block(node).predicate = p.condition(condition)


@entry(VALUE, "target(target)")
def _target(p: BlockParser, node: ast.Call, target: ast.expr) -> Any:
    """In attributes: the text or the dictionary that a target is made from."""
    return p.data(target)


@entry(STATEMENT, "block_attr(attrs)", "sblock_attr(attrs)")
def _block_attr(p: BlockParser, node: ast.Call, attrs: ast.expr) -> None:
    p.blocks[-1].attrs.update(p.attributes(attrs))


@entry(BINDING, *[f"{n}(shape, {OPTIONS})" for n in ("alloc_buffer", "sblock_alloc_buffer")])
def _alloc_buffer(
    p: BlockParser, node: ast.Call, target: str, shape: ast.expr, **options: ast.expr
) -> None:
    buffer = p.buffer(node, target, shape, **options)
    p.blocks[-1].allocs.append(buffer)
    p.define(target, buffer)


@entry(CONTEXT, "block(name=)", "sblock(name=)")
def _block(
    p: BlockParser, node: ast.Call, target: Any, body: list[ast.stmt], **named: ast.expr
) -> Opened:
    """Schedules find blocks by name: those without one, and second ones, get one of their own."""
    if target is not None:
        p.fail(target, "a block's axes are bound inside of it", "vi = T.axis.spatial(extent, i)")
    own = p.text_arg(named["name"]) if named else ""
    return p.block(own if own == "root" else unique_name(own or "block", p.named), body)


@entry(CONTEXT, "init()")
def _init(p: BlockParser, node: ast.Call, target: Any, body: list[ast.stmt]) -> Opened:
    if target is not None:
        p.fail(target, "T.init() has no value")
    return p.opened(body, partial(setattr, p.in_block(node), "init"))
