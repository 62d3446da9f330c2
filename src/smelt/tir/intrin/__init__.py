"""Instructions and tensor intrinsics; importing this registers those of the processors below."""

from . import arm, mve, riscv, x86
from .registry import Instruction, TensorIntrin

__all__ = ["Instruction", "TensorIntrin", "arm", "mve", "riscv", "x86"]
