"""LLVM instructions for calls by name: instructions of tir/intrin, and LLVM's own intrinsics."""

from __future__ import annotations

from smelt.ir.errors import CompileError
from smelt.ir.expr import Call, Expr, Var, cast
from smelt.tir.intrin.registry import ARCHITECTURES, Instruction
from smelt.tir.named_calls import name_of

from .features import calls_line, needs_line
from .llvm_emitter import Emitter
from .llvm_types import llvm_type


class InstructionOps(Emitter):
    """The part of a function's emitter that knows instructions by name."""

    def named_call(self, e: Call) -> str:
        """An instruction, or an LLVM intrinsic by its own name."""
        name, args = name_of(e), e.args[1:]
        if self.guard is not None and self.guard_lanes > 1:
            raise CompileError(f"{self.name}: {name} stands under a condition on lanes")
        if e.op == "call_llvm_intrin":
            self.effects += 1
        made = Instruction.called_by(e)
        if made is not None:
            args = self._checked(made, e)
        else:
            self.module.needs[calls_line(name)] = None
            family = name.split(".")[1]
            if family in ARCHITECTURES:
                self.module.needs[needs_line(family, (), name)] = None
        if e.op == "call_instruction" and made is not None:
            if made.llvm is None:
                raise CompileError(
                    f"{self.name}: LLVM has no form of the instruction {name}; print it as C"
                )
            if not isinstance(made.llvm, str):
                return self.value(made.llvm(*args))
            name = made.llvm
        return self.llvm_call(f"@{name}", e.type, args)

    def _checked(self, made: Instruction, e: Call) -> tuple[Expr, ...]:
        """The operands of an instruction; the module notes what it needs of the processor."""
        wrong = made.complaint(e.type, e.args[1:])
        if wrong is not None:
            raise CompileError(f"{self.name}: {wrong}")
        self.module.needs[needs_line(made.arch, made.features, made.name)] = None
        pairs = zip(made.operands, e.args[1:], strict=True)
        return tuple([cast(p.type, a) if isinstance(p, Var) else a for p, a in pairs])

    def llvm_call(self, symbol: str, result: str, args: tuple[Expr, ...]) -> str:
        """A call of an intrinsic."""
        given = [(llvm_type(a.dtype), self.value(a)) for a in args]
        return self.named(symbol, llvm_type(result), given)
