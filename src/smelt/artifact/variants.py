"""ModelSizes that a model's user declared: their ranges, and variants for those that are likely.

A variant is the graph with numbers in the places of sizes, compiled like any other. The host
program takes it where the sizes of a call are those (host.entry_program); constants that variants
have in common stand in memory once. ModelSizes that broadcast make a variant too, in which they are
equal: only the general code can repeat an extent of 1. So does a size of 0 where the general code
needs an element, as the number of x[:, :1] does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from smelt.arith import Analyzer
from smelt.ir.build import all_of, any_of, equal, is_const, select, value_of
from smelt.ir.errors import CompileError, TypeMismatch
from smelt.ir.expr import GE, INDEX, LE, Expr, IntImm, Var, binary, const
from smelt.ir.module import IRModule
from smelt.ir.sizes import Size, parse_extent
from smelt.ir.walk import free_vars, substitute
from smelt.relax.match_cast import specialized
from smelt.relax.nodes import Function
from smelt.relax.shapes import sizes_of_parameters
from smelt.relax.transform.unify_sizes import NOTES, assume_equal, unify_sizes
from smelt.runtime.abi import ABI_VERSION
from smelt.runtime.errors import LoadError
from smelt.runtime.sizes import ModelSizes
from smelt.target import Target
from smelt.target.processor import needed_features
from smelt.te.broadcast import EQUATIONS, LEAST, simple
from smelt.tir.nodes import PrimFunc

from .host import Body, by_names

Equation = tuple[str, str, str, bool]
"""Two extents that have to be equal, who says so, and whether one may be 1 instead."""

_MOST = 16
"""Variants of one model."""


@dataclass(frozen=True)
class Variant:
    """A graph for some values of sizes: numbers, or what is expected of other sizes."""

    sizes: Mapping[str, Expr]
    mod: IRModule

    @property
    def texts(self) -> dict[str, int | str]:
        """The sizes as metadata hold them."""
        return {n: size_text(e) for n, e in self.sizes.items()}


@dataclass(frozen=True)
class Declared:
    """Ranges of sizes by name, from and to (None: no limit); graphs for likely ones.

    answered  equations that hold wherever no variant is taken
    added     equations of variants
    """

    ranges: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    variants: Sequence[Variant] = ()
    answered: Sequence[Equation] = ()
    added: Sequence[Equation] = ()

    def equations(self, main: Function | PrimFunc) -> list[Equation]:
        """What has to be equal at entry."""
        general = [e for e in main.attrs.get(EQUATIONS, ()) if e not in self.answered]
        return [*general, *self.added]

    def optimized(self, passes: Callable[[IRModule], IRModule]) -> Declared:
        """The same with the graphs of the variants after some passes."""
        return replace(self, variants=[Variant(v.sizes, passes(v.mod)) for v in self.variants])

    def checks(self, symbols: Sequence[Var], main: Function | PrimFunc) -> list[tuple[Expr, str]]:
        """What has to hold of the sizes of a call, for the native program, and how it is said."""
        found: list[tuple[Expr, str]] = []
        by_name = {v.name: v for v in symbols}
        for name, (low, high) in self.ranges.items():
            if name in by_name:
                bounds = [binary(GE, by_name[name], low)]
                bounds += [] if high is None else [binary(LE, by_name[name], high)]
                found.append((all_of(bounds), f"{name} is out of range"))
        for left, right, who, either in self.equations(main):
            a, b = (parse_extent(t, by_name.__getitem__) for t in (left, right))
            if a is not None and b is not None:
                fits = any_of(equal(a, b), *[equal(e, 1) for e in (a, b) if either])
                found.append((fits, f"{who} needs {left} = {right}{' or 1' if either else ''}"))
        for text, who in main.attrs.get(LEAST, ()):
            if (e := parse_extent(text, by_name.__getitem__)) is not None:
                found.append((binary(GE, e, 0), f"{who} needs {text} >= 0"))
        return found

    def metadata(self, symbols: Sequence[Var], main: Function | PrimFunc) -> dict[str, Any]:
        """What the runtime has to know for its messages."""
        names = {v.name for v in symbols}
        found = {
            "size_ranges": {n: list(r) for n, r in self.ranges.items() if n in names},
            "size_equations": [list(e) for e in self.equations(main)],
            "size_least": [list(e) for e in main.attrs.get(LEAST, ())],
            "size_notes": list(main.attrs.get(NOTES, ())),
            "variants": [v.texts for v in self.variants],
        }
        return {k: v for k, v in found.items() if v}


def declare(mod: IRModule, sizes: Mapping[str, Size] | None) -> Declared:
    """What is known of the sizes of a module whose equal sizes are one already.

    sizes  what the user declared; None: there are no ranges

    Raises CompileError for a declared size that the model does not have (any more), and for too
    many variants.
    """
    main = mod["main"]
    own = {v.name: v for v in sizes_of_parameters(main)}
    if sizes is not None:
        _check_told(mod, list(own))
    given = sizes or {}
    for name in given:
        if name not in own:
            notes = [n for n in main.attrs.get(NOTES, ()) if n.startswith(f"{name} is ")]
            why = f"\n  {notes[0]}" if notes else ""
            raise CompileError(
                f"{mod.attrs.get('name', 'model')}: the size {name} that shapes declares is no "
                f"size of its own{why}\n  sizes: {', '.join(own) or 'none'}"
            )
    ranges = {n: (s.min, s.max) for n, s in given.items()}
    likely = [s for s in given.values() if s.likely]
    count = math.prod(len(s.likely) for s in likely)
    if count > _MOST:
        product = " times ".join(f"{len(s.likely)} of {s.name}" for s in likely)
        raise CompileError(
            f"{mod.attrs.get('name', 'model')}: likely sizes make {count} variants ({product}); "
            f"{_MOST} are possible: a variant is code of its own"
        )
    found, answered, added = _of_nothing(mod, own, ranges)
    variants = sorted(found, key=lambda v: -len(v.sizes))  # the first that fits is taken
    choices = list(itertools.product(*(s.likely for s in likely))) if likely else []
    for values in [*choices, ()]:
        chosen = {s.name: const(v, INDEX) for s, v in zip(likely, values, strict=False)}
        made = specialized(main, _in(own, chosen)) if chosen else main
        equal_ones: dict[str, Expr] = {}
        with suppress(TypeMismatch, CompileError):  # those that cannot all be equal have one form
            made, equal_ones = assume_equal(made)
        if when := chosen | equal_ones:
            variants.append(_variant(mod, made, when))
    return Declared(ranges, variants, answered, added)


def may_vary(main: Function) -> bool:
    """Whether equations of a function's sizes ask for variants, whatever its user declares."""
    own = {v.name: v for v in sizes_of_parameters(main)}
    return any(e[3] or _needed(e, own) for e in main.attrs.get(EQUATIONS, ()))


