"""The text form of tensor programs read back: `parse(script(f))` is structurally equal to `f`."""

# ruff: noqa: RET503 (fail() does not return)

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from smelt.ir import dtype as dt
from smelt.ir.expr import Expr, StringImm, Var
from smelt.ir.walk import free_vars

from .nodes import (
    AssertStmt,
    BlockRealize,
    Buffer,
    BufferStore,
    Evaluate,
    IfThenElse,
    PrimFunc,
    Seq,
    Stmt,
    While,
    seq,
)
from .parser_block import Opened
from .parser_buffer import BUFFER
from .parser_expr import ExprParser, Source
from .parser_let import Binding, LetParser
from .parser_source import Macro, describe, plain_parameters, unquoted
from .parser_values import BufferView, plain
from .regions import with_regions
from .script_names import BINDING, CONTEXT, STATEMENT, complaint, entries, entry
from .script_ops import CLASSIC_TYPES, is_dtype, shape_vars

_Parsed = TypeVar("_Parsed")


def parse(text: str, path: str = "<script>", env: Mapping[str, Any] | None = None) -> PrimFunc:
    """The program that a text describes; errors carry path, line and column.

    env  Python values that the text may use by name
    """
    return parse_source(Source(text, path), env or {})


def parse_source(
    source: Source, env: Mapping[str, Any], aliases: frozenset[str] = frozenset("T")
) -> PrimFunc:
    """As `parse`. aliases: what the text calls the module T."""
    functions: list[ast.FunctionDef] = []
    for s in source.tree().body:
        said = isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)
        if isinstance(s, ast.FunctionDef):
            functions.append(s)
        elif not said and not isinstance(s, ast.Import | ast.ImportFrom):
            source.error(s, "a text is one function", "@T.prim_func and def")
    if len(functions) != 1:
        place = functions[1] if functions else (1, 0)
        source.error(place, f"expected one function, found {len(functions)}")
    return parse_function(source, functions[0], env, aliases)


def parse_expr(
    text: str, variables: Sequence[Any] | Mapping[str, Any] = (), path: str = "<expression>"
) -> Expr:
    """The expression that a text describes, as `str(e)` or a message writes it.

    variables  what its names stand for: variables and buffers, or anything by its name
    """
    if not isinstance(variables, Mapping):
        variables = {v.name: v for v in variables}
    source, names = Source(text.strip(), path), variables
    body = source.tree().body
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        source.error((1, 0), "expected one expression")
    node = body[0].value
    for n in ast.walk(node):  # people leave out the T of T.min(a, b)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id not in names:
            n.func = ast.copy_location(ast.Attribute(ast.Name("T"), n.func.id), n.func)
    parser = ExprParser(source, {})
    parser.names.update(names)
    return _whole(source, node, lambda: parser.expr(node))


def parse_function(
    source: Source,
    node: ast.FunctionDef,
    env: Mapping[str, Any],
    aliases: frozenset[str] = frozenset("T"),
) -> PrimFunc:
    """The program that one function of a text describes; see `parse`."""
    return _whole(source, node, lambda: FunctionParser(source, env, aliases).function(node))


def _whole(source: Source, node: ast.AST, parsed: Callable[[], _Parsed]) -> _Parsed:
    """What is parsed from a node, unless it is too deep for that."""
    try:
        return parsed()
    except RecursionError:
        source.error(node, "an expression is nested too deeply")


