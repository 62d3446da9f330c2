"""Schedule: the primitives on one function or a module of them."""

from __future__ import annotations

import random

from smelt.ir.errors import ScheduleError
from smelt.ir.module import IRModule
from smelt.tir.nodes import BlockRealize, For, PrimFunc

from .blockize import BlockizePrimitives
from .cache import CachePrimitives
from .handles import BlockRV, LoopRV
from .inline import InlinePrimitives
from .layout import LayoutPrimitives
from .loops import LoopPrimitives, find
from .misc import BufferPrimitives
from .motion import MotionPrimitives
from .padding import PaddingPrimitives
from .partition import PartitionPrimitives
from .primitive import primitive
from .reduction import ReductionPrimitives
from .reindex import ReindexPrimitives
from .sample import SamplePrimitives
from .show import show
from .state import State
from .trace import Trace

__all__ = ["Schedule"]


class Schedule(
    LoopPrimitives,
    PartitionPrimitives,
    MotionPrimitives,
    InlinePrimitives,
    CachePrimitives,
    ReductionPrimitives,
    LayoutPrimitives,
    ReindexPrimitives,
    BlockizePrimitives,
    BufferPrimitives,
    PaddingPrimitives,
    SamplePrimitives,
):
    """A program and the primitives that transform it. Each keeps the program's meaning or raises.

    sch.func    the function worked on, as it is now
    sch.mod     all functions
    sch.trace   what has been done
    """

    def __init__(self, mod: PrimFunc | IRModule, *, seed: int | None = None) -> None:
        """Work on a function, or on the only (or the "main") function of a module."""
        self._module = mod if isinstance(mod, IRModule) else None
        functions = (
            {mod.name: mod}
            if isinstance(mod, PrimFunc)
            else {n: f for n, f in mod.functions.items() if isinstance(f, PrimFunc)}
        )
        self._functions: dict[str, PrimFunc] = functions
        self._states: dict[str, State] = {}
        self.trace = Trace()
        self._seed = 0 if seed is None else seed
        self.random = random.Random(self._seed)
        if len(functions) == 1:
            self._enter(next(iter(functions)))
        elif "main" in functions:
            self._enter("main")

    def _enter(self, name: str) -> None:
        if name not in self._functions:
            raise ScheduleError(
                f"work_on({name!r}): the module has no such tensor program\n"
                f"  legal: {', '.join(self._functions) or 'none'}"
            )
        if name not in self._states:
            self._states[name] = State(self._functions[name])
        self.state = self._states[name]
        self._name = name

    @primitive
    def work_on(self, func_name: str) -> None:
        """Let the next primitives be about another function of the module."""
        self._enter(func_name)

    @property
    def func(self) -> PrimFunc:
        """The function worked on, as it is now."""
        return self.state.func

    @property
    def func_working_on(self) -> str:
        """The name of the function worked on."""
        return self._name

    @property
    def mod(self) -> IRModule:
        """The module, as it is now."""
        done = {n: s.func for n, s in self._states.items()}
        if self._module is not None:
            return self._module.with_functions(done)
        return IRModule({**self._functions, **done})

    def copy(self) -> Schedule:
        """An independent schedule in the same place."""
        other = Schedule.__new__(Schedule)
        other._module, other._functions, other._name = self._module, self._functions, self._name
        other._states = {n: s.copy() for n, s in self._states.items()}
        other.state = other._states[self._name]
        other.trace = self.trace.copy()
        other._seed = self._seed
        other.random = random.Random()
        other.random.setstate(self.random.getstate())
        return other

    def seed(self, seed: int) -> None:
        """Start the random numbers of the sampling primitives anew."""
        self._seed = seed
        self.random.seed(seed)

    def fork_seed(self) -> int:
        """A seed for another schedule, which follows from this one's."""
        return self.random.getrandbits(31)

    def show(self) -> None:
        """Print the program and the trace."""
        print(show(self.func, {}))
        print(self.trace)

    # ------------------------------------------------------------------------------- queries

    @primitive
    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block of a name."""
        if func_name is not None:
            self._enter(func_name)
        return BlockRV(self.state.realize(name).block.name)

    @primitive
    def get_loops(self, block: str) -> list[LoopRV]:
        """The loops around a block, outermost first."""
        s = self.state
        return [LoopRV(x.var.name) for x in s.loops_above(s.realize(block))]

    @primitive
    def get_child_blocks(self, block_or_loop: str) -> list[BlockRV]:
        """The blocks directly inside a block or a loop."""
        s = self.state
        target = find(s, block_or_loop)
        inside = target.block if isinstance(target, BlockRealize) else target
        return [BlockRV(b.block.name) for b in s.blocks_in(inside)]

    @primitive
    def get_producers(self, block: str) -> list[BlockRV]:
        """The blocks that write what a block reads."""
        s = self.state
        return [BlockRV(b.block.name) for b in s.producers(s.realize(block))]

    @primitive
    def get_consumers(self, block: str) -> list[BlockRV]:
        """The blocks that read what a block writes."""
        s = self.state
        return [BlockRV(b.block.name) for b in s.consumers(s.realize(block))]

    @primitive
    def get_output_blocks(self, scope_block: str = "root") -> list[BlockRV]:
        """The blocks inside a block that write what outlives it."""
        s = self.state
        scope = s.realize(scope_block)
        local = {b for f in s.index.blocks.values() for b in f.block.alloc_buffers}
        return [
            BlockRV(b.block.name)
            for b in s.blocks_in(scope.block)
            if any(w.buffer not in local for w in b.block.writes)
        ]

    def get(self, rv: str) -> For | BlockRealize:
        """The loop, or the block where it is executed, behind a handle."""
        return find(self.state, rv)
