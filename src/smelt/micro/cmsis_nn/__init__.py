"""CMSIS-NN: Arm's library of quantized operators for Cortex-M, called from models as C."""

from .emit import COMPILER, CORES, FOLDER
from .partition import partition

__all__ = ["COMPILER", "CORES", "FOLDER", "partition"]