class FunctionParser(LetParser):
    """Parses one function."""

    # --------------------------------------------------------------------------- functions

    def function(self, node: ast.FunctionDef) -> PrimFunc:
        """A function definition as a program."""
        attrs = self.decorator(node)
        for s in node.body:
            self.declare(s)
        self.parameters(node)
        body = self.rooted_body(node, self.suite(node.body))
        attrs = {"name": node.name, **attrs, **self.func_attrs}
        func = PrimFunc(tuple(self.params.values()), body, attrs)
        self.check_sizes(func)
        return with_regions(func, self.bare) if self.bare else func

    def decorator(self, node: ast.FunctionDef) -> dict[str, Any]:
        """@T.prim_func, which may say private=True."""
        attrs: dict[str, Any] = {}
        for d in node.decorator_list:
            if not isinstance(d, ast.Call) or self.said_name(d) != "prim_func":
                continue
            for k in d.keywords:
                if k.arg not in ("private", "check_well_formed"):
                    legal = "T.prim_func(private=, check_well_formed=)"
                    self.fail(k, f"T.prim_func has no parameter '{k.arg or '**'}'", legal)
                chosen = self.value(k.value)
                if not isinstance(chosen, bool):
                    self.fail(k.value, f"expected a truth value, got {describe(chosen)}")
                if k.arg == "private" and chosen:
                    attrs["private"] = True
        return attrs

    def parameters(self, node: ast.FunctionDef) -> None:
        """Scalars first: the buffers' shapes use them."""
        if node.returns is not None and not (
            isinstance(node.returns, ast.Constant) and node.returns.value is None
        ):
            self.fail(node.returns, "a program returns nothing", "a buffer that it writes")
        notes: dict[str, tuple[str, Any]] = {}
        for arg in plain_parameters(self.source, node, "a program", ": name: type"):
            if arg.arg in notes:
                self.fail(arg, f"the parameter {arg.arg} stands twice in the signature")
            note = self.annotation(arg)
            notes[arg.arg] = self.said_name(note) or "", note
        made: dict[str, Var | Buffer] = {}
        for name, (kind, note) in sorted(notes.items(), key=lambda n: n[1][0] == "Buffer"):
            if kind == "Buffer":
                made[name] = self.run(BUFFER, note, self.elements(note.args), name)
            else:
                made[name] = Var(self.fresh(name), kind)
            self.define(name, made[name])
        self.params = {name: made[name] for name in notes}

    def annotation(self, arg: ast.arg) -> ast.expr:
        """A parameter's annotation, taken out of quotes."""
        legal = 'T.Buffer((...), "float32"), T.int64, T.handle'
        if arg.annotation is None:
            self.fail(arg, f"the parameter {arg.arg} needs a type", legal)
        try:
            note = self.classic(unquoted(arg.annotation))
        except SyntaxError as e:
            self.fail(arg.annotation, f"the type of {arg.arg} is no Python: {e.msg}", legal)
        called, name = isinstance(note, ast.Call), self.said_name(note)
        plain_type = name is not None and is_dtype(name) and (not called or name == "handle")
        if not plain_type and not (called and name == "Buffer"):
            self.fail(note, f"this is no type of a parameter ({arg.arg})", legal)
        return note

    def classic(self, note: ast.expr) -> ast.expr:
        """T.Buffer[(16,), "float32"] as a call, T.Ptr(...) and T.Ptr[...] as T.handle."""
        match note:
            case (
                ast.Call(ast.Attribute() as said)
                | ast.Subscript(ast.Attribute() as said)
                | (ast.Attribute() as said)
            ) if self.script_name(said) in CLASSIC_TYPES:
                return ast.copy_location(ast.Attribute(said.value, CLASSIC_TYPES[said.attr]), note)
        if not isinstance(note, ast.Subscript) or self.script_name(note.value) != "Buffer":
            return note
        args, items = [note.slice], note.slice.elts if isinstance(note.slice, ast.Tuple) else []
        if len(items) == 2 and (
            isinstance(items[0], ast.Tuple | ast.List) or not isinstance(self.value(items[1]), int)
        ):
            args = items
        return ast.copy_location(ast.Call(note.value, args, []), note)

    def check_sizes(self, func: PrimFunc) -> None:
        """Declared variables that are used get their values from shapes."""
        unknown = self.declared.keys() - self.given - set(shape_vars(func.params))
        if unknown:
            used = free_vars(func.body)
            for v in unknown & used:
                legal = "a parameter, an extent of one, or T.LetStmt(value, var=...)"
                self.fail(self.declared[v], f"nothing gives {v.name} a value", legal)

    def rooted_body(self, node: ast.FunctionDef, body: Stmt) -> Stmt:
        """The body in the block "root", where there are blocks and the text has none."""
        root = self.blocks[0]
        if isinstance(body, BlockRealize) and body.block.name == "root":
            if root.allocs or root.attrs:
                self.fail(node, "what describes the block root stands outside of it")
            return body
        wanted = root.allocs or root.attrs or (self.rooted and not self.no_root)
        return root.realize(body) if wanted else body

    # -------------------------------------------------------------------------- statements

    def suite(self, nodes: list[ast.stmt]) -> Stmt:
        """Statements; a binding without `with` holds for the rest of its suite.

        The suites around stand in a list: one call in another for each would be slow, for Python
        asks for memory, and gives it back, at every call that passes certain depths.
        """
        around: list[tuple[list[ast.stmt], list[Stmt], Callable[[Stmt], Any], bool]] = []
        todo, out = nodes[::-1], list[Stmt]()
        while todo or around:
            if todo:
                s = todo.pop()
                handler = _STATEMENTS.get(type(s))
                if handler is None:
                    self.fail(s, f"{type(s).__name__} is not a statement of the script language")
                made = handler(self, s)
            else:
                body = seq(*out) if out else Seq(())
                todo, out, close, scoped = around.pop()
                if scoped:
                    self.pop()
                made = close(body)
            if isinstance(made, Stmt):
                out.append(made)
            elif isinstance(made, Opened):
                around.append((todo, out, made.close, True))
                todo, out = made.body[::-1], []
            elif isinstance(made, list):  # of a condition of Python
                todo += reversed(made)
            elif made is not None:
                around.append(([], out, made, False))
                out = []
        return seq(*out) if out else Seq(())

    def assign(self, s: ast.Assign) -> Stmt | Binding | None:
        """buffer[...] = value, or a name bound to something."""
        if len(s.targets) != 1:
            self.fail(s, "one name at a time is assigned")
        return self.assigned(s, s.targets[0], s.value)

    def assigned(self, s: ast.stmt, target: ast.expr, value: ast.expr) -> Stmt | Binding | None:
        """The store or the binding of target = value."""
        if isinstance(target, ast.Subscript):
            return self.store(target, value)
        if isinstance(target, ast.Name):
            return self.bind(s, target.id, value)
        if isinstance(target, ast.Tuple):
            self.bind_several(target, value)
            return None
        self.fail(target, "a value is stored in a buffer's element, or bound to a name")

    def augmented(self, s: ast.AugAssign) -> Stmt | Binding | None:
        """A[i] += value."""
        if not isinstance(s.target, ast.Subscript | ast.Name):
            self.fail(s.target, "only a buffer's elements can be assigned")
        joined = ast.copy_location(ast.BinOp(s.target, s.op, s.value), s)
        return self.assigned(s, s.target, joined)

    def store(self, target: ast.Subscript, value: ast.expr) -> Stmt:
        """buffer[indices] = value."""
        base = self.value(target.value)
        if not isinstance(base, Buffer | BufferView):
            what = f"only a buffer's elements can be assigned, not those of {describe(base)}"
            self.fail(target.value, what)
        buffer, indices = self.element(base, target)
        lanes = max([dt.lanes(i.dtype) for i in indices], default=1)
        kind = dt.vector(buffer.type, lanes)
        given = self.counted(self.expr(value, kind), kind)
        found = given.dtype
        if isinstance(given, StringImm):
            self.fail(value, f"{buffer.name} holds {kind}, the value is a text")
        if found != kind:
            legal = f'T.cast("{kind}", ...)'
            if dt.lanes(found) != lanes:
                legal = f"a value of {lanes} lanes, e.g. T.broadcast(x, {lanes})"
            self.fail(value, f"{buffer.name} holds {kind}, the value is {found}", legal)
        return BufferStore(buffer, given, indices)

    def expression(self, s: ast.Expr) -> Stmt | Opened | Binding | None:
        """T.reads(...) and the like, a call for its effect, or a text."""
        node = s.value
        if isinstance(node, ast.Constant) and (isinstance(node.value, str) or node.value is ...):
            return None
        if not isinstance(node, ast.Call):
            self.fail(s, "an expression alone does nothing", "T.evaluate(x)")
        name = self.script_name(node.func)
        known = entries(STATEMENT).get(name or "")
        if known is not None:
            made: Stmt | Binding | None = self.run(known, node, self.elements(node.args))
            return made
        if name is not None and (name in entries(BINDING) or name in entries(CONTEXT)):
            self.fail(node, *complaint(name, STATEMENT))
        module = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name is None and isinstance(module, ast.Name) and not self.is_known(module.id):
            what = f"{module.id} is not known here; a program calls no other program"
            self.fail(node.func, what, "R.call_tir in a graph function, @T.macro before the other")
        if name is None and isinstance(called := self.value(node.func), Macro):
            return self.inlined(called, node)
        value = self.value(node)
        if name is None and not isinstance(value, Expr):
            self.fail(s, f"the call gives {describe(value)}, which is no statement")
        return Evaluate(self.as_expr(node, value))

    def inlined(self, macro: Macro, node: ast.Call) -> Opened:
        """The statements of a macro; they see its parameters and what is around its definition."""
        values = [self.value(a) for a in self.elements(node.args)]
        named = {k.arg or "**": self.value(k.value) for k in node.keywords}
        names = [*macro.params[: len(values)], *named]
        if len(values) > len(macro.params) or sorted(names) != sorted(macro.params):
            self.fail(node, f"these are not the parameters of {macro}")
        before = self.source, self.aliases, self.env, self.names
        self.source, self.aliases, self.env = macro.source, macro.aliases, macro.env
        self.names = {}

        def close(body: Stmt) -> Stmt:
            self.source, self.aliases, self.env, self.names = before
            return body

        made = self.opened(macro.body, close)
        for name, value in zip(names, [*values, *named.values()], strict=True):
            self.define(name, value)
        return made

    def branch(self, s: ast.If) -> Opened | list[ast.stmt]:
        """if and else; where the condition is a value of Python, the statements that it chooses."""
        test = plain(self.value(s.test))
        if not isinstance(test, Expr) and not isinstance(s.test, ast.Constant):
            return s.body if test else s.orelse
        condition = self.truth(s.test, self.as_expr(s.test, test))
        chosen = partial(IfThenElse, condition)
        if not s.orelse:
            return self.opened(s.body, chosen)
        return self.opened(s.body, lambda yes: self.opened(s.orelse, partial(chosen, yes)))

    def repeat(self, s: ast.While) -> Opened:
        """while condition:"""
        if s.orelse:
            self.fail(s.orelse[0], "a loop has no else")
        return self.opened(s.body, partial(While, self.condition(s.test)))

    def check(self, s: ast.Assert) -> Stmt:
        """assert condition, text."""
        return AssertStmt(self.condition(s.test), "" if s.msg is None else self.text_arg(s.msg))

    def within(self, s: ast.With) -> Opened:
        """with T.block("C"), T.init(), T.allocate(...) as B, T.let(...) as x."""
        inner = [ast.copy_location(ast.With(s.items[1:], s.body), s)] if s.items[1:] else s.body
        node, target = s.items[0].context_expr, s.items[0].optional_vars
        name = self.script_name(node.func) if isinstance(node, ast.Call) else None
        wrong = "this does not stand behind with"
        made: Opened = self.placed(CONTEXT, name, node, wrong, target, inner)
        return made

    def returns(self, s: ast.Return) -> None:
        """A program has no result but what it writes."""
        self.fail(s, "a program returns nothing", "a store into a buffer: B[i] = value")


