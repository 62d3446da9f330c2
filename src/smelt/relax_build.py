"""`relax.build` and `relax.VirtualMachine`: programs of several functions, compiled and run.

    ex = relax.build(mod, "llvm")
    vm = relax.VirtualMachine(ex, smelt.cpu())
    y = vm["main"](x)

A function without branches on computed values is one native call; the virtual machine decides
between such pieces where there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.byoc import registered_codegens
from smelt.codegen.llvm import resolve
from smelt.ir.errors import CompileError, TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.transform import Pass
from smelt.pipeline import as_target, checked_context
from smelt.pipeline import compile_program as compile_program
from smelt.relax.graph import is_closed
from smelt.relax.nodes import Function
from smelt.relax.transform import BindParams
from smelt.relax.transform.classic.make import named
from smelt.relax.transform.rewriting import functions_of
from smelt.relax_pipeline import get_pipeline
from smelt.runtime.container import ADT, Closure
from smelt.runtime.errors import InputError, nearest
from smelt.runtime.evaluator import evaluate_times, no_preparation, wall_clock
from smelt.runtime.report import ProfileReport, TimeEvaluation
from smelt.runtime.vm import VirtualMachine as Machine
from smelt.runtime.vm import VMExecutable
from smelt.target import Target

MODES = ("bytecode", "compiled")


def build(
    mod: Any,
    target: Any = None,
    params: Mapping[Any, Any] | None = None,
    pipeline: Any = None,
    exec_mode: str = "bytecode",
    *,
    relax_pipeline: Any = None,
    tir_pipeline: Any = None,
    system_lib: bool | None = None,
) -> VMExecutable:
    """Compile all functions of a module that are not private.

    mod        an IRModule, or a function, which becomes "main"
    target     e.g. "llvm -mcpu=native"; None: that of `with Target(...)`, or this machine
    params     parameters of "main" that become constants, by name
    pipeline   a pass that the module goes through first, or the name of one (get_pipeline); also
               under its newer name relax_pipeline
    exec_mode  "bytecode" or "compiled": straight functions are native code either way

    `ex.export_library(path)` writes it, `smelt.runtime.load_module(path)` reads it.
    """
    if isinstance(mod, Function):
        mod = IRModule({"main": mod})
    if not isinstance(mod, IRModule):
        raise TypeMismatch(f"relax.build: mod is a {type(mod).__name__}; give an IRModule")
    if exec_mode not in MODES:
        raise CompileError(f"relax.build: exec_mode={exec_mode!r}{nearest(exec_mode, MODES)}; "
                           f"legal: {', '.join(MODES)}")  # fmt: skip
    if system_lib or tir_pipeline not in (None, "default"):
        raise CompileError(
            "relax.build: system_lib and tir_pipeline cannot be given; PassContext(config=...) "
            "says how programs are lowered"
        )
    if params:
        mod = BindParams("main", params)(mod)
    steps = pipeline if relax_pipeline is None else relax_pipeline
    if steps is not None:
        mod = (get_pipeline(steps) if isinstance(steps, str) else steps)(mod)
    resolved = resolve(as_target(Target.current() if target is None else target))
    context = checked_context("relax.build")
    return compile_program(mod, resolved, context, public_functions(mod))


def public_functions(mod: IRModule) -> list[str]:
    """The names of the graph functions that can be called from outside."""
    own = {n: f for n, f in functions_of(mod).items() if not f.attrs.get("private")}
    found = [n for n, f in own.items() if not is_closed(f)]
    if not found:
        raise CompileError(
            f"relax.build: the module has no function to call; it has: {', '.join(mod) or 'none'}"
        )
    return found


class VirtualMachine(Machine):
    """Runs the functions of an executable: `vm["main"](x)`.

    Results are NDArrays; tuples come as lists.
    """

    def __init__(
        self, rt_mod: VMExecutable, device: Any = None, memory_cfg: Any = None,
        profile: bool = False,
    ) -> None:  # fmt: skip
        """What relax.build or load_module gave; profile is there for the classic signature."""
        if not isinstance(rt_mod, VMExecutable):
            raise InputError(
                f"relax.VirtualMachine: the executable is a {type(rt_mod).__name__}; give what "
                "relax.build or load_module gave"
            )
        super().__init__(rt_mod, device, memory_cfg)
        self._stateful: dict[str, Any] = {}
        self._saved: dict[str, Callable[..., Any]] = {}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function of the program, or one that save_function has kept."""
        return self._saved.get(name) or super().__getitem__(name)

    def invoke(self, func_name: str, *args: Any, **named: Any) -> Any:
        """The result of a function: an NDArray, a list, or a closure."""
        return _listed(super().invoke(func_name, *args, **named))

    def invoke_closure(self, closure: Any, *args: Any) -> Any:
        """The result of a function that is a value."""
        if not isinstance(closure, Closure):
            raise InputError(f"invoke_closure: a {type(closure).__name__} is no closure")
        return _listed(self.apply(closure, args))

    def invoke_stateful(self, func_name: str, *args: Any, **named: Any) -> None:
        """Invoke with the operands of set_input, and keep the result for get_outputs."""
        self._stateful[func_name] = self.invoke(func_name, *args, **named)

    def get_outputs(self, func_name: str = "main") -> Any:
        """The result that invoke_stateful has kept."""
        if func_name not in self._stateful:
            raise InputError(f"get_outputs: invoke_stateful({func_name!r}) has not run yet")
        return self._stateful[func_name]

    def save_function(
        self, func_name: str, saved_name: str, *args: Any, include_return: bool = True,
        **named: Any,
    ) -> None:  # fmt: skip
        """Keep a function with its operands: `vm[saved_name]()` runs it.

        include_return  whether that call gives the result
        """
        if saved_name in self._saved or saved_name in self.exe.globals:
            raise InputError(f"save_function: there is a function {saved_name!r} already")
        given = self._in_order(func_name, args, named)

        def run() -> Any:
            made = self.invoke(func_name, *given)
            return made if include_return else None

        self._saved[saved_name] = run

    def time_evaluator(
        self, func_name: str, dev: Any = None, number: int = 10, repeat: int = 1,
        min_repeat_ms: float = 0, cooldown_interval_ms: float = 0, repeats_to_cooldown: int = 1,
        f_preproc: str = "",
    ) -> Callable[..., TimeEvaluation]:  # fmt: skip
        """A function of operands that times a function in seconds.

        repeat         measurements, each the mean of `number` calls after one that is not timed
        min_repeat_ms  calls are added until a measurement takes so long
        """
        no_preparation(f_preproc)
        function = self[func_name]

        def evaluate(*args: Any) -> TimeEvaluation:
            timed = wall_clock(lambda: function(*args))
            timed(1)
            return evaluate_times(
                "time_evaluator", timed, number, repeat, min_repeat_ms, 0,
                cooldown_interval_ms, repeats_to_cooldown,
            )  # fmt: skip

        return evaluate

    def profile(self, func_name: str, *args: Any, **named: Any) -> ProfileReport:
        """Where the time goes, for a function that is one native call."""
        code = self.exe.function(func_name).code
        segments = [i for i in code if i[0] == "InvokeSegment"]
        if len(segments) != 1 or any(i[0] not in _STRAIGHT for i in code):
            raise InputError(
                f"profile: {func_name} is {len(code)} instructions with {len(segments)} pieces of "
                "native code; a function that is one piece can be profiled"
            )
        exe = self.exe.program.segments[segments[0][2]]
        report: ProfileReport = exe.profile(*self._in_order(func_name, args, named))
        return report


