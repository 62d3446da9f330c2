"""Matches of patterns as functions of the module, and neighbours of one compiler together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.relax.dpl.blame import asked
from smelt.relax.dpl.graph import call_function
from smelt.relax.dpl.match import PatternBase
from smelt.relax.dpl.partition import Match, Partitioner, called
from smelt.relax.graph import transform
from smelt.relax.nodes import Call, Function, GlobalVar, RelaxExpr, Var

from .merge_composite import graph_functions
from .regions import Lifted, Region, adopt_items, lift_regions, merge_regions, top_level
from .rewriting import functions_of


@dataclass(frozen=True, eq=False)
class PatternCheckContext:
    """What the check of a FusionPattern gets.

    matched_expr     the value that the match computes
    annotated_expr   by name the values that the annotation patterns fit
    matched_values   all values of the match, operands first
    users            the users of every value of the function
    """

    matched_expr: RelaxExpr
    annotated_expr: Mapping[str, RelaxExpr]
    matched_values: Sequence[RelaxExpr]
    users: Mapping[RelaxExpr, Sequence[RelaxExpr]]


class FusionPattern:
    """A pattern of a compiler with its name.

    name                 "<compiler>.<what it does>"
    annotation_patterns  parts of the pattern by name, for the check
    check                gets a PatternCheckContext; False refuses the match
    attrs_getter         gets the annotated values by name, returns attributes for the function
    """

    def __init__(
        self,
        name: str,
        pattern: PatternBase,
        annotation_patterns: Mapping[str, PatternBase] | None = None,
        check: Callable[[PatternCheckContext], bool] | None = None,
        attrs_getter: Callable[[Mapping[str, RelaxExpr]], Mapping[str, Any]] | None = None,
    ) -> None:
        """Keep the parts."""
        if not isinstance(name, str) or not isinstance(pattern, PatternBase):
            raise TypeMismatch(
                f"FusionPattern takes a name and a pattern, not {name!r} and {pattern!r}"
            )
        self.name, self.pattern = name, pattern
        self.annotation_patterns = dict(annotation_patterns or {})
        self.check, self.attrs_getter = check, attrs_getter

    @staticmethod
    def of(entry: Any) -> FusionPattern:
        """A FusionPattern from one, or from a tuple of its parts."""
        if isinstance(entry, FusionPattern):
            return entry
        if not isinstance(entry, tuple | list) or not 2 <= len(entry) <= 5:
            raise TypeMismatch(
                f"FuseOpsByPattern: {entry!r}; a FusionPattern or a tuple (name, pattern[, "
                "annotation_patterns[, check[, attrs_getter]]]) is needed"
            )
        return FusionPattern(*entry)

    def annotated(self, m: Match) -> dict[str, RelaxExpr]:
        """The values of a match by the names of the annotation patterns."""
        found = {n: m.bound[p] for n, p in self.annotation_patterns.items() if p in m.bound}
        return {n: values[0] for n, values in found.items()}

    def accepts(self, m: Match, users: Mapping[RelaxExpr, Sequence[RelaxExpr]]) -> bool:
        """What the check says of a match."""
        if self.check is None:
            return True
        context = PatternCheckContext(m.root, self.annotated(m), tuple(m.inside), users)
        return asked(self.check, context, m.root, m.inside, self.name)


def fuse_ops_by_pattern(
    mod: IRModule,
    patterns: Sequence[Any],
    bind_constants: bool = True,
    annotate_codegen: bool = False,
) -> IRModule:
    """A module in which every match is a function of the module, called by name.

    patterns          FusionPatterns, or tuples of their parts, in order of preference
    bind_constants    whether constants stay inside; else they are passed
    annotate_codegen  put each into a function of its own with the attributes "Codegen" (the first
                      part of the pattern's name) and "global_symbol"
    The functions have the attributes "Composite" (the pattern's name) and "Primitive".
    """
    made: dict[str, Any] = {}
    table = [FusionPattern.of(entry) for entry in patterns]
    for name, f in graph_functions(mod).items():
        graph = Partitioner(f)
        for entry in table:
            taken = {**mod.functions, **made}
            found = _fused(graph, entry, bind_constants, annotate_codegen, taken)
            if found:
                made |= {name: found.pop(""), **found}
                graph = Partitioner(made[name])
    return mod.with_functions(made) if made else mod


def _fused(
    graph: Partitioner,
    entry: FusionPattern,
    bind_constants: bool,
    annotate_codegen: bool,
    taken: Mapping[str, Any],
) -> dict[str, RelaxExpr]:
    """The functions that one pattern's matches become by name, and under "" their caller."""
    users = graph.graph.users
    matches = list(graph.matches(entry.pattern, lambda m: entry.accepts(m, users)))
    if not matches:
        return {}
    functions: dict[str, RelaxExpr] = {}
    calls: dict[RelaxExpr, tuple[Any, list[RelaxExpr], str]] = {}
    for m in reversed(matches):
        name = _fresh("fused_" + "_".join(m.op_names()).replace(".", "_"), {**taken, **functions})
        attrs: dict[str, Any] = {"Composite": entry.name, "Primitive": 1}
        if entry.attrs_getter is not None:
            attrs |= entry.attrs_getter(entry.annotated(m))
        inner, inputs = m.function(attrs, "p", bind_constants)
        if annotate_codegen:
            codegen = entry.name.split(".")[0]
            name = _fresh(f"{name}_{codegen}", {**taken, **functions})
            inner = _codegen(inner, codegen, name)
        functions[name] = inner
        calls[m.root] = (GlobalVar(name), inputs, "")
    return {**functions, "": called(graph, calls)}


def _codegen(inner: Function, codegen: str, symbol: str) -> Function:
    """A function of the module around a composite."""
    params = tuple([Var(p.name, p.type) for p in inner.params])
    body = call_function(inner, params, inner.body.type)
    return Function(params, body, {"Codegen": codegen, "global_symbol": symbol})


def _fresh(stem: str, taken: Mapping[str, Any]) -> str:
    name, n = stem, 0
    while name in taken:
        n += 1
        name = f"{stem}{n}"
    return name


def merge_composite_functions(mod: IRModule) -> IRModule:
    """Neighbouring calls of composites of one compiler become one function of the module.

    It has the attributes "Codegen" and "global_symbol", and calls the composites in place. The
    composites that nothing else calls leave the module.
    """
    composites = {name: f for name, f in functions_of(mod).items() if "Composite" in f.attrs}
    made: dict[str, Any] = {}
    for name, f in graph_functions(mod).items():
        inlined = _in_place(f, composites)
        order = top_level(inlined)
        regions: dict[RelaxExpr, Region] = {}
        for n in order:
            callee: Any = n.op if isinstance(n, Call) else None
            if isinstance(callee, Function) and "Composite" in callee.attrs:
                regions[n] = Region(str(callee.attrs["Composite"]).split(".")[0])
        if not regions:
            continue
        regions = merge_regions(order, adopt_items(order, regions))

        def make(part: Lifted) -> tuple[GlobalVar, Function]:
            target = part.region.target
            calls: list[Any] = [n.op for n in part.members if isinstance(n, Call)]
            names = [known for c in calls for known, g in composites.items() if c is g]
            symbol = _fresh(f"{'_'.join(names[:2])}_{target}", {**mod.functions, **made})
            made[symbol] = part.function("p", {"Codegen": target, "global_symbol": symbol}, True)
            return GlobalVar(symbol), made[symbol]

        made[name] = lift_regions(inlined, regions, make)[0]
    gone = composites.keys() if made else ()
    kept = {n: f for n, f in mod.functions.items() if n not in gone}
    return IRModule({**kept, **made}, mod.attrs) if made else mod


def _in_place(f: Function, composites: Mapping[str, Function]) -> Function:
    """A function whose composites are called in place of by name."""

    def replace(old: Any, new: Any) -> RelaxExpr | None:
        callee = new.op if isinstance(new, Call) else None
        if not isinstance(callee, GlobalVar) or callee.name not in composites:
            return None
        args = [a for a in new.args if a is not None]
        return call_function(composites[callee.name], args, new.type, new.name)

    return transform(f, replace)  # type: ignore[no-any-return]
