"""The prelude: lists, options and trees for modules, and functions on them.

    mod = smelt.IRModule()
    p = relay.prelude.Prelude(mod)
    p.cons(x, p.nil()), p.map(f, xs), p.length(xs)

Its names enter the module; types and functions that the module has already stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from typing import Any

from smelt.ir import types
from smelt.ir.module import STANDARD, IRModule
from smelt.relax import adt
from smelt.relax.nodes import Call, Function, GlobalVar, RelaxExpr, Tuple, TupleGetItem, Var
from smelt.runtime.errors import nearest

from . import expr
from .dialect import const, make
from .expr import RelayVar
from .parser_lexer import Text, tokens_of
from .parser_types import TypeReader

_INT = types.tensor_type((), "int32")


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
        self.List, self.cons, self.nil = self._data("List", cons="(a, List[a])", nil="()")
        self.Option, self.some, self.none = self._data("Option", some="(a,)", none="()")
        self.Tree, self.rose = self._data("Tree", rose="(a, List[Tree[a]])")
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

    def _data(self, name: str, **fields: str) -> tuple[Any, ...]:
        """A data type over "a", by its constructors with the types of their fields."""
        header = types.GlobalTypeVar(name)
        if header not in self.mod.type_definitions:
            variable = types.TypeVar("a")
            made = [adt.Constructor(n, _type(text, variable).items, header)
                    for n, text in fields.items()]  # fmt: skip
            self.mod[header] = adt.TypeData(header, (variable,), tuple(made))
        return self.mod.get_type(name)

    def _enter(self, name: str, kind: str, body: Callable[..., Any]) -> None:
        """Define a function of this type, whose parameters are called as those of `body`."""
        found = GlobalVar(name)
        setattr(self, name, found)
        if name in self.mod:
            return
        t = _type(kind)
        given = [RelayVar(n, v) for n, v in zip(signature(body).parameters, t.arg_types,
                                                strict=True)]  # fmt: skip
        attrs = {"type_params": t.type_params} if t.type_params else {}
        self.mod[found] = Function(tuple(given), body(*given), attrs)

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
        self._enter("id", "fn [a](a)", lambda x: x)
        self._enter(
            "compose", "fn [a, b, c](fn (b) -> c, fn (a) -> b)",
            lambda f, g: _lambda(lambda x: f(g(x))),
        )  # fmt: skip
        self._enter(
            "iterate", "fn [a](fn (a) -> a, int32)",
            lambda f, n: _if_zero(
                n, _lambda(lambda x: x), _lambda(lambda x: _g("iterate")(f, _minus(n))(f(x)))
            ),
        )  # fmt: skip

    def _access(self) -> None:
        self._enter("hd", "fn [a](List[a])", lambda xs: self._case(xs, None, lambda h, t: h))
        self._enter("tl", "fn [a](List[a])", lambda xs: self._case(xs, None, lambda h, t: t))
        self._enter(
            "nth", "fn [a](List[a], int32)",
            lambda xs, n: _if_zero(n, _g("hd")(xs), _g("nth")(_g("tl")(xs), _minus(n))),
        )  # fmt: skip
        self._enter(
            "update", "fn [a](List[a], int32, a)",
            lambda xs, n, v: _if_zero(
                n,
                self.cons(v, _g("tl")(xs)),
                self.cons(_g("hd")(xs), _g("update")(_g("tl")(xs), _minus(n), v)),
            ),
        )  # fmt: skip
        self._enter(
            "length", "fn [a](List[a])",
            lambda xs: self._case(xs, const(0), lambda h, t: _plus(_g("length")(t), const(1))),
        )  # fmt: skip

    def _folds(self) -> None:
        self._enter(
            "foldl", "fn [a, b](fn (a, b) -> a, a, List[b])",
            lambda f, s, xs: self._case(xs, s, lambda h, t: _g("foldl")(f, f(s, h), t)),
        )  # fmt: skip
        self._enter(
            "foldr", "fn [a, b](fn (a, b) -> b, b, List[a])",
            lambda f, s, xs: self._case(xs, s, lambda h, t: f(h, _g("foldr")(f, s, t))),
        )  # fmt: skip

        def foldr1(f: Var, xs: Var) -> RelaxExpr:
            x, h, t = _var("x"), _var("h"), _var("t")
            nothing = adt.PatternConstructor(self.nil)
            last = adt.PatternConstructor(self.cons, (adt.PatternVar(x), nothing))
            more = _clause(self.cons, [h, t], f(h, _g("foldr1")(f, t)))
            return adt.Match(xs, (adt.Clause(last, x), more), False)

        self._enter("foldr1", "fn [a](fn (a, a) -> a, List[a])", foldr1)
        self._enter(
            "sum", "fn (List[int32])",
            lambda xs: _g("foldl")(_lambda(lambda x, y: _plus(x, y), _INT), const(0), xs),
        )  # fmt: skip

    def _maps(self) -> None:
        self._enter(
            "map", "fn [a, b](fn (a) -> b, List[a])",
            lambda f, xs: self._case(
                xs, self.nil(), lambda h, t: self.cons(f(h), _g("map")(f, t))
            ),
        )  # fmt: skip
        self._enter(
            "concat", "fn [a](List[a], List[a])",
            lambda xs, ys: _g("foldr")(_lambda(lambda h, t: self.cons(h, t)), ys, xs),
        )  # fmt: skip
        self._enter(
            "rev", "fn [a](List[a])",
            lambda xs: _g("foldl")(_lambda(lambda t, h: self.cons(h, t)), self.nil(), xs),
        )  # fmt: skip
        self._enter(
            "filter", "fn [a](fn (a) -> bool, List[a])",
            lambda f, xs: self._case(
                xs,
                self.nil(),
                lambda h, t: expr.If(f(h), self.cons(h, _g("filter")(f, t)), _g("filter")(f, t)),
            ),
        )  # fmt: skip

    def _pairs(self) -> None:
        self._enter(
            "zip", "fn [a, b](List[a], List[b])",
            lambda xs, ys: self._case(xs, self.nil(), lambda h, t: self._case(
                ys, self.nil(), lambda u, v: self.cons(Tuple((h, u)), _g("zip")(t, v))
            )),
        )  # fmt: skip
        for name, fold in (("map_accuml", "foldl"), ("map_accumr", "foldr")):
            self._enter(
                name, "fn [a, b, c](fn (a, b) -> (a, c), a, List[b])",
                partial(self._accumulated, fold),
            )  # fmt: skip

    def _accumulated(self, fold: str, f: Var, s: Var, xs: Var) -> RelaxExpr:
        """The last state, and the list of what f gave on the way."""

        def step(p: Var, x: Var) -> RelaxExpr:
            made = f(TupleGetItem(p, 0), x)
            given = self.cons(TupleGetItem(made, 1), TupleGetItem(p, 1))
            return Tuple((TupleGetItem(made, 0), given))

        start = Tuple((s, self.nil()))
        if fold == "foldr":
            return _g(fold)(_lambda(lambda x, p: step(p, x)), start, xs)
        done = _g(fold)(_lambda(step), start, xs)
        return Tuple((TupleGetItem(done, 0), _g("rev")(TupleGetItem(done, 1))))

    def _unfolds(self) -> None:
        def unfoldr(f: Var, s: Var) -> RelaxExpr:
            p = _var("p")
            more = self.cons(TupleGetItem(p, 1), _g("unfoldr")(f, TupleGetItem(p, 0)))
            clauses = _clause(self.none, [], self.nil()), _clause(self.some, [p], more)
            return adt.Match(f(s), clauses)

        kind = "fn [a, b](fn (a) -> Option[(a, b)], a)"
        self._enter("unfoldr", kind, unfoldr)
        self._enter("unfoldl", kind, lambda f, s: _g("rev")(_g("unfoldr")(f, s)))

    def _trees(self) -> None:
        def tree(data: RelaxExpr, fn: Callable[[Var, Var], RelaxExpr]) -> adt.Match:
            v, children = _var("v"), _var("children")
            return adt.Match(data, (_clause(self.rose, [v, children], fn(v, children)),))

        def tmap(f: Var, t: Var) -> RelaxExpr:
            below = _lambda(lambda x: _g("tmap")(f, x))
            return tree(t, lambda v, children: self.rose(f(v), _g("map")(below, children)))

        self._enter("tmap", "fn [a, b](fn (a) -> b, Tree[a])", tmap)
        self._enter(
            "size", "fn [a](Tree[a])",
            lambda t: tree(
                t, lambda v, children: _plus(_g("sum")(_g("map")(_g("size"), children)), const(1))
            ),
        )  # fmt: skip


def _type(text: str, *variables: types.TypeVar) -> Any:
    """A type in Relay's words, which may mention the prelude's data types."""
    whole = Text(text, "the prelude")
    reader = TypeReader(whole, *tokens_of(whole)[:2])
    reader.data_types = dict.fromkeys(("List", "Option", "Tree"), 1)
    reader.type_vars = {v.name: v for v in variables}
    return reader.type()


def _g(name: str) -> GlobalVar:
    return GlobalVar(name)


def _var(name: str, t: types.Type | None = None) -> RelayVar:
    return RelayVar(name, types.IncompleteType() if t is None else t)


def _lambda(body: Callable[..., RelaxExpr], t: types.Type | None = None) -> Function:
    """A closure whose parameters are called as those of `body`, and are of one type."""
    params = [_var(n, t) for n in signature(body).parameters]
    return Function(tuple(params), body(*params))


def _clause(c: adt.Constructor, fields: Sequence[Var], value: RelaxExpr) -> adt.Clause:
    return adt.Clause(adt.PatternConstructor(c, tuple([adt.PatternVar(f) for f in fields])), value)


def _if_zero(n: Var, yes: RelaxExpr, no: RelaxExpr) -> Any:
    return expr.If(make("equal", n, const(0)), yes, no)


def _plus(a: RelaxExpr, b: RelaxExpr) -> Call:
    return make("add", a, b)


def _minus(n: RelaxExpr) -> Call:
    return make("subtract", n, const(1))


STANDARD["prelude.rly"] = Prelude
