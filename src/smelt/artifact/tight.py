"""A model as C in little memory: kernels row by row, results over operands, pools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.memory_pools import Pool
from smelt.tir.parser import parse
from smelt.tir.printer import script

from .backwards import backwards
from .graph import GraphPlan, Storage
from .host import KernelCall
from .kernel import CompiledKernel
from .memory import C_ALIGNMENT, MemoryPlan, aligned, plan_memory
from .overlap import overlaps
from .placing import BY_SIZE, Reach
from .pools import Algorithm
from .streaming import Streamed, stream_rows


@dataclass(frozen=True)
class MemoryOptions:
    """How memory is planned.

    placing       the algorithm that plans what is of fixed size
    pools         where results stand, in C; none: in one of any size
    workspace_io  whether inputs and outputs of C stand there, too
    stream        whether kernels of C run row by row where that saves memory
    """

    placing: Algorithm = BY_SIZE
    pools: Sequence[Pool] = ()
    workspace_io: bool = False
    stream: bool = True


BY_SIZES = MemoryOptions()
"""The classic plan."""


@dataclass(frozen=True)
class Tight:
    """Calls of kernels, the kernels by symbol, the plan, and by symbol the numbers of parameters
    that share memory."""

    calls: Sequence[KernelCall]
    kernels: dict[str, CompiledKernel]
    memory: MemoryPlan
    shares: Mapping[str, Set[int]]


def use_little_memory(
    plan: GraphPlan, calls: Sequence[KernelCall], kernels: Mapping[str, CompiledKernel],
    options: MemoryOptions,
) -> Tight:  # fmt: skip
    """Plan the memory of C. Raises CompileError where pools are too small."""
    programs = {s: parse(k.text) for s, k in kernels.items()}
    made = Streamed([*calls], dict(kernels), programs, {})
    if plan.symbols:  # which C refuses, with what to do
        return Tight(calls, made.kernels, plan_memory([*plan.planned()], plan.symbols), {})
    if options.stream:
        made = stream_rows(calls, kernels, programs, partial(aligned, alignment=C_ALIGNMENT))
    launches = [c.launch for c in made.calls]
    planned = replace(plan, launches=launches).planned(workspace_io=options.workspace_io)
    near = overlaps(made.calls, made.programs, planned)
    scratch = dict.fromkeys([w for c in made.calls for w in c.workspaces])
    heat = touched(made.calls, made.kernels) if options.pools else {}
    memory = plan_memory([*planned, *scratch], (), C_ALIGNMENT, options.placing, near,
                         options.pools, heat, [x.name for x in launches])  # fmt: skip
    return _overlapping(made, near, memory)


def touched(
    calls: Sequence[KernelCall], kernels: Mapping[str, CompiledKernel]
) -> dict[Storage, int]:
    """About how many bytes a run reads and writes of each storage of fixed size: results once,
    other operands once for two operations on elements."""
    found: dict[Storage, int] = defaultdict(int)
    for c in calls:
        made = kernels.get(c.symbol)
        work = (value_of(made.flops) or 0) // 2 if made else 0
        results = {p.storage for p in c.launch.own_outputs}
        for s in dict.fromkeys([*[p.storage for p in c.places], *c.workspaces]):
            reads = 0 if s in results else work * dt.bytes_of(s.dtype)
            found[s] += max(s.fixed_bytes, reads)
    return found


def _overlapping(
    given: Streamed, near: Mapping[tuple[Storage, Storage], Reach], memory: MemoryPlan
) -> Tight:
    """Kernels whose result overlaps an operand, of which some run backwards."""
    calls, kernels = list(given.calls), dict(given.kernels)
    shares = defaultdict[str, set[int]](set, given.shares)
    for n, c in enumerate(given.calls):
        at = len(c.places) - 1
        for k in range(at):
            operand, result = c.places[k].storage, c.places[at].storage
            if (operand, result) not in near:
                continue
            behind = memory.behind(operand, result)
            if not -operand.fixed_bytes < behind < result.fixed_bytes:
                continue
            if behind < near[operand, result].far:
                calls[n] = replace(c, symbol=f"{c.symbol}_backwards")
                program = given.programs[c.symbol]
                turned = backwards(program, program.buffers[at])
                assert turned is not None
                kernels[calls[n].symbol] = replace(kernels[c.symbol], text=script(turned))
            shares[calls[n].symbol] |= {k, at}
    return Tight(calls, kernels, memory, shares)
