"""Passes on whole functions: what they are attached to, what they may touch."""

from __future__ import annotations

from typing import Any

from smelt.ir.errors import VerifyError
from smelt.ir.module import IRModule
from smelt.ir.transform import Pass, PassContext, PassInfo
from smelt.target import Target
from smelt.tir.nodes import BufferStore, PrimFunc
from smelt.tir.printer import script
from smelt.tir.rewrite import own_loads
from smelt.tir.threads import outside_kernels

from .blocks import unchanged
from .function_pass import PrimFuncPass, built_in

_GPUS = ("cuda", "metal", "nvptx", "opencl", "rocm", "vulkan", "webgpu")


def BindTarget(target: str | Target) -> PrimFuncPass:
    """Functions get the attribute "target": the text of what they are compiled for.

    Pass    BindTarget("llvm -mcpu=x86-64-v3")
    Before
        def main(A: T.Buffer((8,), "float32")):
            A[0] = 1.0
    After
        def main(A: T.Buffer((8,), "float32")):
            T.func_attr({"target": "llvm -mcpu=x86-64-v3"})
            A[0] = 1.0
    """
    text = str(Target(target))
    return built_in("BindTarget", lambda func: func.with_attrs(target=text))


class _EntryPass(Pass):
    """Takes a module or a PrimFunc, like the passes on single functions."""

    def run(self, mod: Any, context: PassContext) -> Any:
        if not isinstance(mod, PrimFunc):
            return super().run(mod, context)
        return super().run(IRModule({mod.name: mod}), context)[mod.name]


def AnnotateEntryFunc() -> Pass:
    """The only PrimFunc of a module, or else "main", gets the attribute "tir.is_entry_func".

    A module with several PrimFuncs and no "main" has no entry and stays as it is.

    Before
        def main(A: T.Buffer((8,), "float32")):
            A[0] = 1.0
    After
        def main(A: T.Buffer((8,), "float32")):
            T.func_attr({"tir.is_entry_func": True})
            A[0] = 1.0
    """

    def annotate(mod: IRModule) -> IRModule:
        programs = [n for n, f in mod.functions.items() if isinstance(f, PrimFunc)]
        entry = programs[0] if len(programs) == 1 else "main"
        f = mod.functions.get(entry)
        if not isinstance(f, PrimFunc):
            return mod
        marked = f.with_attrs(**{"tir.is_entry_func": True})
        return type(mod)({**mod.functions, entry: marked}, mod.attrs)

    return _EntryPass(annotate, PassInfo("AnnotateEntryFunc"))


def ExtractPrimFuncConstants() -> PrimFuncPass:
    """Nothing to do: constants are parameters, and their values never stand in a program."""
    return built_in("ExtractPrimFuncConstants", unchanged)


def InlinePrivateFunctions() -> PrimFuncPass:
    """Nothing to do: tensor programs do not call each other; a host program calls them."""
    return built_in("InlinePrivateFunctions", unchanged)


def VerifyMemory() -> PrimFuncPass:
    """Refuses a program for a GPU (see BindTarget) that touches buffers outside of its threads.

    Programs for CPUs may touch any buffer anywhere.
    """
    return built_in("VerifyMemory", _verified)


def _verified(func: PrimFunc) -> PrimFunc:
    target = func.attrs.get("target")
    if target is None or Target(target).kind.name not in _GPUS:
        return func
    for s in outside_kernels(func.body):
        touched = [s.buffer] if isinstance(s, BufferStore) else []
        touched += [x.buffer for x in own_loads(s)]
        if touched:
            raise VerifyError(
                f"VerifyMemory: {func.name} is for {target}, but {touched[0].name} is touched "
                "outside of a loop bound to threads, where the host would run\n"
                + script(func, {s: "here"})
            )
    return func
