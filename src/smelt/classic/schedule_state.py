"""What a schedule works on, for programs that replace statements themselves."""

from __future__ import annotations

from typing import NoReturn

from smelt.ir.errors import Unsupported
from smelt.ir.module import IRModule
from smelt.tir.nodes import Block, BlockRealize, For, PrimFunc, Stmt
from smelt.tir.schedule import Schedule, StmtSRef
from smelt.tir.verify import verify


class ScheduleState:
    """A program in which statements are found and replaced: `ScheduleState(mod)`.

    schedule  whose program it is
    """

    def __init__(
        self, mod: IRModule | PrimFunc, *, debug_mask: str | int = "none", enable_check: bool = True
    ) -> None:
        """A program, or a module with one. Every replacement is verified, whatever is asked for."""
        self.schedule = Schedule(mod)

    @property
    def mod(self) -> IRModule:
        """The module as it is now."""
        return self.schedule.mod

    def get_sref(self, stmt: For | Block) -> StmtSRef:
        """Where a loop or block of the module stands."""
        return self.schedule.get_sref(stmt)

    def replace(
        self,
        src_sref: StmtSRef,
        tgt_stmt: For | Block | BlockRealize,
        block_sref_reuse: object = None,
    ) -> None:
        """Put a statement in the place of another one. VerifyError where that breaks a rule: then
        nothing has changed. Nobody checks that the program computes the same.
        """
        state = self.schedule.state.copy()
        old: Stmt = src_sref.stmt
        if isinstance(old, Block):
            realize = state.realize(old.name)
            old, new = realize, realize.replace(block=tgt_stmt)
            tgt_stmt = tgt_stmt if isinstance(tgt_stmt, BlockRealize) else new
        state.replace({old: tgt_stmt})
        verify(state.func)
        self.schedule.state.set_func(state.func)


def trace(args: object, trace_action: str = "tvm.default_trace_action") -> NoReturn:
    """Refused: programs are native code, which calls no Python function while it runs."""
    raise Unsupported(
        f"tir.trace: compiled programs do not call {trace_action!r} while they run\n"
        "  legal: smelt.tir.interpret.interpret(func, ..., observer=...) reports every access"
    )
