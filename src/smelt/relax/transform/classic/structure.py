"""Passes about the shape of programs: names, functions, fusion, partitioning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.ir.errors import CompileError, TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.transform import Pass
from smelt.relax.graph import is_foreign
from smelt.relax.nodes import GlobalVar
from smelt.relax.op.entry import CORE_NAMES
from smelt.tir.nodes import PrimFunc

from ..eliminate_common_subexpr import eliminate_common_subexpr
from ..eliminate_dead_code import eliminate_dead_code, eliminate_dead_lets
from ..expand_ops import expand_ops
from ..fold_constants import fold_constants
from ..fuse_ops import fuse_ops
from ..fuse_ops_by_pattern import fuse_ops_by_pattern, merge_composite_functions
from ..infer_module import infer_types
from ..inline import inline_called
from ..lambda_lift import lambda_lift
from ..normal_form import inline_functions, to_graph_normal_form
from ..rewriting import functions_of, transform_functions
from ..to_programs import fuse_programs, legalize_ops
from .make import as_is, checked_name, named
from .patterns import op_pattern


def Normalize() -> Pass:
    """Types of all values found; graphs have no other normal form."""
    return named("Normalize", infer_types)


def NormalizeGlobalVar() -> Pass:
    """Functions are named as their attribute global_symbol says, where they have one."""
    return named("NormalizeGlobalVar", _named_by_symbol)


def _named_by_symbol(mod: IRModule) -> IRModule:
    wanted = {n: str(f.attrs.get("global_symbol", n)) for n, f in mod.functions.items()}  # type: ignore[attr-defined]
    if all(n == w for n, w in wanted.items()):
        return mod
    twice = sorted({w for w in wanted.values() if list(wanted.values()).count(w) > 1})
    if twice:
        raise CompileError(
            f"NormalizeGlobalVar: several functions would be named {', '.join(twice)}; each "
            "global_symbol has to be another one"
        )

    def rename(old: Any, new: Any) -> Any:
        if isinstance(new, GlobalVar) and wanted.get(new.name, new.name) != new.name:
            return GlobalVar(wanted[new.name])
        return None

    done = transform_functions(mod, rename)
    return IRModule({wanted[n]: f for n, f in done.functions.items()}, done.attrs)


def AttachGlobalSymbol() -> Pass:
    """Every function that is not private gets its name as the attribute global_symbol."""

    def attach(mod: IRModule) -> IRModule:
        programs = {n: f.with_attrs(global_symbol=str(n)) for n, f in _programs(mod).items()}
        public = {n: f for n, f in functions_of(mod).items() if not f.attrs.get("private")}
        graphs = {n: f.with_attr("global_symbol", str(n)) for n, f in public.items()}
        return mod.with_functions({**programs, **graphs})

    return named("AttachGlobalSymbol", attach)


def CanonicalizeBindings() -> Pass:
    """Names that only rename a value go: each use refers to the value."""
    return named("CanonicalizeBindings", to_graph_normal_form)


def FoldConstant() -> Pass:
    """What follows from constants is computed."""
    return named("FoldConstant", fold_constants, 2)


def DeadCodeElimination(entry_functions: Sequence[str] | None = None) -> Pass:
    """Values that nothing uses go, and functions that the entries do not reach.

    entry_functions  None: "main", or where there is none all functions that are not private
    """

    def run(mod: IRModule) -> IRModule:
        entries = list(entry_functions or ())
        for name in entries:
            checked_name(mod, name, "DeadCodeElimination")
        if not entries:
            entries = [n for n, f in functions_of(mod).items()
                       if not f.attrs.get("private") and not f.attrs.get("primitive")]  # fmt: skip
            entries = ["main"] if "main" in mod else entries
        return eliminate_dead_code(eliminate_dead_lets(mod), entries=entries)

    return named("DeadCodeElimination", run, 1)


def EliminateCommonSubexpr(call_only: bool = False) -> Pass:
    """Equal values become one; call_only is met, as only calls compute anything."""
    return named("EliminateCommonSubexpr", eliminate_common_subexpr, 1)


def FuseOps(fuse_opt_level: int = -1) -> Pass:
    """Operators that become one kernel together, as functions (attribute primitive) of the module.

    fuse_opt_level  0: each operator alone; -1: as much as is good

    Calls of programs (LegalizeOps) stay apart: fuse first.
    """
    on = ("FuseOps",) if fuse_opt_level else ()
    return named("FuseOps", lambda mod: fuse_ops(expand_ops(inline_functions(mod)), on))


def FuseTIR() -> Pass:
    """The groups of FuseOps become tensor programs."""
    return named("FuseTIR", fuse_programs)


def LegalizeOps(
    customize_legalize_map: Mapping[str, Callable[..., Any]] | None = None,
    skip_ops: Sequence[str] | None = None,
    enable_warning: bool = False,
) -> Pass:
    """Every operator becomes a tensor program of the module, called by call_tir.

    customize_legalize_map  by name ("relax.add" or "add") a function (None, call) -> expression
    skip_ops                operators that stay
    enable_warning          there for the classic signature: an operator without program is an error
    """
    given = {_plain(n): f for n, f in (customize_legalize_map or {}).items()}
    own = {n: (lambda call, f=f: f(None, call)) for n, f in given.items()}
    skip = [_plain(n) for n in skip_ops or ()]
    return named("LegalizeOps", lambda mod: legalize_ops(expand_ops(mod), own, skip))


def _plain(name: str) -> str:
    """The core's operator by its own name, or by a Relax name."""
    plain = str(getattr(name, "name", name)).removeprefix("relax.")
    return CORE_NAMES.get(plain, plain)


