"""The text form of tensor programs read back: `parse(script(f))` is structurally equal to `f`."""

# ruff: noqa: RET503 (fail() does not return)

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from smelt.ir.expr import INDEX, Expr, IntImm, Var, const

from .nodes import (
    Allocate,
    AssertStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    PrimFunc,
    Range,
    Seq,
    Stmt,
    While,
    seq,
)
from .parser_expr import ExprParser, Source, dt_name

__all__ = ["FunctionParser", "parse"]

_KINDS = {
    "range": "serial",
    "T.serial": "serial",
    "T.parallel": "parallel",
    "T.vectorized": "vectorized",
    "T.unroll": "unrolled",
    "T.thread_binding": "thread_binding",
    "T.grid": "grid",
}
_AXES = {
    "spatial": "spatial",
    "reduce": "reduce",
    "opaque": "opaque",
    "S": "spatial",
    "R": "reduce",
    "O": "opaque",
}
_TRUE = const(True)


def parse(
    text: str,
    path: str = "<script>",
    env: Mapping[str, Any] | None = None,
    *,
    first_line: int = 1,
    indent: int = 0,
) -> PrimFunc:
    """The program that a text describes; errors carry path, line and column.

    env                 Python values that the text may use by name
    first_line, indent  where in its file the text begins, for the positions in errors
    """
    source = Source(text, path, first_line, indent)
    try:
        tree = ast.parse(text)
    except SyntaxError as e:
        source.error((e.lineno or 1, max(0, (e.offset or 1) - 1)), e.msg)
    except (RecursionError, MemoryError):
        source.error((1, 0), "an expression is nested too deeply for Python's parser")
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    if len(functions) != 1:
        source.error((1, 0), f"expected one function, found {len(functions)}")
    return FunctionParser(source, env or {}).function(functions[0])


class _BlockParts:
    """What the statements of a block's head have said so far."""

    def __init__(self) -> None:
        self.iters: list[IterVar] = []
        self.values: list[Expr] = []
        self.predicate: Expr = _TRUE
        self.reads: tuple[BufferRegion, ...] = ()
        self.writes: tuple[BufferRegion, ...] = ()
        self.init: Stmt | None = None
        self.allocs: list[Buffer] = []
        self.attrs: dict[str, Any] = {}