# ----------------------------------------------------------------------------- what T's names do


@entry(STATEMENT, "evaluate(value)")
def _evaluate(p: FunctionParser, node: ast.Call, value: ast.expr) -> Stmt:
    return Evaluate(p.expr(value))


@entry(STATEMENT, "func_attr(attrs)")
def _func_attr(p: FunctionParser, node: ast.Call, attrs: ast.expr) -> None:
    """Attributes of the function; the classic "global_symbol" is its name."""
    if p.blocks[-1].name not in (None, "root"):
        p.fail(node, "T.func_attr stands inside of a block", "before all blocks")
    given = p.attributes(attrs)
    if "global_symbol" in given:
        given["name"] = given.pop("global_symbol")
    if not isinstance(given.get("name", ""), str):
        p.fail(attrs, f"expected a name, got {describe(given['name'])}")
    p.func_attrs.update(given)


@entry(STATEMENT, "no_root_block()")
def _no_root_block(p: FunctionParser, node: ast.Call) -> None:
    p.no_root = True


@entry(STATEMENT, "buffer_store(buffer, value, indices)", "BufferStore(buffer, value, indices)")
def _buffer_store(
    p: FunctionParser, node: ast.Call, buffer: ast.expr, value: ast.expr, indices: ast.expr
) -> Stmt:
    items = indices.elts if isinstance(indices, ast.List | ast.Tuple) else [indices]
    inner: ast.expr = ast.Tuple(items) if len(items) != 1 else items[0]
    target = ast.Subscript(buffer, ast.copy_location(inner, indices))
    return p.store(ast.copy_location(target, node), value)