def _programs(mod: IRModule) -> dict[str, PrimFunc]:
    return {n: f for n, f in mod.functions.items() if isinstance(f, PrimFunc)}


def AnnotateTIROpPattern() -> Pass:
    """Each program gets its fusion kind as the attribute op_pattern: 0 element by element,
    1 broadcast, 2 injective, 3 reduction, 4 a product that is summed, 8 anything else."""

    def annotate(mod: IRModule) -> IRModule:
        new = {n: f for n, f in _programs(mod).items() if "op_pattern" not in f.attrs}
        made = {n: f.with_attrs(op_pattern=op_pattern(f)) for n, f in new.items()}
        return mod.with_functions(made) if made else mod

    return named("AnnotateTIROpPattern", annotate)


def FuseOpsByPattern(
    patterns: Sequence[Any], bind_constants: bool = True, annotate_codegen: bool = False
) -> Pass:
    """Matches of patterns become functions (attribute Composite); see fuse_ops_by_pattern."""
    return named("FuseOpsByPattern", lambda mod: fuse_ops_by_pattern(
        mod, patterns, bind_constants, annotate_codegen))  # fmt: skip


def MergeCompositeFunctions() -> Pass:
    """Composites of one compiler that depend on each other become one function for it."""
    return named("MergeCompositeFunctions", merge_composite_functions)


def LambdaLift() -> Pass:
    """Closures become functions of the module."""
    return named("LambdaLift", lambda_lift)


def InlinePrivateFunctions() -> Pass:
    """Private functions take the places of their calls; those that call themselves stay."""

    def run(mod: IRModule) -> IRModule:
        private = [n for n, f in functions_of(mod).items() if f.attrs.get("private")]
        return inline_called(mod, [n for n in private if not is_foreign(mod[n])])

    return named("InlinePrivateFunctions", run)


def AlterOpImpl(
    op_impl_map: Mapping[str, PrimFunc],
    op_buffer_transforms: Mapping[str, Sequence[Any]] | None = None,
    *others: Any,
) -> Pass:
    """Programs whose attribute operator_name stands in the map are replaced.

    op_buffer_transforms  layouts of the new programs' buffers: None is legal, as the program has
                          to take its operands as they are
    """
    if any(t for many in (op_buffer_transforms or {}).values() for t in many or ()):
        raise CompileError(
            "AlterOpImpl: op_buffer_transforms are not supported; give programs of the operands' "
            "own layout"
        )
    for name, f in op_impl_map.items():
        if not isinstance(f, PrimFunc):
            raise TypeMismatch(f"AlterOpImpl: {name} is a {type(f).__name__}; PrimFuncs are legal")

    def run(mod: IRModule) -> IRModule:
        names = {n: f.attrs.get("operator_name") for n, f in _programs(mod).items()}
        made = {n: op_impl_map[str(name)] for n, name in names.items() if name in op_impl_map}
        return mod.with_functions(made) if made else mod

    return named("AlterOpImpl", run)


# ----------------------------------------------------------------------- nothing to be done


def ConvertToDataflow(min_size: int = 2) -> Pass:
    """The module as it is: dataflow blocks are a printed view of a graph."""
    return as_is("ConvertToDataflow")


def ToNonDataflow() -> Pass:
    """The module as it is: dataflow blocks are a printed view of a graph."""
    return as_is("ToNonDataflow")


def TopologicalSort(order: str = "depth-first", direction: str = "from-inputs") -> Pass:
    """The module as it is: values have no order but that of their dependence."""
    return as_is("TopologicalSort")


def RemovePurityChecking() -> Pass:
    """The module as it is: all calls are pure."""
    return as_is("RemovePurityChecking")


def RewriteDataflowReshape() -> Pass:
    """The module as it is: a reshape is a view wherever memory allows."""
    return as_is("RewriteDataflowReshape")