class FunctionParser(ExprParser):
    """Parses one function."""

    def __init__(self, source: Source, env: Mapping[str, Any]) -> None:
        """Start outside of any block."""
        super().__init__(source, env)
        self.blocks: list[_BlockParts] = []
        self.func_attrs: dict[str, Any] = {}
        self.loop_domains: dict[Expr, Range] = {}
        self.rooted = self.no_root = False

    # --------------------------------------------------------------------------- functions

    def function(self, node: ast.FunctionDef) -> PrimFunc:
        """A function definition as a program."""
        for s in node.body:
            self.free_size(s)
        annotations = [self.annotation(a) for a in node.args.args]
        for arg, note in zip(node.args.args, annotations, strict=True):
            if self.script_name(note) is not None and not isinstance(note, ast.Call):
                self.define(arg.arg, Var(arg.arg, self.dtype_name(note)))
        params: list[Buffer | Var] = []
        for arg, note in zip(node.args.args, annotations, strict=True):
            if isinstance(note, ast.Call):
                self.define(arg.arg, self.buffer(arg.arg, note, "Buffer"))
            params.append(self.scopes[0][arg.arg])
        root = _BlockParts()
        self.blocks.append(root)
        body = self.suite(node.body)
        if (
            not self.no_root
            and not self.explicit_root(body)
            and (self.rooted or root.allocs or root.attrs)
        ):
            block = Block("root", (), (), (), body, None, tuple(root.allocs), root.attrs)
            body = BlockRealize((), _TRUE, block)
        return PrimFunc(tuple(params), body, {"name": node.name, **self.func_attrs})

    def explicit_root(self, body: Stmt) -> bool:
        """Whether the text itself has a block "root" around everything."""
        return isinstance(body, BlockRealize) and body.block.name == "root"

    def annotation(self, arg: ast.arg) -> ast.expr:
        """A parameter's annotation, taken out of quotes."""
        note = arg.annotation
        if isinstance(note, ast.Constant) and isinstance(note.value, str):
            inner = ast.parse(note.value, mode="eval").body
            for n in ast.walk(inner):
                ast.copy_location(n, note)
            note = inner
        if (
            note is None
            or self.script_name(note.func if isinstance(note, ast.Call) else note) is None
        ):
            self.fail(
                arg, f'parameter {arg.arg} needs a type: T.Buffer((...), "float32") or T.int64'
            )
        return note

    def dtype_name(self, node: ast.expr) -> str:
        """T.float32 as "float32"."""
        name = self.script_name(node) or ""
        if not dt_name(name):
            self.fail(node, f"T.{name} is not an element type")
        return name

    def free_size(self, s: ast.stmt) -> None:
        """n = T.int64(): a size that is no parameter, known from a buffer's shape."""
        match s:
            case ast.Assign([ast.Name(name)], ast.Call(func, [], [])) if dt_name(
                self.script_name(func) or ""
            ):
                self.define(name, Var(name, self.dtype_name(func)))

    def buffer(self, name: str, node: ast.Call, function: str) -> Buffer:
        """T.Buffer(shape, dtype, scope=..., strides=...)."""
        if self.script_name(node.func) != function:
            self.fail(node, f"expected T.{function}(shape, dtype)")
        given: dict[str, ast.expr] = dict(zip(("shape", "dtype", "scope"), node.args, strict=False))
        given.update({k.arg or "**": k.value for k in node.keywords})
        unknown = given.keys() - {"shape", "dtype", "scope", "strides", "annotations"}
        if unknown or "shape" not in given:
            self.fail(node, f"T.{function} takes shape, dtype, scope, strides")
        kind = self.dtype_arg(given["dtype"]) if "dtype" in given else "float32"
        scope = self.text_arg(given["scope"]) if "scope" in given else "global"
        strides = self.extents(given["strides"]) if "strides" in given else ()
        return Buffer(name, self.extents(given["shape"]), kind, scope, strides)

    def extents(self, node: ast.expr) -> tuple[Expr, ...]:
        """A tuple of extents, or one."""
        if isinstance(node, ast.Tuple | ast.List):
            return tuple([self.expr(e) for e in node.elts])
        value = self.value(node)
        if isinstance(value, tuple | list):
            return tuple([v if isinstance(v, Expr) else const(v) for v in value])
        return (self.expr(node),)

    # -------------------------------------------------------------------------- statements

    def suite(self, nodes: list[ast.stmt]) -> Stmt:
        """Statements; a binding without `with` holds for the rest of its suite."""
        out: list[Stmt] = []
        pending: list[tuple[list[Stmt], Var | Buffer, Any]] = []
        self.scopes.append({})
        for s in nodes:
            bound = self.binding(s)
            if bound is not None:
                pending.append((out, *bound))
                out = []
            else:
                stmt = self.statement(s)
                if stmt is not None:
                    out.append(stmt)
        self.scopes.pop()
        body = seq(*out) if out else Seq(())
        for before, binder, data in reversed(pending):
            inner = (
                Allocate(binder, body, data)
                if isinstance(binder, Buffer)
                else LetStmt(binder, data, body)
            )
            body = seq(*before, inner)
        return body

    def binding(self, s: ast.stmt) -> tuple[Var | Buffer, Any] | None:
        """x: T.int32 = value, x = value or B = T.allocate(...); None for other statements."""
        match s:
            case ast.AnnAssign(ast.Name(name), note, value) if value is not None:
                var = Var(name, self.dtype_name(note))
                given = self.expr(value, var.type)
            case ast.Assign([ast.Name(name)], ast.Call(func) as value) if (
                self.script_name(func) == "allocate"
            ):
                return self.allocate(name, value)
            case ast.Assign([ast.Name(name)], ast.Call(func)) if self.is_head(func):
                return None
            case ast.Assign([ast.Name(name)], value):
                given = self.expr(value)
                var = Var(name, given.dtype)
            case _:
                return None
        self.define(name, var)
        return var, given

    def is_head(self, func: ast.expr) -> bool:
        """Whether an assigned call is no value: an axis, a buffer of a block, a free size."""
        name = self.script_name(func) or ""
        return name.startswith("axis.") or name == "alloc_buffer" or (dt_name(name))

    def allocate(self, name: str, node: ast.Call) -> tuple[Buffer, dict[str, Any]]:
        """B = T.allocate(shape, dtype, scope=..., annotations=...)."""
        buffer = self.buffer(name, node, "allocate")
        self.define(name, buffer)
        notes = [self.data(k.value) for k in node.keywords if k.arg == "annotations"]
        return buffer, notes[0] if notes else {}

    def statement(self, s: ast.stmt) -> Stmt | None:
        """One statement; None for what only says something about the block around it."""
        match s:
            case ast.Pass():
                return Seq(())
            case ast.Expr(ast.Constant(str())):
                return None
            case ast.Assign([ast.Subscript() as target], value):
                return self.store(target, value)
            case ast.AugAssign(ast.Subscript() as target, op, value):
                load = ast.Subscript(target.value, target.slice, ast.Load())
                joined = ast.BinOp(ast.copy_location(load, target), op, value)
                return self.store(target, ast.copy_location(joined, s))
            case ast.Assign([target], ast.Call(func) as value):
                return self.head_assign(target, value, self.script_name(func) or "")
            case ast.For():
                return self.loop(s)
            case ast.While(condition, body):
                return While(self.expr(condition), self.suite(body))
            case ast.If(condition, yes, no):
                test = self.expr(condition)
                return IfThenElse(test, self.suite(yes), self.suite(no) if no else None)
            case ast.With([item], body):
                return self.with_stmt(s, item, body)
            case ast.Assert(condition, message):
                text = "" if message is None else self.text_arg(message)
                return AssertStmt(self.expr(condition), text)
            case ast.Expr(ast.Call() as node):
                return self.effect(node)
        self.fail(s, f"{type(s).__name__} is not a statement of the script language")

    def store(self, target: ast.Subscript, value: ast.expr) -> Stmt:
        """buffer[indices] = value."""
        buffer = self.value(target.value)
        if not isinstance(buffer, Buffer):
            self.fail(target.value, "only a buffer's elements can be assigned")
        indices = self.indices(buffer, target)
        raw = self.value(value)
        if isinstance(raw, bool | int | float):
            return BufferStore(buffer, self.number(value, raw, buffer.type), indices)
        return BufferStore(buffer, self.expr(value), indices)

    def effect(self, node: ast.Call) -> Stmt | None:
        """T.evaluate(x), T.reads(...), T.where(...) and other calls that stand alone."""
        name = self.script_name(node.func) or ""
        parts = self.blocks[-1]
        match name:
            case "evaluate":
                return Evaluate(self.expr(node.args[0]))
            case "reads":
                parts.reads = tuple([self.region(a) for a in node.args])
            case "writes":
                parts.writes = tuple([self.region(a) for a in node.args])
            case "where":
                parts.predicate = self.expr(node.args[0])
            case "block_attr":
                parts.attrs.update(self.data(node.args[0]))
            case "func_attr":
                self.func_attrs.update(self.data(node.args[0]))
            case "no_root_block":
                self.no_root = True
            case _:
                return Evaluate(self.expr(node))
        return None

    def head_assign(self, target: ast.expr, node: ast.Call, name: str) -> Stmt | None:
        """Axes, buffers of a block; free sizes are known already."""
        parts = self.blocks[-1]
        if name == "axis.remap" and isinstance(target, ast.Tuple):
            kinds, loops = self.text_arg(node.args[0]), node.args[1]
            if not isinstance(loops, ast.List | ast.Tuple) or not len(kinds) == len(
                loops.elts
            ) == len(target.elts):
                self.fail(node, "T.axis.remap takes one letter (S or R) and one loop for each name")
            for letter, loop, t in zip(kinds, loops.elts, target.elts, strict=True):
                var = self.expr(loop)
                dom = self.loop_domains.get(var)
                if dom is None or not isinstance(t, ast.Name):
                    self.fail(loop, "expected a loop variable")
                self.axis(t.id, _AXES[letter], dom, var, INDEX)
            return None
        if not isinstance(target, ast.Name):
            self.fail(target, "expected one name")
        if name.startswith("axis.") and name[5:] in _AXES:
            if len(node.args) != 2:
                self.fail(node, f"T.{name} takes a domain and a value")
            types = [self.dtype_arg(k.value) for k in node.keywords if k.arg == "dtype"]
            self.axis(
                target.id,
                _AXES[name[5:]],
                self.domain(node.args[0]),
                self.expr(node.args[1]),
                types[0] if types else INDEX,
            )
        elif name == "alloc_buffer":
            buffer = self.buffer(target.id, node, "alloc_buffer")
            parts.allocs.append(buffer)
            self.define(target.id, buffer)
        elif not (dt_name(name) and not node.args and target.id in self.scopes[0]):
            self.fail(node, f"T.{name} cannot be assigned to a name here")
        return None

    def axis(self, name: str, kind: str, dom: Range, value: Expr, dtype: str) -> None:
        """One iteration variable of the block."""
        var = Var(name, dtype)
        self.define(name, var)
        self.blocks[-1].iters.append(IterVar(var, dom, kind))
        self.blocks[-1].values.append(value)

    def domain(self, node: ast.expr) -> Range:
        """An extent, or (low, high)."""
        value = self.value(node)
        if isinstance(value, tuple) and len(value) == 2:
            return self.interval(node, *value)
        extent = self.expr(node)
        return Range(IntImm(extent.dtype, 0), extent)

    # ------------------------------------------------------------------------------- loops

    def loop(self, s: ast.For) -> Stmt:
        """for i in range(...), T.parallel(...), T.grid(...)."""
        node = s.iter
        if not isinstance(node, ast.Call):
            self.fail(node, "a loop runs over range(...), T.serial(...), T.parallel(...), ...")
        name = (
            node.func.id if isinstance(node.func, ast.Name) else f"T.{self.script_name(node.func)}"
        )
        if name not in _KINDS:
            self.fail(node.func, f"a loop cannot run over {name}; known: {', '.join(_KINDS)}")
        if name == "T.grid":
            return self.grid(s, node)
        if not isinstance(s.target, ast.Name) or not 1 <= len(node.args) <= 2:
            self.fail(s.target, "expected one loop variable and one or two bounds")
        dom = self.domain(node.args[0])
        if len(node.args) == 2:
            dom = self.interval(node, self.value(node.args[0]), self.value(node.args[1]))
        options = {k.arg or "**": self.data(k.value) for k in node.keywords}
        unknown = options.keys() - {"thread", "annotations", "dtype"}
        if unknown:
            self.fail(
                node,
                f"{name} has no option {', '.join(sorted(unknown))}; "
                "known: annotations, dtype, thread",
            )
        var = Var(s.target.id, options.get("dtype", dom.extent.dtype))
        return self.for_body(
            var, dom, s.body, _KINDS[name], options.get("thread"), options.get("annotations", {})
        )

    def for_body(
        self,
        var: Var,
        dom: Range,
        body: list[ast.stmt],
        kind: str,
        thread: str | None,
        annotations: dict[str, Any],
    ) -> Stmt:
        """The loop, with its variable defined in its body."""
        self.scopes.append({var.name: var})
        self.loop_domains[var] = dom
        inner = self.suite(body)
        self.scopes.pop()
        return For(var, dom.min, dom.extent, inner, kind, thread, annotations)

    def grid(self, s: ast.For, node: ast.Call) -> Stmt:
        """for i, j in T.grid(8, 8): nested serial loops."""
        targets = s.target.elts if isinstance(s.target, ast.Tuple) else [s.target]
        if len(targets) != len(node.args):
            self.fail(s.target, f"{len(targets)} loop variables for {len(node.args)} extents")
        loops: list[tuple[Var, Range]] = []
        for t, a in zip(targets, node.args, strict=True):
            if not isinstance(t, ast.Name):
                self.fail(t, "expected a loop variable")
            dom = self.domain(a)
            var = Var(t.id, dom.extent.dtype)
            self.loop_domains[var] = dom
            loops.append((var, dom))
        self.scopes.append({v.name: v for v, _ in loops})
        body = self.suite(s.body)
        self.scopes.pop()
        for var, dom in reversed(loops):
            body = For(var, dom.min, dom.extent, body)
        return body

    # ------------------------------------------------------------------------------ blocks

    def with_stmt(self, s: ast.With, item: ast.withitem, body: list[ast.stmt]) -> Stmt | None:
        """with T.block("C"), T.init(), T.allocate(...) as B, T.let(...) as x."""
        node, target = item.context_expr, item.optional_vars
        name = self.script_name(node.func) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and name == "block":
            return self.block(self.text_arg(node.args[0]), body)
        if name == "init":
            self.blocks[-1].init = self.suite(body)
            return None
        if (
            isinstance(node, ast.Call)
            and isinstance(target, ast.Name)
            and name in ("allocate", "let")
        ):
            self.scopes.append({})
            if name == "allocate":
                buffer, notes = self.allocate(target.id, node)
                stmt: Stmt = Allocate(buffer, self.suite(body), notes)
            else:
                kind = self.dtype_arg(node.args[1]) if len(node.args) > 1 else None
                value = self.expr(node.args[0], kind)
                var = Var(target.id, kind or value.dtype)
                self.define(target.id, var)
                stmt = LetStmt(var, value, self.suite(body))
            self.scopes.pop()
            return stmt
        self.fail(
            s, "expected with T.block(name), T.init(), T.allocate(...) as B or T.let(...) as x"
        )

    def block(self, name: str, body: list[ast.stmt]) -> Stmt:
        """A block; its head's statements may stand anywhere in it."""
        self.rooted = True
        parts = _BlockParts()
        self.blocks.append(parts)
        self.scopes.append({})
        inner = self.suite(body)
        self.scopes.pop()
        self.blocks.pop()
        block = Block(
            name,
            tuple(parts.iters),
            parts.reads,
            parts.writes,
            inner,
            parts.init,
            tuple(parts.allocs),
            parts.attrs,
        )
        return BlockRealize(tuple(parts.values), parts.predicate, block)

    def region(self, node: ast.expr) -> BufferRegion:
        """A[i, lo:hi]."""
        if not isinstance(node, ast.Subscript):
            self.fail(node, "expected a region such as A[i, 0:8]")
        buffer = self.value(node.value)
        if not isinstance(buffer, Buffer):
            self.fail(node.value, "expected a buffer")
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(items) != buffer.rank:
            self.fail(
                node, f"{buffer.name} has {buffer.rank} dimensions, {len(items)} ranges given"
            )
        ranges = []
        for i, item in enumerate(items):
            if isinstance(item, ast.Slice):
                low = self.value(item.lower) if item.lower else 0
                high = self.value(item.upper) if item.upper else buffer.shape[i]
                ranges.append(self.interval(item, low, high))
            else:
                ranges.append(Range(self.expr(item), const(1, INDEX)))
        return BufferRegion(buffer, tuple(ranges))

    # ----------------------------------------------------------------------------- values

    def data(self, node: ast.expr) -> Any:
        """Plain data: attributes and annotations."""
        match node:
            case ast.Dict(keys, values):
                return {
                    self.data(k): self.data(v)
                    for k, v in zip(keys, values, strict=True)
                    if k is not None
                }
            case ast.List(elts):
                return [self.data(e) for e in elts]
            case ast.Tuple(elts):
                return tuple([self.data(e) for e in elts])
        value = self.value(node)
        return value.var if isinstance(value, IterVar) else value
