"""Arm's Ethos-U: TFLite models for the neural processors beside Cortex-M.

Arm's compiler vela makes the commands; nothing is run here, as that needs a device.
"""

from .compile import compile_for_ethosu
from .emit import FOLDER, Block, EthosUTensor
from .model import Estimate, EthosU

__all__ = ["FOLDER", "Block", "Estimate", "EthosU", "EthosUTensor", "compile_for_ethosu"]