def _variant(mod: IRModule, main: Function, when: Mapping[str, Expr]) -> Variant:
    attrs = {k: v for k, v in main.attrs.items() if k not in (NOTES, EQUATIONS, LEAST)}
    return Variant(when, mod.with_functions({"main": main.replace(attrs=attrs)}))


def _of_nothing(
    mod: IRModule, own: Mapping[str, Var], ranges: Mapping[str, tuple[int, int | None]]
) -> tuple[list[Variant], list[Equation], list[Equation]]:
    """Variants for sizes of 0 that break equations which other sizes keep; these equations; those
    that hold in the variants instead.

    ModelSizes that have no such variant (an element at a known place is read) keep their equations.
    """
    main, made = mod["main"], dict[frozenset[str], Variant]()
    answered, kept = list[Equation](), list[tuple[frozenset[str], Equation]]()
    for equation in main.attrs.get(EQUATIONS, ()):
        groups = [g for g in _needed(equation, own) if not any(ranges.get(n, (0,))[0] for n in g)]
        found = {frozenset[str](), *made}
        for g in groups:
            found |= {z | g for z in found}
        more = sorted(found - {frozenset(), *made}, key=sorted)
        if not groups or len(made) + len(more) > _MOST // 2:
            continue
        try:
            new = {z: _without(mod, own, z) for z in more}
            solved = {z: unify_sizes(v.mod)["main"].attrs for z, v in new.items()}
        except (TypeMismatch, CompileError):
            continue
        if any(NOTES in a for a in solved.values()):
            continue  # other sizes would be numbers then
        made |= new
        answered.append(equation)
        kept += [(z, e) for z, a in solved.items() for e in a.get(EQUATIONS, ())]
    added = [_where(z, e) for z, e in kept if e not in main.attrs[EQUATIONS]
             and not _answered(z, _needed(e, own), made)]  # fmt: skip
    return list(made.values()), answered, added


def _answered(
    zero: frozenset[str], groups: Sequence[frozenset[str]], made: Container[frozenset[str]]
) -> bool:
    """Whether a variant in which some sizes are 0 is left for others where it lacks elements."""
    return bool(groups) and all(zero | g in made for g in groups)


def _without(mod: IRModule, own: Mapping[str, Var], names: frozenset[str]) -> Variant:
    """The variant in which some sizes are 0."""
    sizes: dict[str, Expr] = {n: const(0, INDEX) for n in sorted(names)}
    return _variant(mod, specialized(mod["main"], _in(own, sizes)), sizes)


