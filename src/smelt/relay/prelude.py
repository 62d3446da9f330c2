"""The prelude: lists, options and trees for modules, and functions on them.

    mod = smelt.IRModule()
    p = relay.prelude.Prelude(mod)
    p.cons(x, p.nil()), p.map(f, xs), p.length(xs)

Its names enter the module; types and functions that the module has already stay.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from smelt.ir.module import STANDARD, IRModule
from smelt.ir.types import GlobalTypeVar
from smelt.relax.nodes import GlobalVar
from smelt.runtime.errors import nearest

from .parser import parse

_TYPES = {
    GlobalTypeVar("List"): "type List[a] { cons(a, List[a]), nil }",
    GlobalTypeVar("Option"): "type Option[a] { some(a), none }",
    GlobalTypeVar("Tree"): "type Tree[a] { rose(a, List[Tree[a]]) }",
}
_FUNCTIONS = """
def @id[a](%x: a) { %x }
def @compose[a, b, c](%f: fn (b) -> c, %g: fn (a) -> b) { fn (%x) { %f(%g(%x)) } }
def @iterate[a](%f: fn (a) -> a, %n: int32) {
  if (%n == 0) { fn (%x) { %x } } else { fn (%x) { @iterate(%f, %n - 1)(%f(%x)) } }
}
def @hd[a](%xs: List[a]) { match? (%xs) { cons(%h, %t) => %h } }
def @tl[a](%xs: List[a]) { match? (%xs) { cons(%h, %t) => %t } }
def @nth[a](%xs: List[a], %n: int32) {
  if (%n == 0) { @hd(%xs) } else { @nth(@tl(%xs), %n - 1) }
}
def @update[a](%xs: List[a], %n: int32, %v: a) {
  if (%n == 0) { cons(%v, @tl(%xs)) } else { cons(@hd(%xs), @update(@tl(%xs), %n - 1, %v)) }
}
def @length[a](%xs: List[a]) {
  match (%xs) { nil => 0, cons(%h, %t) => @length(%t) + 1 }
}
def @foldl[a, b](%f: fn (a, b) -> a, %s: a, %xs: List[b]) {
  match (%xs) { nil => %s, cons(%h, %t) => @foldl(%f, %f(%s, %h), %t) }
}
def @foldr[a, b](%f: fn (a, b) -> b, %s: b, %xs: List[a]) {
  match (%xs) { nil => %s, cons(%h, %t) => %f(%h, @foldr(%f, %s, %t)) }
}
def @foldr1[a](%f: fn (a, a) -> a, %xs: List[a]) {
  match? (%xs) { cons(%x, nil) => %x, cons(%h, %t) => %f(%h, @foldr1(%f, %t)) }
}
def @sum(%xs: List[int32]) { @foldl(fn (%x: int32, %y: int32) { %x + %y }, 0, %xs) }
def @map[a, b](%f: fn (a) -> b, %xs: List[a]) {
  match (%xs) { nil => nil, cons(%h, %t) => cons(%f(%h), @map(%f, %t)) }
}
def @concat[a](%xs: List[a], %ys: List[a]) { @foldr(fn (%h, %t) { cons(%h, %t) }, %ys, %xs) }
def @rev[a](%xs: List[a]) { @foldl(fn (%t, %h) { cons(%h, %t) }, nil, %xs) }
def @filter[a](%f: fn (a) -> bool, %xs: List[a]) {
  match (%xs) {
    nil => nil,
    cons(%h, %t) => if (%f(%h)) { cons(%h, @filter(%f, %t)) } else { @filter(%f, %t) },
  }
}
def @zip[a, b](%xs: List[a], %ys: List[b]) {
  match (%xs) {
    nil => nil,
    cons(%h, %t) => match (%ys) { nil => nil, cons(%u, %v) => cons((%h, %u), @zip(%t, %v)) },
  }
}
def @map_accuml[a, b, c](%f: fn (a, b) -> (a, c), %s: a, %xs: List[b]) {
  %0 = @foldl(fn (%p, %x) { %1 = %f(%p.0, %x); (%1.0, cons(%1.1, %p.1)) }, (%s, nil), %xs);
  (%0.0, @rev(%0.1))
}
def @map_accumr[a, b, c](%f: fn (a, b) -> (a, c), %s: a, %xs: List[b]) {
  @foldr(fn (%x, %p) { %0 = %f(%p.0, %x); (%0.0, cons(%0.1, %p.1)) }, (%s, nil), %xs)
}
def @unfoldr[a, b](%f: fn (a) -> Option[(a, b)], %s: a) {
  match (%f(%s)) { none => nil, some(%p) => cons(%p.1, @unfoldr(%f, %p.0)) }
}
def @unfoldl[a, b](%f: fn (a) -> Option[(a, b)], %s: a) { @rev(@unfoldr(%f, %s)) }
def @tmap[a, b](%f: fn (a) -> b, %t: Tree[a]) {
  match (%t) { rose(%v, %children) => rose(%f(%v), @map(fn (%x) { @tmap(%f, %x) }, %children)) }
}
def @size[a](%t: Tree[a]) { match (%t) { rose(%v, %children) => @sum(@map(@size, %children)) + 1 } }
"""


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
        own = self.mod.type_definitions
        made = _made({n: own[n] for n in _TYPES if n in own}) if own else _standard()
        for header, data in made.type_definitions.items():
            if header not in own:
                self.mod[header] = data
        self.List, self.cons, self.nil = self.mod.get_type("List")
        self.Option, self.some, self.none = self.mod.get_type("Option")
        self.Tree, self.rose = self.mod.get_type("Tree")
        for name, function in made.functions.items():
            setattr(self, name, GlobalVar(name))
            if name not in self.mod:
                self.mod[name] = function

    @property
    def l(self) -> GlobalTypeVar:  # noqa: E743
        """The old name of List."""
        return self.List  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        """What has no such name; the functions are attributes, each a GlobalVar."""
        raise AttributeError(f"the prelude has no {name!r}{nearest(name, vars(self))}")


def _made(own: dict[GlobalTypeVar, Any]) -> IRModule:
    """The definitions, over a module's own data types where it has them."""
    types = [text for header, text in _TYPES.items() if header not in own]
    return parse("\n".join([*types, _FUNCTIONS]), "the prelude", IRModule({}, {"type_defs": own}))


@cache
def _standard() -> IRModule:
    """The definitions by themselves: modules share them."""
    return _made({})


STANDARD["prelude.rly"] = Prelude