_STRAIGHT = ("InvokeSegment", "AllocTuple", "Ret")
"""The instructions of a function that is one native call."""


def _listed(x: Any) -> Any:
    """A result as Relax hands it out: tuples as lists."""
    if isinstance(x, ADT) and not x.name:
        return [_listed(i) for i in x]
    return x


def RunCodegen(
    target_options: Mapping[str, Any] | None = None, entry_functions: Sequence[str] | None = None
) -> Pass:
    """Functions for another compiler (attribute Codegen) are given to its code generator.

    Which generator there is is checked here; code is generated when the program is compiled, for
    all functions, as entry_functions of the classic signature have no others beside them.
    """
    if target_options:
        raise CompileError(
            f"RunCodegen: target_options for {', '.join(target_options)}; options belong to the "
            "code generator, see smelt.byoc.register_codegen"
        )

    def give(mod: IRModule) -> IRModule:
        known = registered_codegens()
        made: dict[str, Any] = {}
        for name, f in functions_of(mod).items():
            wanted = f.attrs.get("Codegen")
            if wanted is None:
                continue
            if wanted not in known:
                raise CompileError(
                    f"RunCodegen: @{name} is for the compiler {wanted!r}, which has no code "
                    f"generator{nearest(str(wanted), known)}; registered: "
                    f"{', '.join(known) or 'none'}"
                )
            made[name] = f.with_attr("Compiler", wanted)
        return mod.with_functions(made) if made else mod

    return named("RunCodegen", give)
