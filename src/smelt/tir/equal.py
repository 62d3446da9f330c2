"""Equality of tensor programs up to the names of variables and buffers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from smelt.ir.expr import Expr, FloatImm, IntImm, Var
from smelt.ir.node import Node, float_key

from .nodes import Allocate, Block, BlockRealize, Buffer, For, LetStmt, PrimFunc, Seq, Stmt
from .printer import script
from .script_ops import shape_vars

__all__ = ["assert_structural_equal", "structural_equal", "structural_hash"]


class _Path:
    """Where in a program a comparison stands; becomes text only where it is needed."""

    def __init__(self, parent: _Path | None, label: str) -> None:
        self.parent, self.label = parent, label

    def __str__(self) -> str:
        labels: list[str] = []
        at: _Path | None = self
        while at is not None:
            labels.append(at.label)
            at = at.parent
        return "".join(reversed(labels))


class _Difference(Exception):
    def __init__(self, path: _Path, a: object, b: object) -> None:
        super().__init__(str(path))
        self.path, self.a, self.b = path, a, b


class _Comparison:
    """Walks two programs side by side. Binders pair variables; uses must agree with the pairs."""

    def __init__(self) -> None:
        self.pairs: dict[Node, Node] = {}
        self.back: dict[Node, Node] = {}
        self.seen: set[tuple[Expr, Expr]] = set()
        self.todo: list[tuple[str, _Path, Any, Any]] = []

    def run(self, a: Any, b: Any) -> None:
        """Raise _Difference at the first one."""
        self.todo = [("node", _Path(None, type(a).__name__), a, b)]
        while self.todo:
            action, path, x, y = self.todo.pop()
            later: list[tuple[str, _Path, Any, Any]] = []
            if action == "bind":
                self.bind(path, x, y, later)
            else:
                self.value(path, x, y, later)
            self.todo.extend(reversed(later))

    def bind(self, path: _Path, x: Any, y: Any, later: list[tuple[str, _Path, Any, Any]]) -> None:
        """x and y are defined here: from now on they stand for each other."""
        if isinstance(x, Buffer) != isinstance(y, Buffer) or x.type != y.type:
            raise _Difference(path, x, y)
        self.back.pop(self.pairs.get(x, y), None)
        self.pairs.pop(self.back.get(y, x), None)
        self.pairs[x], self.back[y] = y, x
        self.seen.clear()
        if isinstance(x, Buffer):
            for field in ("scope", "shape", "strides"):
                later.append(
                    ("node", _Path(path, "." + field), getattr(x, field), getattr(y, field))
                )

    def value(self, path: _Path, x: Any, y: Any, later: list[tuple[str, _Path, Any, Any]]) -> None:
        """Compare two values of any kind."""
        x, y = _normal(x), _normal(y)
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            for key in sorted({*x, *y}, key=str):
                if key not in x or key not in y:
                    raise _Difference(_Path(path, f"[{key!r}]"), x.get(key), y.get(key))
                later.append(("node", _Path(path, f"[{key!r}]"), x[key], y[key]))
        elif isinstance(x, Var | Buffer) and isinstance(y, Var | Buffer):
            if not (
                self.pairs.get(x) is y or (x is y and x not in self.pairs and y not in self.back)
            ):
                raise _Difference(path, x, y)
        elif type(x) is not type(y):
            raise _Difference(path, x, y)
        elif isinstance(x, tuple | list):
            if len(x) != len(y):
                raise _Difference(_Path(path, " (length)"), x, y)
            later.extend(
                ("node", _Path(path, f"[{i}]"), p, q)
                for i, (p, q) in enumerate(zip(x, y, strict=True))
            )
        elif isinstance(x, IntImm | FloatImm):
            if x is not y:
                raise _Difference(path, x, y)
        elif isinstance(x, Node):
            self.node(path, x, y, later)
        elif isinstance(x, float):
            if float_key(x) != float_key(y):
                raise _Difference(path, x, y)
        elif x != y:
            raise _Difference(path, x, y)

    def node(self, path: _Path, x: Any, y: Any, later: list[tuple[str, _Path, Any, Any]]) -> None:
        """Compare two nodes of one class: binders first, then the fields."""
        if isinstance(x, Expr):
            if (x, y) in self.seen:
                return
            self.seen.add((x, y))
        fields = list(x.fields)
        match x:
            case PrimFunc():
                self.params(path, x, y, later)
                fields.remove("params")
            case For() | LetStmt():
                fields.remove("var")
                fields.remove("body")
            case Allocate():
                fields = ["annotations"]
            case Block():
                fields = ["reads", "writes", "init", "body", "annotations"]
                self.block(path, x, y, later)
            case BlockRealize():
                fields = ["values", "predicate", "block"]
        for f in fields:
            later.append(("node", _Path(path, "." + f), getattr(x, f), getattr(y, f)))
        if isinstance(x, For | LetStmt | Allocate):
            binder = "buffer" if isinstance(x, Allocate) else "var"
            later.append(
                ("bind", _Path(path, "." + binder), getattr(x, binder), getattr(y, binder))
            )
            later.append(("node", _Path(path, ".body"), x.body, y.body))

    def params(
        self, path: _Path, x: PrimFunc, y: PrimFunc, later: list[tuple[str, _Path, Any, Any]]
    ) -> None:
        """Parameters and free sizes by position; scalars first, since shapes use them."""
        if len(x.params) != len(y.params):
            raise _Difference(_Path(path, ".params (length)"), x.params, y.params)
        pairs = [
            (_Path(path, f".params[{i}]"), p, q)
            for i, (p, q) in enumerate(zip(x.params, y.params, strict=True))
        ]
        free = zip(shape_vars(x.params), shape_vars(y.params), strict=False)
        later.extend(("bind", at, p, q) for at, p, q in pairs if isinstance(p, Var))
        later.extend(("bind", _Path(path, f".sizes[{i}]"), p, q) for i, (p, q) in enumerate(free))
        later.extend(("bind", at, p, q) for at, p, q in pairs if not isinstance(p, Var))

    def block(
        self, path: _Path, x: Block, y: Block, later: list[tuple[str, _Path, Any, Any]]
    ) -> None:
        """A block's name, iteration variables and buffers."""
        later.append(("node", _Path(path, ".name"), x.name, y.name))
        if len(x.iter_vars) != len(y.iter_vars):
            raise _Difference(_Path(path, ".iter_vars (length)"), x.iter_vars, y.iter_vars)
        if len(x.alloc_buffers) != len(y.alloc_buffers):
            raise _Difference(
                _Path(path, ".alloc_buffers (length)"), x.alloc_buffers, y.alloc_buffers
            )
        for i, (p, q) in enumerate(zip(x.iter_vars, y.iter_vars, strict=True)):
            at = _Path(path, f".iter_vars[{i}]")
            later.append(("node", _Path(at, ".kind"), p.kind, q.kind))
            later.append(("node", _Path(at, ".dom"), p.dom, q.dom))
            later.append(("bind", _Path(at, ".var"), p.var, q.var))
        for i, (b, c) in enumerate(zip(x.alloc_buffers, y.alloc_buffers, strict=True)):
            later.append(("bind", _Path(path, f".alloc_buffers[{i}]"), b, c))


