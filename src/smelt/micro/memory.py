"""What a model needs of a microcontroller's memory, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smelt.ir.errors import CompileError


@dataclass(frozen=True)
class Block:
    """A result that stands in the workspace.

    offset, size  bytes
    first, last   the steps that write it first and read it last
    pool          where, if there are several
    """

    name: str
    offset: int
    size: int
    first: int
    last: int
    pool: str = ""


@dataclass(frozen=True)
class PoolUse:
    """A memory for results or for constants, and how many bytes of it are taken; size: None where
    it has as many as are needed."""

    name: str
    size: int | None
    used: int
    constants: bool


@dataclass(frozen=True)
class Step:
    """A kernel of a run.

    live       bytes of the workspace that hold something meanwhile
    constants  bytes of the constants that it reads
    """

    kernel: str
    live: int
    constants: int


@dataclass(frozen=True)
class MemoryReport:
    """The plan of a model's memory.

    workspace  bytes of all results that are alive at different times
    least      bytes that one step needs: no plan with these kernels in this order takes less
    constants  bytes that are read only; inputs, outputs: bytes of these
    pools      those of results, if there are several, and those of constants
    workspace_io  whether inputs and outputs stand in the workspace, or are the caller's
    """

    model: str
    steps: tuple[Step, ...]
    blocks: tuple[Block, ...]
    workspace: int
    least: int
    constants: int
    inputs: int
    outputs: int
    pools: tuple[PoolUse, ...] = ()
    workspace_io: bool = False

    @property
    def peaks(self) -> list[int]:
        """The steps that need most."""
        most = max([s.live for s in self.steps], default=0)
        return [n for n, s in enumerate(self.steps) if s.live == most]

    def check(self, ram: int | None = None, flash: int | None = None) -> None:
        """Raise a CompileError where the model does not fit.

        ram    bytes for workspace, inputs and outputs; flash: for constants, code not counted
        """
        apart = 0 if self.workspace_io else self.inputs + self.outputs
        needed = self.workspace + apart
        if ram is not None and needed > ram:
            names = ", ".join([f"{n} {self.steps[n].kernel}" for n in self.peaks[:3]])
            raise CompileError(
                f"{self.model} needs {needed:,} bytes of RAM, {needed - ram:,} more than the "
                f"{ram:,} given: workspace {self.workspace:,}, inputs {self.inputs:,}, outputs "
                f"{self.outputs:,}\n  most of it in step {names}\n  a smaller image, fewer "
                "channels there, or bytes in place of floats (smelt quantize) need less"
            )
        if flash is not None and self.constants > flash:
            large = max(self.steps, key=lambda s: s.constants)
            raise CompileError(
                f"{self.model} has {self.constants:,} bytes of constants, "
                f"{self.constants - flash:,} more than the {flash:,} bytes of flash given\n  most "
                f"of them in {large.kernel}: {large.constants:,}\n  weights of 8 bits (smelt "
                "quantize) take a quarter of those in float32"
            )


def live_at(blocks: Sequence[Block], step: int) -> int:
    """Bytes that are in use in a step; those that results share with operands count once."""
    total, ends = 0, dict.fromkeys([b.pool for b in blocks], 0)
    for b in sorted([b for b in blocks if b.first <= step <= b.last], key=lambda b: b.offset):
        total += max(0, b.offset + b.size - max(b.offset, ends[b.pool]))
        ends[b.pool] = max(ends[b.pool], b.offset + b.size)
    return total
