"""Instructions and tensor intrinsics; importing this registers those of the processors below."""

from . import arm, dsp, mve, mve_bytes, riscv, x86
from .fit import Fit, fitting
from .registry import Instruction, TensorIntrin

__all__ = ["Fit", "Instruction", "TensorIntrin", "arm", "dsp", "fitting", "mve", "mve_bytes",
           "riscv", "x86"]  # fmt: skip
