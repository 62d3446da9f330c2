"""Mutators: a trace with one decision made otherwise."""

from __future__ import annotations

import random
from math import prod
from typing import Any, Never

from smelt.ir.errors import CompileError
from smelt.tir.schedule import Instruction, Trace

from .rules import UNROLL, Configured


class Mutator(Configured):
    """Changes a decision of a trace; None: there is none to change."""

    def __init__(self) -> None:
        """Draws from a seed of its own until a task gives it one."""
        self.random = random.Random(0)

    def initialize_with_tune_context(self, context: Any) -> None:
        """Get to know the task, and draw from its seed."""
        super().initialize_with_tune_context(context)
        self.random = random.Random(getattr(context, "seed", 0) or 0)

    def apply(self, trace: Trace) -> Trace | None:
        """Another trace."""
        raise NotImplementedError(f"{type(self).__name__} has no method apply")

    @staticmethod
    def create(kind: str) -> dict[Mutator, float]:
        """The mutators of a kind of target, with what part each gets: only "llvm" has some."""
        if kind != "llvm":
            raise CompileError(f"Mutator.create: no kind {kind!r}; legal: 'llvm'")
        return {MutateTileSize(): 0.9, MutateComputeLocation(): 0.05, MutateUnroll(): 0.03,
                MutateParallel(): 0.02}  # fmt: skip

    def _one(self, trace: Trace, name: str) -> Instruction | None:
        """One of a trace's instructions of a name that has a decision."""
        found = [i for i in trace.insts if i.name == name and i.decision is not None]
        return self.random.choice(found) if found else None


class PyMutator(Mutator):
    """The base of mutators of one's own: override `apply`."""


class MutateTileSize(Mutator):
    """Moves a factor from one level of a tile to another."""

    def apply(self, trace: Trace) -> Trace | None:
        """The trace with another tile."""
        tiles = [i for i in trace.insts if i.name == "sample_perfect_tile" and i.decision
                 and len(i.decision) > 1 and prod(i.decision) > 1]  # fmt: skip
        if not tiles:
            return None
        inst = self.random.choice(tiles)
        sizes = list(inst.decision)
        limit = int(inst.attrs.get("max_innermost_factor", 16))
        moves = [(a, b, f) for a in range(len(sizes)) for b in range(len(sizes)) if a != b
                 for f in range(2, sizes[a] + 1) if sizes[a] % f == 0
                 and (b != len(sizes) - 1 or sizes[b] * f <= limit)]  # fmt: skip
        if not moves:
            return None
        a, b, f = self.random.choice(moves)
        sizes[a], sizes[b] = sizes[a] // f, sizes[b] * f
        return trace.with_decision(inst, sizes)


class MutateUnroll(Mutator):
    """Another number of steps to unroll."""

    def apply(self, trace: Trace) -> Trace | None:
        """The trace with another decision where the notes of unrolling are sampled."""
        noted = [i for i in trace.insts if i.name == "annotate"
                 and i.args.get("ann_key") == UNROLL]  # fmt: skip
        names = {str(i.args.get("ann_val")) for i in noted}
        steps = [i for i in trace.insts if i.name == "sample_categorical"
                 and names.intersection(i.outputs)]  # fmt: skip
        if not steps:
            return None
        inst = self.random.choice(steps)
        others = [n for n in range(len(inst.attrs["candidates"])) if n != inst.decision]
        return trace.with_decision(inst, self.random.choice(others)) if others else None


class MutateComputeLocation(Mutator):
    """Another loop to compute a block at."""

    def apply(self, trace: Trace) -> Trace | None:
        """The trace with the decision drawn anew when it is replayed."""
        inst = self._one(trace, "sample_compute_location")
        return None if inst is None else trace.with_decision(inst, None)


class MutateParallel(Mutator):
    """Another number of parallel jobs."""

    def __init__(self, max_jobs_per_core: int = 16) -> None:
        """max_jobs_per_core: jobs a processor, at most."""
        super().__init__()
        self.max_jobs_per_core = max_jobs_per_core

    def apply(self, trace: Trace) -> Trace | None:
        """The trace with another limit in the note of parallel loops."""
        from_rules = [n for n, i in enumerate(trace.insts) if i.name == "annotate"
                      and i.args.get("ann_key") == "meta_schedule.parallel"]  # fmt: skip
        if not from_rules:
            return None
        at = self.random.choice(from_rules)
        old = trace.insts[at]
        most = self.max_jobs_per_core * self.cores
        jobs = [n for n in (1 << k for k in range(most.bit_length())) if n <= most]
        others = [n for n in jobs if n != old.args["ann_val"]]
        if not others:
            return None
        args = {**old.args, "ann_val": self.random.choice(others)}
        made = Instruction(old.name, args, old.outputs, old.many)
        return Trace([*trace.insts[:at], made, *trace.insts[at + 1 :]])


class MutateThreadBinding(Mutator):
    """For GPUs."""

    def apply(self, trace: Trace) -> Never:
        """Refused."""
        raise CompileError("MutateThreadBinding is for GPUs; the target is a CPU")
