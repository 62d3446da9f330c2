"""The prelude: lists, options and trees for modules, and functions on them.

    mod = smelt.IRModule()
    p = relay.prelude.Prelude(mod)
    p.cons(x, p.nil()), p.map(f, xs), p.length(xs)

Its names enter the module; types and functions that the module has already stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smelt.ir import types
from smelt.ir.module import STANDARD, IRModule
from smelt.relax import adt
from smelt.relax.nodes import Call, Function, GlobalVar, RelaxExpr, Tuple, TupleGetItem, Var
from smelt.runtime.errors import nearest

from . import expr
from .dialect import const, make
from .expr import RelayVar

_INT = types.tensor_type((), "int32")
RELAY_IF: Any = expr.If


class Prelude:
    """Data types and functions of a module, as attributes: `p.nil`, `p.map`, `p.foldl`.

    List    nil, cons(head, tail): hd, tl, nth, update, map, foldl, foldr, foldr1, concat, rev,
            filter, zip, sum, length, unfoldl, unfoldr, map_accuml, map_accumr
    Option  none, some(value)
    Tree    rose(value, children): tmap, size
    others  id, compose, iterate
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        """Enter everything into a module (None: a new one)."""
        self.mod = IRModule() if mod is None else mod
        a = types.TypeVar("a")
        self.List, self.cons, self.nil = self._data(
            "List", [a], lambda me: [("cons", (a, me(a))), ("nil", ())]
        )
        b = types.TypeVar("a")
        self.Option, self.some, self.none = self._data(
            "Option", [b], lambda me: [("some", (b,)), ("none", ())]
        )
        c = types.TypeVar("a")
        self.Tree, self.rose = self._data("Tree", [c], lambda me: [("rose", (c, self.List(me(c))))])
        for enter in (self._general, self._access, self._folds, self._maps, self._pairs,
                      self._unfolds, self._trees):  # fmt: skip
            enter()

    @property
    def l(self) -> types.GlobalTypeVar:  # noqa: E743
        """The old name of List."""
        return self.List  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        """What has no such name; the functions are attributes, each a GlobalVar."""
        raise AttributeError(f"the prelude has no {name!r}{nearest(name, vars(self))}")

    def _data(
        self,
        name: str,
        variables: Sequence[types.TypeVar],
        fields: Callable[[types.GlobalTypeVar], Sequence[tuple[str, tuple[types.Type, ...]]]],
    ) -> tuple[Any, ...]:
        header = types.GlobalTypeVar(name)
        if header not in self.mod.type_definitions:
            made = tuple([adt.Constructor(n, inputs, header) for n, inputs in fields(header)])
            self.mod[header] = adt.TypeData(header, tuple(variables), made)
        return self.mod.get_type(name)

    def _enter(
        self, name: str, kinds: str, params: Sequence[tuple[str, Any]], body: Callable[..., Any]
    ) -> None:
        """Define a function. kinds: its type variables; params: names and types over these."""
        found = GlobalVar(name)
        setattr(self, name, found)
        if name in self.mod:
            return
        variables = {k: types.TypeVar(k) for k in kinds.split()}
        given = [
            RelayVar(
                n, t(*variables.values()) if callable(t) and not isinstance(t, types.Type) else t
            )
            for n, t in params
        ]
        attrs = {"type_params": tuple(variables.values())} if variables else {}
        self.mod[found] = Function(tuple(given), body(*given), attrs)

    def _list(self, t: types.Type) -> types.TypeCall:
        return types.TypeCall(self.List, (t,))

    def _case(
        self, data: RelaxExpr, empty: RelaxExpr | None, more: Callable[[Var, Var], RelaxExpr]
    ) -> adt.Match:
        """A choice between the empty list and one with a head and a tail."""
        h, t = _var("h"), _var("t")
        clauses = [_clause(self.cons, [h, t], more(h, t))]
        if empty is not None:
            clauses.insert(0, _clause(self.nil, [], empty))
        return adt.Match(data, tuple(clauses), empty is not None)

    # -------------------------------------------------------------------------------- functions

    def _general(self) -> None:
        self._enter("id", "a", [("x", lambda a: a)], lambda x: x)
        self._enter(
            "compose", "a b c",
            [("f", lambda a, b, c: types.FuncType((b,), c)),
             ("g", lambda a, b, c: types.FuncType((a,), b))],
            lambda f, g: _lambda(["x"], lambda x: f(g(x))),
        )  # fmt: skip
        self._enter(
            "iterate", "a",
            [("f", lambda a: types.FuncType((a,), a)), ("n", _INT)],
            lambda f, n: RELAY_IF(
                make("equal", n, const(0)),
                _lambda(["x"], lambda x: x),
                _lambda(["x"], lambda x: _g("iterate")(f, _minus(n))(f(x))),
            ),
        )  # fmt: skip

    def _access(self) -> None:
        xs = ("xs", lambda a: self._list(a))
        self._enter("hd", "a", [xs], lambda xs: self._case(xs, None, lambda h, t: h))
        self._enter("tl", "a", [xs], lambda xs: self._case(xs, None, lambda h, t: t))
        self._enter(
            "nth", "a", [xs, ("n", _INT)],
            lambda xs, n: _if_zero(n, _g("hd")(xs), _g("nth")(_g("tl")(xs), _minus(n))),
        )  # fmt: skip
        self._enter(
            "update", "a", [xs, ("n", _INT), ("v", lambda a: a)],
            lambda xs, n, v: _if_zero(
                n,
                self.cons(v, _g("tl")(xs)),
                self.cons(_g("hd")(xs), _g("update")(_g("tl")(xs), _minus(n), v)),
            ),
        )  # fmt: skip
        self._enter(
            "length", "a", [xs],
            lambda xs: self._case(xs, const(0), lambda h, t: _plus(_g("length")(t), const(1))),
        )  # fmt: skip

    def _folds(self) -> None:
        self._enter(
            "foldl", "a b",
            [("f", lambda a, b: types.FuncType((a, b), a)), ("s", lambda a, b: a),
             ("xs", lambda a, b: self._list(b))],
            lambda f, s, xs: self._case(xs, s, lambda h, t: _g("foldl")(f, f(s, h), t)),
        )  # fmt: skip
        self._enter(
            "foldr", "a b",
            [("f", lambda a, b: types.FuncType((a, b), b)), ("s", lambda a, b: b),
             ("xs", lambda a, b: self._list(a))],
            lambda f, s, xs: self._case(xs, s, lambda h, t: f(h, _g("foldr")(f, s, t))),
        )  # fmt: skip
        h = _var("x")
        self._enter(
            "foldr1", "a",
            [("f", lambda a: types.FuncType((a, a), a)), ("xs", lambda a: self._list(a))],
            lambda f, xs: adt.Match(
                xs,
                (
                    adt.Clause(
                        adt.PatternConstructor(
                            self.cons, (adt.PatternVar(h), adt.PatternConstructor(self.nil))
                        ),
                        h,
                    ),
                    _clause(self.cons, [a := _var("h"), b := _var("t")], f(a, _g("foldr1")(f, b))),
                ),
                False,
            ),
        )  # fmt: skip
        self._enter(
            "sum", "", [("xs", self._list(_INT))],
            lambda xs: _g("foldl")(_lambda(["x", "y"], _plus, _INT), const(0), xs),
        )  # fmt: skip

    def _maps(self) -> None:
        xs = ("xs", lambda a: self._list(a))
        self._enter(
            "map", "a b",
            [("f", lambda a, b: types.FuncType((a,), b)), ("xs", lambda a, b: self._list(a))],
            lambda f, xs: self._case(
                xs, self.nil(), lambda h, t: self.cons(f(h), _g("map")(f, t))
            ),
        )  # fmt: skip
        self._enter(
            "concat", "a", [xs, ("ys", lambda a: self._list(a))],
            lambda xs, ys: _g("foldr")(_lambda(["h", "t"], self.cons), ys, xs),
        )  # fmt: skip
        self._enter(
            "rev", "a", [xs],
            lambda xs: _g("foldl")(
                _lambda(["t", "h"], lambda t, h: self.cons(h, t)), self.nil(), xs
            ),
        )  # fmt: skip
        self._enter(
            "filter", "a",
            [("f", lambda a: types.FuncType((a,), types.tensor_type((), "bool"))), xs],
            lambda f, xs: self._case(
                xs,
                self.nil(),
                lambda h, t: RELAY_IF(f(h), self.cons(h, _g("filter")(f, t)), _g("filter")(f, t)),
            ),
        )  # fmt: skip

    def _pairs(self) -> None:
        self._enter(
            "zip", "a b",
            [("xs", lambda a, b: self._list(a)), ("ys", lambda a, b: self._list(b))],
            lambda xs, ys: self._case(
                xs,
                self.nil(),
                lambda h, t: self._case(
                    ys,
                    self.nil(),
                    lambda u, v: self.cons(Tuple((h, u)), _g("zip")(t, v)),
                ),
            ),
        )  # fmt: skip
        for name, fold in (("map_accuml", "foldl"), ("map_accumr", "foldr")):
            self._enter(
                name, "a b c",
                [("f", lambda a, b, c: types.FuncType((a, b), types.TupleType((a, c)))),
                 ("s", lambda a, b, c: a), ("xs", lambda a, b, c: self._list(b))],
                lambda f, s, xs, fold=fold: self._accumulated(f, s, xs, fold),
            )  # fmt: skip

    def _accumulated(self, f: Var, s: Var, xs: Var, fold: str) -> RelaxExpr:
        """The last state, and the list of what f gave on the way."""

        def step(state: Var, x: Var) -> RelaxExpr:
            made = f(TupleGetItem(state, 0), x)
            return Tuple((TupleGetItem(made, 0), self.cons(TupleGetItem(made, 1),
                                                           TupleGetItem(state, 1))))  # fmt: skip

        start = Tuple((s, self.nil()))
        if fold == "foldr":
            return _g(fold)(_lambda(["x", "p"], lambda x, p: step(p, x)), start, xs)
        done = _g(fold)(_lambda(["p", "x"], step), start, xs)
        return Tuple((TupleGetItem(done, 0), _g("rev")(TupleGetItem(done, 1))))

    def _unfolds(self) -> None:
        def params() -> list[tuple[str, Any]]:
            return [
                (
                    "f",
                    lambda a, b: types.FuncType(
                        (a,), types.TypeCall(self.Option, (types.TupleType((a, b)),))
                    ),
                ),
                ("s", lambda a, b: a),
            ]

        def unfoldr(f: Var, s: Var) -> RelaxExpr:
            p = _var("p")
            more = self.cons(TupleGetItem(p, 1), _g("unfoldr")(f, TupleGetItem(p, 0)))
            return adt.Match(
                f(s), (_clause(self.none, [], self.nil()), _clause(self.some, [p], more))
            )

        self._enter("unfoldr", "a b", params(), unfoldr)
        self._enter("unfoldl", "a b", params(), lambda f, s: _g("rev")(_g("unfoldr")(f, s)))

    def _trees(self) -> None:
        def tree(data: RelaxExpr, fn: Callable[[Var, Var], RelaxExpr]) -> adt.Match:
            v, children = _var("v"), _var("children")
            return adt.Match(data, (_clause(self.rose, [v, children], fn(v, children)),))

        self._enter(
            "tmap", "a b",
            [("f", lambda a, b: types.FuncType((a,), b)),
             ("t", lambda a, b: types.TypeCall(self.Tree, (a,)))],
            lambda f, t: tree(
                t,
                lambda v, children: self.rose(
                    f(v), _g("map")(_lambda(["x"], lambda x: _g("tmap")(f, x)), children)
                ),
            ),
        )  # fmt: skip
        self._enter(
            "size", "a", [("t", lambda a: types.TypeCall(self.Tree, (a,)))],
            lambda t: tree(
                t,
                lambda v, children: _plus(
                    _g("sum")(_g("map")(_g("size"), children)), const(1)
                ),
            ),
        )  # fmt: skip


def _g(name: str) -> GlobalVar:
    return GlobalVar(name)


def _var(name: str, t: types.Type | None = None) -> RelayVar:
    return RelayVar(name, types.IncompleteType() if t is None else t)


def _lambda(
    names: Sequence[str], body: Callable[..., RelaxExpr], t: types.Type | None = None
) -> Function:
    params = [_var(n, t) for n in names]
    return Function(tuple(params), body(*params))


def _clause(c: adt.Constructor, fields: Sequence[Var], value: RelaxExpr) -> adt.Clause:
    return adt.Clause(adt.PatternConstructor(c, tuple([adt.PatternVar(f) for f in fields])), value)


def _if_zero(n: Var, yes: RelaxExpr, no: RelaxExpr) -> Any:
    return RELAY_IF(make("equal", n, const(0)), yes, no)


def _plus(a: RelaxExpr, b: RelaxExpr) -> Call:
    return make("add", a, b)


def _minus(n: RelaxExpr) -> Call:
    return make("subtract", n, const(1))


STANDARD["prelude.rly"] = Prelude