@entry(STATEMENT, "Assert(condition, message)")
def _assert(p: FunctionParser, node: ast.Call, condition: ast.expr, message: ast.expr) -> Stmt:
    return AssertStmt(p.condition(condition), p.text_arg(message))


@entry(CONTEXT, "Assert(condition, message)")
def _assert_around(
    p: FunctionParser, node: ast.Call, target: Any, body: list[ast.stmt], *args: ast.expr
) -> Opened:
    return p.opened(body, partial(seq, _assert(p, node, *args)))


@entry(CONTEXT, "While(condition)")
def _while(
    p: FunctionParser, node: ast.Call, target: Any, body: list[ast.stmt], condition: ast.expr
) -> Opened:
    return p.opened(body, partial(While, p.condition(condition)))


_STATEMENTS: dict[type[ast.stmt], Callable[[FunctionParser, Any], Any]] = {
    ast.Assign: FunctionParser.assign,
    ast.AnnAssign: FunctionParser.annotated,
    ast.AugAssign: FunctionParser.augmented,
    ast.Expr: FunctionParser.expression,
    ast.If: FunctionParser.branch,
    ast.For: FunctionParser.loop,
    ast.While: FunctionParser.repeat,
    ast.With: FunctionParser.within,
    ast.Assert: FunctionParser.check,
    ast.Return: FunctionParser.returns,
    ast.Pass: lambda p, s: Seq(()),
}
