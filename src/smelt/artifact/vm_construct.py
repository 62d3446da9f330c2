"""What of a module only the virtual machine runs."""

from __future__ import annotations

from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.relax.adt import Constructor, Match
from smelt.relax.graph import is_unit
from smelt.relax.host_ops import is_host_call, needs_run
from smelt.relax.nodes import Call, Function, GlobalVar, If, Let, RelaxExpr, values
from smelt.relax.transform.expand_ops import to_static
from smelt.relax.transform.infer_module import short_text
from smelt.relax.transform.normal_form import inline_functions
from smelt.relax.transform.rewriting import reached


def refuse_control(mod: IRModule, what: str) -> None:
    """Raise a CompileError where a module needs the virtual machine.

    what  who cannot run it, e.g. "the graph executor"
    """
    found = vm_construct(mod)
    if found is not None:
        raise CompileError(
            f"{what} runs straight programs only; found {found}\n"
            "  the virtual machine runs it: relay.vm.compile(mod, target), or "
            'relay.create_executor("vm", mod)'
        )


def vm_construct(mod: IRModule) -> str | None:
    """The first thing in a module that only the virtual machine runs, as a text; None: nothing."""
    there = reached(mod, ["main"] if "main" in mod else mod.functions)
    for name in sorted(mod.functions, key=lambda name: name != "main"):
        f = mod.functions[name]
        if not isinstance(f, Function) or name not in there or is_unit(f):
            continue
        nodes = list(values(f.body))
        if any(isinstance(n, Let | Function) for n in nodes):
            nodes = list(values(inline_functions(IRModule({name: f}))[name].body))
        for node in nodes:
            found = _construct(node, mod)
            if found is not None:
                return f"{found} in @{name}: {short_text(node)}"
    return None


def _construct(node: RelaxExpr, mod: IRModule) -> str | None:
    match node:
        case If():
            return "a branch on a value that is computed"
        case Match():
            return "a match"
        case Let():
            return "a function that calls itself"
        case Call(Constructor()):
            return "a value of a data type"
        case Call() if is_host_call(node) or (needs_run(node) and to_static(node) is None):
            return "a tensor with a data-dependent size"
        case Call(GlobalVar() as g):
            f = mod.functions.get(g.name)
            if isinstance(f, Function) and not is_unit(f):
                return f"a call of @{g.name}"
        case Call(op) if isinstance(op, RelaxExpr) and not isinstance(op, Function):
            return "a call of a closure"
    return None
