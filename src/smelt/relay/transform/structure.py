"""Passes on the form of programs: types, names, functions, closures. Any operators will do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.ir.walk import fixed_point
from smelt.relax.graph import free_vars
from smelt.relax.nodes import Call, Function, GlobalVar, RelaxExpr, call_function
from smelt.relax.transform.eliminate_common_subexpr import eliminate_common_subexpr
from smelt.relax.transform.eliminate_dead_code import eliminate_dead_code, eliminate_dead_lets
from smelt.relax.transform.fold_constants import fold_calls, fold_expression
from smelt.relax.transform.group_ops import group_ops, ungroup_ops
from smelt.relax.transform.infer_module import infer_types
from smelt.relax.transform.inline import inline_called, inline_marked
from smelt.relax.transform.lambda_lift import lambda_lift
from smelt.relax.transform.let_form import anf_expression, to_anf, to_basic_blocks
from smelt.relax.transform.normal_form import inline_functions, to_graph_normal_form
from smelt.relax.transform.rewriting import transform_functions
from smelt.topi.registry import Op
from smelt.transform import Pass, PassContext

from ..expr import RelayVar
from .passes import graph_pass


def InferType() -> Pass:
    """Find all types anew, bottom-up, and fill in those that were not known."""
    return graph_pass("InferType", infer_types)


def InferTypeLocal(expr: RelaxExpr) -> Any:
    """The type of an expression outside of any module."""
    whole = IRModule({"main": Function(tuple(free_vars(expr)), expr)})
    return infer_types(whole)["main"].body.checked_type


def FoldConstant(fold_qnn: bool = False) -> Pass:
    """Compute calls whose operands are all constants. fold_qnn: operators of qnn as well."""
    return graph_pass("FoldConstant", lambda mod: fold_calls(mod, _foldable(fold_qnn)))


def FoldConstantExpr(expr: RelaxExpr, mod: IRModule, fold_qnn: bool = False) -> Any:
    """FoldConstant on one expression; `mod` is there for the signature."""
    return fold_expression(expr, _foldable(fold_qnn))


def _foldable(fold_qnn: bool) -> Callable[[Call], bool]:
    return lambda n: isinstance(n.op, Op) and (fold_qnn or not n.op.name.startswith("qnn."))


def FuseOps(fuse_opt_level: int = -1) -> Pass:
    """Operators that become one kernel are put into functions called in place, "Primitive".

    fuse_opt_level  0: one operator in each; -1: as the PassContext says
    """
    level = PassContext.current().opt_level if fuse_opt_level == -1 else fuse_opt_level
    Options(opt_level=min(level, 3) if isinstance(level, int) else level)
    return graph_pass("FuseOps", lambda mod: group_ops(mod, level > 0))


def DefuseOps() -> Pass:
    """The inverse of FuseOps."""
    return graph_pass("DefuseOps", ungroup_ops)


def ToANormalForm() -> Pass:
    """Every value that is computed gets a name."""
    return graph_pass("ToANormalForm", lambda mod: to_anf(mod, RelayVar))


def ToANormalFormExpr(e: RelaxExpr) -> RelaxExpr:
    """An expression in A-normal form."""
    return anf_expression(e, RelayVar)


def ToBasicBlockNormalForm() -> Pass:
    """Values that several scopes use (both sides of a branch, a closure) get a name around them."""
    return graph_pass("ToBasicBlockNormalForm", lambda mod: to_basic_blocks(mod, RelayVar))


def ToGraphNormalForm() -> Pass:
    """Names are replaced by the values they stand for."""
    return graph_pass("ToGraphNormalForm", to_graph_normal_form)


def EliminateCommonSubexpr(fskip: Callable[[Any], bool] | None = None) -> Pass:
    """Calls that compute the same become one. fskip: says of a call that it is left alone."""
    return graph_pass("EliminateCommonSubexpr", lambda mod: eliminate_common_subexpr(mod, fskip))


def DeadCodeElimination(inline_once: bool = False, ignore_impurity: bool = False) -> Pass:
    """Names and functions that nothing uses go.

    inline_once      what is used once takes the place of its name
    ignore_impurity  there for the signature: no operator has a side effect
    """

    def run(mod: IRModule) -> IRModule:
        return eliminate_dead_code(eliminate_dead_lets(mod, inline_once=inline_once))

    return graph_pass("DeadCodeElimination", run)


def RemoveUnusedFunctions(entry_functions: Sequence[str] | None = None) -> Pass:
    """Functions that the entries do not call leave. None: the entry is "main"."""
    if isinstance(entry_functions, str):
        raise TypeMismatch(
            f"RemoveUnusedFunctions: entry_functions is a list of names, e.g. [{entry_functions!r}]"
        )
    entries = list(entry_functions or ["main"])
    return graph_pass(
        "RemoveUnusedFunctions", lambda mod: eliminate_dead_code(mod, entries=entries)
    )


def EtaExpand(expand_constructor: bool = False, expand_global_var: bool = False) -> Pass:
    """Functions of the module that are values become closures which call them.

    expand_global_var   names of functions as operands, items, results
    expand_constructor  constructors of data types are called in full here, there is nothing to do
    """

    def closure(mod: IRModule, name: GlobalVar) -> Function:
        f = mod[name]
        params = tuple([p.replace() for p in f.params])
        return Function(params, call_function(name, params, f.ret_type))

    def run(mod: IRModule) -> IRModule:
        def expand(old: Any, new: Any) -> RelaxExpr | None:
            made = new.with_children(lambda c: closure(mod, c) if isinstance(c, GlobalVar) else c)
            if isinstance(new, Call) and isinstance(new.op, GlobalVar):
                made = made.replace(op=new.op)
                return made if made.args != new.args else None
            return made  # type: ignore[no-any-return]

        return transform_functions(mod, expand) if expand_global_var else mod

    return graph_pass("EtaExpand", run)


def Inline() -> Pass:
    """Functions of the module with the attribute "Inline" become parts of their callers."""
    return graph_pass("Inline", inline_marked)


def LambdaLift() -> Pass:
    """Closures become functions of the module; what they capture, parameters in front."""
    return graph_pass("LambdaLift", lambda_lift)


def PartialEvaluate() -> Pass:
    """What is known at compile time is done: names, functions called in place, constants, branches.

    Functions of the module are inlined but for those that call themselves.
    """

    def step(mod: IRModule) -> IRModule:
        names = [n for n in mod.functions if n != "main" and isinstance(mod[n], Function)]
        return eliminate_dead_lets(fold_calls(inline_functions(inline_called(mod, names))))

    return graph_pass("PartialEvaluate", lambda mod: infer_types(fixed_point(step, mod, 32)))


# ------------------------------------------------------------------ functions of other compilers


def OutlineCompilerFunctionsWithExistingGlobalSymbols(compiler_filter: str = "") -> Pass:
    """Functions in place with "Compiler" and "global_symbol" become functions of the module.

    compiler_filter  only those of this compiler; "": of all
    """

    def run(mod: IRModule) -> IRModule:
        found: dict[str, Function] = {}

        def outline(old: Any, new: Any) -> RelaxExpr | None:
            if not isinstance(new, Call) or not isinstance(new.op, Function):
                return None
            if not _of(new.op, compiler_filter) or "global_symbol" not in new.op.attrs:
                return None
            name = str(new.op.attrs["global_symbol"])
            if name in mod:
                raise Unsupported(
                    "OutlineCompilerFunctionsWithExistingGlobalSymbols: the module has a function "
                    f"{name!r} already"
                )
            found[name] = new.op
            return call_function(GlobalVar(name), new.args, new.type)  # type: ignore[arg-type]

        made = transform_functions(mod, outline)
        return made.with_functions(found) if found else mod

    return graph_pass("OutlineCompilerFunctionsWithExistingGlobalSymbols", run)


def MarkCompilerFunctionsAsExtern(compiler_filter: str = "") -> Pass:
    """Functions of a compiler get the attribute "Extern" and lose "Compiler": they are built.

    compiler_filter  only those of this compiler; "": of all
    """

    def run(mod: IRModule) -> IRModule:
        made = {
            n: f.replace(
                attrs={**{k: v for k, v in f.attrs.items() if k != "Compiler"}, "Extern": 1}
            )
            for n, f in mod.functions.items()
            if isinstance(f, Function) and _of(f, compiler_filter)
        }
        return mod.with_functions(made) if made else mod

    return graph_pass("MarkCompilerFunctionsAsExtern", run)


def InlineCompilerFunctionsBoundTo(global_vars: Sequence[Any]) -> Pass:
    """Functions of compilers bound to some names become parts of their callers again.

    global_vars  names, or GlobalVars
    """
    wanted = [g if isinstance(g, str) else g.name for g in global_vars]

    def run(mod: IRModule) -> IRModule:
        return inline_called(mod, [n for n in wanted if n in mod])

    return graph_pass("InlineCompilerFunctionsBoundTo", run)


def _of(f: Function, compiler: str) -> bool:
    found = f.attrs.get("Compiler")
    return found is not None and compiler in ("", found)