def _normal(x: Any) -> Any:
    """Nested sequences as one; a function's attributes with its name."""
    if isinstance(x, Seq):
        flat: list[Stmt] = []
        stack: list[Stmt] = [x]
        while stack:
            s = stack.pop()
            if isinstance(s, Seq):
                stack.extend(reversed(s.stmts))
            else:
                flat.append(s)
        return flat[0] if len(flat) == 1 else flat
    return x.item() if hasattr(x, "dtype") and hasattr(x, "item") else x


def _with_name(x: Any) -> Any:
    return x.with_attrs(name=x.name) if isinstance(x, PrimFunc) else x


def structural_equal(a: Node, b: Node) -> bool:
    """Whether two programs (or statements, or expressions) differ at most in names.

    Variables and buffers correspond by the place where they are bound; what is bound outside of
    both must be the same object. Nested sequences count as one.
    """
    try:
        _Comparison().run(_with_name(a), _with_name(b))
    except _Difference:
        return False
    return True


def assert_structural_equal(a: Node, b: Node) -> None:
    """Raise an AssertionError that names the path of the first difference."""
    try:
        _Comparison().run(_with_name(a), _with_name(b))
    except _Difference as difference:
        parts = [
            f"programs differ at {difference.path}:",
            f"  {_short(difference.a)}",
            f"  {_short(difference.b)}",
        ]
        if isinstance(a, PrimFunc) and isinstance(b, PrimFunc):
            parts += [
                "first program:",
                script(a, _mark(difference.a)),
                "second program:",
                script(b, _mark(difference.b)),
            ]
        raise AssertionError("\n".join(parts)) from None


def _mark(value: object) -> dict[Any, str]:
    return {value: "here"} if isinstance(value, Stmt | Expr | Buffer) else {}


def _short(value: object) -> str:
    if isinstance(value, Var | Buffer):
        return f"{value.name}: {value.type}"
    text = script(value) if isinstance(value, Expr | Stmt) else repr(value)
    text = text.strip().splitlines()[0]
    return f"{type(value).__name__} {text}"[:200]


def structural_hash(func: Node) -> int:
    """A number that is the same for structurally equal programs, in every process."""
    assert isinstance(func, PrimFunc | Stmt | Expr)
    return int.from_bytes(
        hashlib.sha256(script(func, canonical=True).encode()).digest()[:8], "little"
    )
