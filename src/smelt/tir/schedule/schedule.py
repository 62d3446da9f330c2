"""Schedule: the primitives on one function or a module of them."""

from __future__ import annotations

import copy
import random

from smelt.ir.errors import ScheduleError
from smelt.ir.module import IRModule
from smelt.tir.nodes import PrimFunc

from .annotate import AnnotatePrimitives
from .buffers import BufferPrimitives
from .cache_at import CacheAtPrimitives
from .cache_index import CacheIndexPrimitives
from .inline import InlinePrimitives
from .layout import LayoutPrimitives
from .loop_kinds import LoopKindPrimitives
from .loops import LoopPrimitives
from .pad_einsum import EinsumPrimitives
from .padding import PaddingPrimitives
from .partition import PartitionPrimitives
from .precompute import PrecomputePrimitives
from .primitive import primitive
from .queries import Queries
from .reduction import ReductionPrimitives
from .reindex import ReindexPrimitives
from .rolling import RollingPrimitives
from .sample import SamplePrimitives
from .show import show
from .tensorize import TensorizePrimitives
from .trace import Trace

_RENDER_LEVELS = ("detail", "fast", "none")


class Schedule(
    Queries,
    SamplePrimitives,
    LoopPrimitives,
    PartitionPrimitives,
    CacheAtPrimitives,  # with cache, compute_at and blockize
    AnnotatePrimitives,
    CacheIndexPrimitives,
    LoopKindPrimitives,
    InlinePrimitives,
    ReductionPrimitives,
    LayoutPrimitives,
    PrecomputePrimitives,
    ReindexPrimitives,
    TensorizePrimitives,
    BufferPrimitives,
    PaddingPrimitives,
    EinsumPrimitives,
    RollingPrimitives,
):
    """A program and the primitives that transform it. Each keeps the program's meaning or raises.

    sch.func    the function worked on, as it is now
    sch.mod     all functions
    sch.trace   what has been done
    """

    def __init__(
        self,
        mod: PrimFunc | IRModule,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
    ) -> None:
        """Work on a function, or on the only (or the "main") function of a module.

        seed                of the sampling primitives; None (or -1) is 0, so that runs repeat
        debug_mask          "all", or a number but 0: the program is verified after every step
        error_render_level  "detail" shows the program in errors, "fast" only what is wrong,
                            "none" only which primitive was refused
        enable_check        for the classic signature: legality is checked whatever it says
        """
        if debug_mask not in ("none", "all") and not isinstance(debug_mask, int):
            raise ScheduleError(f'debug_mask is {debug_mask!r}\n  legal: "none", "all" or a number')
        if error_render_level not in _RENDER_LEVELS:
            raise ScheduleError(
                f"error_render_level is {error_render_level!r}\n"
                f"  legal: {', '.join(map(repr, _RENDER_LEVELS))}"
            )
        if not isinstance(mod, PrimFunc | IRModule):
            raise ScheduleError(
                f"Schedule({type(mod).__name__})\n  legal: a PrimFunc, or an IRModule of them"
            )
        self._verify = debug_mask == "all" or (isinstance(debug_mask, int) and debug_mask != 0)
        self._render = error_render_level
        self._module = mod if isinstance(mod, IRModule) else None
        every = {mod.name: mod} if isinstance(mod, PrimFunc) else mod.functions
        self._functions = {n: f for n, f in every.items() if isinstance(f, PrimFunc)}
        if not self._functions:
            raise ScheduleError("the module has no tensor program\n  legal: one PrimFunc at least")
        self._states = {}
        self.trace = Trace()
        self.random = random.Random()
        self.seed(0 if seed is None else seed)
        self._enter("main" if "main" in self._functions else next(iter(self._functions)))

    @primitive
    def work_on(self, func_name: str) -> None:
        """Let the next primitives be about another function of the module.

        Before
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Step    work_on("main")
        After
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] + 1.0
        Needs   a tensor program of that name.
        """
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
        other = copy.copy(self)
        other._states = {n: s.copy() for n, s in self._states.items()}
        other.state = other._states[self._name]
        other.trace = self.trace.copy()
        other.random = copy.copy(self.random)
        return other

    def adopt(self, other: Schedule) -> None:
        """Go on where another schedule of the same programs is, such as a copy; that one ends."""
        self.__dict__.update(other.__dict__)

    def seed(self, seed: int) -> None:
        """Start the random numbers of the sampling primitives anew; -1 is 0."""
        self.random.seed(0 if seed == -1 else seed)

    def fork_seed(self) -> int:
        """A seed for another schedule, which follows from this one's."""
        return self.random.getrandbits(31)

    def steps(self) -> dict[str, list[tuple[str, PrimFunc]]]:
        """By function: the calls that changed it, each with the program before it."""
        return {
            n: [(str(call), before) for call, before in s.history] for n, s in self._states.items()
        }

    def show(self, style: str | None = None, black_format: bool = False) -> None:
        """Print the program and the trace. The arguments are the classic ones; text is plain."""
        print(show(self.func, {}))
        print(self.trace)
