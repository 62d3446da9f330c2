"""Passes on tensor programs: each works on the PrimFuncs of a module, or on a single one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.ir.errors import CompileError, InternalError, SmeltError
from smelt.ir.module import IRModule
from smelt.ir.transform import Pass, PassContext, PassInfo, pass_decorator
from smelt.lowering.safe import require_flat
from smelt.tir.nodes import PrimFunc


class PrimFuncPass(Pass):
    """A pass on every PrimFunc of a module; other functions stay as they are.

    It takes a module, or one PrimFunc, and gives the same. Its function is called with
    (func, module, context) and gives a PrimFunc, or None where it takes the function away.
    """

    def run(self, mod: Any, context: PassContext) -> Any:
        """Run it under the instruments of a context, which see a module in any case."""
        if not isinstance(mod, PrimFunc):
            return super().run(mod, context)
        made = super().run(IRModule({mod.name: mod}), context)
        if mod.name not in made:
            raise CompileError(
                f"{self.info.name} takes the function {mod.name} away; give it a module"
            )
        return made[mod.name]

    def apply(self, mod: Any, context: PassContext) -> Any:
        """The function on every PrimFunc."""
        if not isinstance(mod, IRModule):
            raise CompileError(
                f"{self.info.name} is a pass on tensor programs; it takes an IRModule or a "
                f"PrimFunc, not {type(mod).__name__}"
            )
        made: dict[str, Any] = {}
        for name, f in mod.functions.items():
            new = self.transform(f, mod, context) if isinstance(f, PrimFunc) else f
            if new is not None:
                made[name] = new
        if len(made) == len(mod.functions) and all(f is mod.functions[n] for n, f in made.items()):
            return mod
        return type(mod)(made, mod.attrs)

    def transform(self, func: PrimFunc, mod: IRModule, context: PassContext) -> PrimFunc | None:
        """The function on one PrimFunc; what it gives is checked."""
        new = self.fn(func, mod, context)
        if new is not None and not isinstance(new, PrimFunc):
            raise CompileError(
                f"the pass {self.info.name} gave a {type(new).__name__} for {func.name}; "
                "legal: a PrimFunc, or None"
            )
        return new


class BuiltIn(PrimFuncPass):
    """A pass of smelt's own: what goes wrong in it, but for what the user can mend, is our bug."""

    def transform(self, func: PrimFunc, mod: IRModule, context: PassContext) -> PrimFunc | None:
        """The function on one PrimFunc."""
        try:
            return super().transform(func, mod, context)
        except SmeltError:
            raise
        except Exception as e:
            raise InternalError(
                f"{func.name}: the pass {self.info.name} failed: {type(e).__name__}: {e}"
            ) from e


def built_in(name: str, fn: Callable[..., PrimFunc], *args: Any, **options: Any) -> PrimFuncPass:
    """A pass from a function of a PrimFunc (and of fixed further arguments)."""
    return BuiltIn(lambda func, mod, context: fn(func, *args, **options), PassInfo(name))


def flat(name: str, fn: Callable[[PrimFunc], PrimFunc]) -> PrimFuncPass:
    """A pass on programs without blocks."""

    def run(func: PrimFunc) -> PrimFunc:
        require_flat(func, name)
        return fn(func)

    return built_in(name, run)


prim_func_pass = pass_decorator(
    "prim_func_pass", PrimFuncPass, "transform_function", "(func, mod, context) -> func"
)


def Apply(ftransform: Callable[[PrimFunc], PrimFunc]) -> PrimFuncPass:
    """A function of a PrimFunc as a pass.

    Pass    Apply(lambda func: func.with_attrs(tuned=True))
    Before
        def main(A: T.Buffer((4,), "float32")):
            A[0] = 1.0
    After
        def main(A: T.Buffer((4,), "float32")):
            T.func_attr({"tuned": True})
            A[0] = 1.0
    """
    return PrimFuncPass(lambda func, mod, context: ftransform(func), PassInfo("Apply"))


def Filter(fcond: Callable[[PrimFunc], bool]) -> PrimFuncPass:
    """Keeps the PrimFuncs that a function says yes to."""
    return PrimFuncPass(
        lambda func, mod, context: func if fcond(func) else None, PassInfo("Filter")
    )
