"""What names are bound to in the text form: values, sizes, buffers that live for a while."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Var

from .nodes import Allocate, AllocateConst, Buffer, For, LetStmt, Stmt
from .parser_block import Opened
from .parser_buffer import OPTIONS, alias
from .parser_loop import LoopParser
from .parser_source import Described, describe
from .parser_values import BufferView, plain
from .printer import script
from .script_names import BINDING, CONTEXT, STATEMENT, complaint, entries, entry
from .script_ops import is_dtype

Binding = Callable[[Stmt], Stmt]
"""What binds a name for the rest of its suite, which it is given: a let, an allocation."""


class LetParser(LoopParser):
    """Parses bindings."""

    # -------------------------------------------------------------------------- declarations

    def declare(self, s: ast.stmt) -> None:
        """n = T.int64(), or m, n = T.int64(), T.int64(): sizes that buffers' shapes tell."""
        if isinstance(s, ast.Assign) and len(s.targets) == 1:
            for t, v in _pairs(s.targets[0], s.value):
                if isinstance(t, ast.Name) and self.declared_type(v) and t.id not in self.names:
                    self.declare_var(t.id, v)

    def declared_type(self, node: ast.expr) -> str | None:
        """The type in T.int64(), T.int64(is_size_var=True) or T.var("int64")."""
        if not isinstance(node, ast.Call):
            return None
        name = self.script_name(node.func) or ""
        if name == "var" and len(node.args) <= 1 and not node.keywords:
            return self.dtype_arg(node.args[0]) if node.args else "int32"
        bare = not node.args and all(k.arg == "is_size_var" for k in node.keywords)
        return name if bare and is_dtype(name) else None

    def declare_var(self, name: str, node: ast.expr) -> None:
        """A variable without a value of its own."""
        var = Var(self.fresh(name), self.declared_type(node) or INDEX)
        self.declared[var] = node
        self.define(name, var)

    # ------------------------------------------------------------------------------ bindings

    def bind_several(self, target: ast.Tuple, value: ast.expr) -> None:
        """vi, vj = T.axis.remap(...), or sizes declared together."""
        if isinstance(value, ast.Call) and self.script_name(value.func) == "axis.remap":
            known = entries(BINDING)["axis.remap"]
            self.run(known, value, self.elements(value.args), target.elts)
            return
        pairs = _pairs(target, value) or [(target, value)]
        for t, v in pairs:
            if not isinstance(t, ast.Name) or self.bind(v, t.id, v) is not None:
                legal = 'vi, vj = T.axis.remap("SS", [i, j]); m, n = T.int64(), T.int64()'
                self.fail(target, "several names are bound to axes and sizes only", legal)

    def bind(self, s: ast.AST, name: str, value: ast.expr) -> Binding | None:
        """name = value: an axis, a buffer, a size, or a value for the rest of the suite."""
        if isinstance(value, ast.Call):
            called = self.script_name(value.func) or ""
            known = entries(BINDING).get(called)
            if known is not None:
                made: Binding | None = self.run(known, value, self.elements(value.args), name)
                return made
            if called.startswith("axis.") or called in entries(CONTEXT):
                self.fail(value.func, *complaint(called, BINDING))
            if self.declared_type(value):
                before = self.names.get(name)
                if not isinstance(before, Var) or before not in self.declared:
                    self.declare_var(name, value)
                return None
        return self.let(s, name, self.value(value), value)

    def let(
        self, s: ast.AST, name: str, value: Any, node: ast.expr, kind: str | None = None
    ) -> Binding | None:
        """A value under a name; tuples and texts of Python are names at once."""
        value = plain(value)
        if isinstance(value, tuple | list | dict | str) and kind is None:
            self.define(name, value)
            return None
        before = self.names.get(name)
        if isinstance(before, Buffer | BufferView):
            self.fail(s, f"{name} is a buffer; its elements are assigned", f"{name}[...] = value")
        if isinstance(before, Var) and self.lets.get(before, len(self.scopes)) < len(self.scopes):
            self.fail(
                s,
                f"{name} is bound in the suite around; what is bound here is gone at its end",
                f"another name, or a buffer: {name} = T.alloc_buffer((1,), dtype)",
            )
        given = self.as_expr(node, value, kind)
        given = given if kind is None else self.counted(given, kind)
        if kind is not None and given.dtype != kind:
            self.fail(node, f"{name} is {kind}, its value {given.dtype}", f'T.cast("{kind}", ...)')
        var = Var(self.fresh(name), given.dtype)
        self.define(name, var)
        self.lets[var] = len(self.scopes)
        return partial(LetStmt, var, given)

    def annotated(self, s: ast.AnnAssign) -> Binding | None:
        """x: T.int32 = value, x: T.let = value or x: T.let[T.int32] = value."""
        if not isinstance(s.target, ast.Name) or s.value is None:
            self.fail(s, "expected a name and a value", "x: T.int32 = value")
        note = s.annotation
        if isinstance(note, ast.Subscript) and self.script_name(note.value) == "let":
            note = note.slice
        kind = self.said_name(note)
        if kind == "let":
            kind = None
        elif kind is None or not is_dtype(kind):
            self.fail(s.annotation, "expected an element type", "x: T.int32 = value")
        return self.let(s, s.target.id, self.value(s.value), s.value, kind)


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Names and what they are bound to: one, or as many as there are on both sides."""
    if not isinstance(target, ast.Tuple):
        return [(target, value)]
    items = value.elts if isinstance(value, ast.Tuple) else []
    return list(zip(target.elts, items, strict=True)) if len(items) == len(target.elts) else []


# ----------------------------------------------------------------------------- values under names


@entry(BINDING, "meta_var(value)")
def _meta_var(p: LetParser, node: ast.Call, target: str, value: ast.expr) -> None:
    """A name for a value or an expression of the text; no variable of the program."""
    p.define(target, p.value(value))


@entry(BINDING, "LetStmt(value, dtype=)")
def _let_bound(
    p: LetParser, node: ast.Call, target: str, value: ast.expr, dtype: ast.expr | None = None
) -> Binding | None:
    kind = None if dtype is None else p.dtype_arg(dtype)
    return p.let(node, target, p.value(value), value, kind)


@entry(CONTEXT, "let(value, dtype=)", "LetStmt(value, dtype=, *, var=)")
def _let_around(
    p: LetParser, node: ast.Call, target: Any, body: list[ast.stmt], value: Any, **options: Any
) -> Opened:
    """with T.let(value, "float32") as x:, or the classic T.let(x, value) of a declared x."""
    name, dtype, var = p.script_name(node.func), options.get("dtype"), options.get("var")
    if target is None and name == "let" and dtype is not None:
        value, dtype, var = dtype, None, value
    if (target is None) == (var is None):
        p.fail(node, "the variable is not named", f"with T.{name}(value) as x:")
    kind = None if dtype is None else p.dtype_arg(dtype)
    given = p.expr(value, kind)
    if var is not None:
        own = p.value(var)
        if not isinstance(own, Var) or own not in p.declared:
            p.fail(var, f"expected a variable, got {describe(own)}", "x = T.int32() before")
        p.given.add(own)
    elif isinstance(target, ast.Name):
        own = Var(p.fresh(target.id), kind or given.dtype)
        p.lets[own] = len(p.scopes)
    else:
        p.fail(target, "expected one name")
    if own.type != given.dtype:
        p.fail(value, f"{own.name} is {own.type}, its value {given.dtype}")
    made = p.opened(body, partial(LetStmt, own, given))
    if var is None:
        p.define(target.id, own)
    return made


# ------------------------------------------------------------------------------- launched threads


class ThreadName(Described):
    """What bx is after bx = T.env_thread("blockIdx.x"), until it is launched."""

    def __init__(self, name: str, axis: str) -> None:
        self.name, self.axis = name, axis
        super().__init__(f"{name}, a thread that is not launched")


@entry(BINDING, "env_thread(thread)")
def _env_thread(p: LetParser, node: ast.Call, target: str, thread: ast.expr) -> None:
    p.define(target, ThreadName(target, p.text_arg(thread)))


_LAUNCH = "launch_thread(thread, extent)"


@entry(BINDING, _LAUNCH)
def _launched(
    p: LetParser, node: ast.Call, target: str | None, thread: ast.expr, extent: ast.expr
) -> Binding:
    """The loop over threads around the rest of the suite."""
    given = p.value(thread)
    known = given if isinstance(given, ThreadName) else None
    axis = known.axis if known else p.text_arg(thread)
    name = target or (known.name if known else None)
    if name is None:
        p.fail(
            node, "the thread's variable is not named", f'tx = T.launch_thread("{axis}", extent)'
        )
    dom = p.bounds(extent, None, p.value(extent))
    var = Var(p.fresh(name), dom.extent.dtype)
    p.domains[var] = dom
    p.define(name, var)
    return lambda body: For(var, dom.min, dom.extent, body, "thread_binding", axis)


@entry(STATEMENT, _LAUNCH)
def _launched_alone(p: LetParser, node: ast.Call, *args: ast.expr) -> Binding:
    return _launched(p, node, None, *args)


_NOTES: dict[str, type[Var | Buffer]] = {
    "double_buffer_scope": Buffer,
    "pragma_auto_unroll_max_step": Var,
}
"""The annotations that classic notes stand for, and what they are about."""


@entry(STATEMENT, "attr(node, key, value)")
def _attr(
    p: LetParser, node: ast.Call, of: ast.expr, key: ast.expr, value: ast.expr
) -> Binding | None:
    """T.attr(bx, "thread_extent", 4) launches a thread; others annotate a loop, an allocation."""
    name = p.text_arg(key)
    if name in ("thread_extent", "virtual_thread"):
        return _launched(p, node, None, of, value)
    if name not in _NOTES:
        what = f"T.attr states thread_extent, virtual_thread, {', '.join(_NOTES)}, not {name}"
        legal = "T.block_attr({...}), T.func_attr({...}), annotations={...} of a loop"
        p.fail(key, what, legal)
    about = p.value(of)
    if not isinstance(about, _NOTES[name]) or about not in p.notes:
        legal = "the variable of a loop around it, B of B = T.allocate(...)"
        p.fail(of, f"{name} is no note of {describe(about)}", legal)
    p.notes[about][name] = p.data(value)
    return None


# ----------------------------------------------------------------------- buffers that live a while

_ALLOCATE = (
    "allocate(extents, dtype=, scope=, condition=, annotations=, strides=, axis_separators=)"
)
_DECLARE = f"decl_buffer(shape, {OPTIONS})"
_CONSTANTS = "allocate_const(data, dtype, shape, scope=, axis_separators=)"


@entry(BINDING, _ALLOCATE)
def _allocated(
    p: LetParser, node: ast.Call, target: str, extents: ast.expr, **options: ast.expr
) -> Binding:
    """B = T.allocate(shape, dtype, ...)."""
    condition, annotations = [options.pop(n, None) for n in ("condition", "annotations")]
    if condition is not None and p.value(condition) is not True:
        p.fail(condition, "memory is allocated unconditionally", "True")
    buffer = p.buffer(node, target, extents, **options)
    p.define(target, buffer)
    p.notes[buffer] = {} if annotations is None else p.attributes(annotations)
    return lambda body: Allocate(buffer, body, p.notes.pop(buffer))


@entry(BINDING, _DECLARE)
def _declared(
    p: LetParser, node: ast.Call, target: str, shape: ast.expr, **options: ast.expr
) -> Binding | None:
    """B = T.decl_buffer(shape, dtype): new memory, or with data= another name of a buffer."""
    if "data" in options:
        alias(p, node, target, shape, **options)
        return None
    return _allocated(p, node, target, shape, **options)


@entry(BINDING, _CONSTANTS)
def _constants(
    p: LetParser, node: ast.Call, target: str, data: ast.expr, *of: ast.expr, **options: ast.expr
) -> Binding:
    """B = T.allocate_const([1, 2, 3], "int32", (3,)): elements from numbers or an array."""
    dtype, shape = of
    buffer = p.buffer(node, target, shape, dtype=dtype, **options)
    extents, kind, value = buffer.fixed_shape(), dt.to_numpy(buffer.type), p.value(data)
    numbers = [getattr(v, "value", v) for v in value] if isinstance(value, list | tuple) else value
    with np.errstate(all="ignore"):
        given = np.asarray(numbers)
        found = given.astype(kind) if given.dtype.kind in "biuf" or given.dtype == kind else None
        exact = found is not None and (dt.is_float(buffer.type) or bool((found == given).all()))
    if found is None or extents is None or found.size != prod(extents) or not exact:
        size = f"{buffer.type}[{', '.join(map(script, buffer.shape))}]"
        what = f"{describe(value)} does not fill {buffer.name}: {size}"
        p.fail(data, what, "as many numbers of the type, or an array")
    p.define(target, buffer)
    return lambda body: AllocateConst(buffer, found.reshape(extents), body)


@entry(CONTEXT, _LAUNCH, "attr(node, key, value)", _ALLOCATE, _DECLARE, _CONSTANTS)
def _bound_around(
    p: LetParser, node: ast.Call, target: Any, body: list[ast.stmt], *given: Any, **options: Any
) -> Opened:
    """What is bound or noted for the rest of a suite, for a suite of its own."""
    name = p.script_name(node.func) or ""
    own = target.id if isinstance(target, ast.Name) else None
    if own is None and name not in ("attr", "launch_thread"):
        p.fail(target or node, "the buffer is not named", f"with T.{name}(shape, dtype) as B:")
    if own is None and target is not None:
        p.fail(target, "expected one name")
    p.push()
    if name == "attr":
        bound = _attr(p, node, *given)
    else:
        bound = entries(BINDING)[name].run(p, node, own, *given, **options)
    return Opened(body, bound or (lambda inner: inner))