def _where(names: frozenset[str], equation: Equation) -> Equation:
    """An equation that has to hold where some sizes are 0."""
    left, right, who, either = equation
    for name in sorted(names):
        right = f"select({name} == 0, {right}, {left})"
    return left, right, who, either


def _in(own: Mapping[str, Var], sizes: Mapping[str, Expr]) -> dict[Var, Expr]:
    return {own[n]: e for n, e in sizes.items()}


def _needed(equation: Equation, own: Mapping[str, Var]) -> list[frozenset[str]]:
    """Groups of sizes: where none is 0 as a whole, an equation holds. None for any other."""
    left, right, _, either = equation
    a, b = [parse_extent(t, own.__getitem__) for t in (left, right)]
    if either or a is None or b is None:
        return []
    sizes = sorted(free_vars(a - b), key=lambda v: v.name)

    def holds(some: Collection[Var]) -> bool:
        known = Analyzer({v: (int(v in some), None) for v in sizes})
        return is_const(known.simplify(a - b), 0)

    if sizes and all(holds([v]) for v in sizes):
        return [frozenset([v.name for v in sizes])]  # a sum
    return [frozenset([v.name]) for v in sizes] if holds(sizes) else []  # a product


def _check_told(mod: IRModule, names: Sequence[str]) -> None:
    """Raise a CompileError where no call could tell a size from the extents of the inputs."""
    main = mod["main"]
    shapes = [[size_text(e) for e in p.type.shape] for p in main.params]
    name = str(mod.attrs.get("name", "model"))
    try:
        ModelSizes(name, {"symbols": names}, shapes)
    except LoadError as e:
        inputs = "; ".join(
            f"{p.name} ({', '.join(map(str, s))})" for p, s in zip(main.params, shapes, strict=True)
        )
        raise CompileError(
            f"{str(e).partition(',')[0]}, and cannot be solved for\n"
            f"  inputs: {inputs}\n"
            "  legal: sizes that stand alone in some extent, or in sums such as 2 * n + 1"
        ) from None


def size_text(e: Expr) -> int | str:
    """An extent as metadata hold it: a number, or an expression as text."""
    return e.value if isinstance(e, IntImm) else str(e)


def tensor_data(dtype: str, shape: Iterable[Expr], **more: Any) -> dict[str, Any]:
    """A tensor as metadata hold it."""
    return {**more, "dtype": dtype, "shape": [size_text(e) for e in shape]}


def code_data(
    name: object, target: Target, tensors: Mapping[str, Iterable[tuple[Any, str, Iterable[Expr]]]],
    symbols: Iterable[Var], workspace: Expr,
) -> dict[str, Any]:  # fmt: skip
    """What the metadata of any native code say of it.

    tensors  names, element types and shapes of the "inputs" and the "outputs"
    """
    return {
        "abi": ABI_VERSION,
        "name": str(name),
        "target": str(target),
        **{role: [tensor_data(t, s, name=str(n)) for n, t, s in found]
           for role, found in tensors.items()},
        "symbols": [v.name for v in symbols],
        "features": needed_features(target),
        "workspace_bytes": value_of(workspace),
    }  # fmt: skip


def shapes_of(main: Function, variants: Sequence[Variant]) -> list[list[Expr]]:
    """The shapes of a function's results, with those that they have for sizes of 0."""
    own = {v.name: v for v in sizes_of_parameters(main)}
    shapes = _shapes(main)
    for v in reversed([v for v in variants if all(value_of(e) == 0 for e in v.sizes.values())]):
        at = _in(own, v.sizes)
        for shape, other in zip(shapes, _shapes(v.mod["main"]), strict=True):
            for d, e in enumerate(other):
                new = by_names(e, own)
                if is_const(simple(substitute(shape[d], at) - new), 0):
                    continue
                for size in at:
                    new = select(equal(size, 0), new, shape[d])
                shape[d] = new
    return shapes


def _shapes(main: Any) -> list[list[Expr]]:
    return [list(r.type.shape) for r in main.results()]


def workspace_of(general: Body, variants: Sequence[Body]) -> Expr:
    """The bytes of workspace that a call needs, in the general sizes."""
    by_name = {v.name: v for v in general.plan.symbols}
    total = general.memory.total
    for b in reversed(variants):
        own: dict[Var, Expr] = {v: by_name[v.name] for v in b.plan.symbols}
        fits = all_of([equal(by_name[n], by_names(v, by_name)) for n, v in b.when.items()])
        total = select(fits, substitute(b.memory.total, own), total)
    return total
