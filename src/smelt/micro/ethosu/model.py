"""What vela made of a model."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from smelt.ir.errors import CompileError
from smelt.runtime.errors import ExportError
from smelt.runtime.files import write_file

from .emit import Block, EthosUTensor, driver_code


@dataclass(frozen=True)
class Estimate:
    """What vela expects; nothing of it was measured.

    sram, flash  bytes; flash holds the weights, of large memory modes it is DRAM
    """

    seconds: float
    cycles: int
    macs: int
    sram: int
    flash: int


@dataclass(frozen=True)
class EthosU:
    """A model for an accelerator.

    tflite    the optimised model, which TensorFlow Lite Micro runs with its kernel for Ethos-U
    npu, cpu  the operators of the model that run on the processor, and those that do not
    blocks    the parts that run there
    inputs, outputs  of a model that runs there as a whole; none otherwise
    """

    name: str
    accelerator: str
    tflite: bytes
    npu: tuple[str, ...]
    cpu: tuple[str, ...]
    blocks: tuple[Block, ...]
    inputs: tuple[EthosUTensor, ...]
    outputs: tuple[EthosUTensor, ...]
    estimate: Estimate

    @property
    def command_stream(self) -> bytes:
        """The commands, where there is one block of them. Raises CompileError elsewhere."""
        return self._only.commands

    @property
    def weights(self) -> bytes:
        """The bytes in flash of the only block."""
        return self._only.weights

    @property
    def scratch_bytes(self) -> int:
        """The bytes that the only block works in, those of the processor's own memory included."""
        return self._only.scratch + self._only.fast

    @property
    def _only(self) -> Block:
        if len(self.blocks) != 1:
            raise CompileError(
                f"{self.name} has {len(self.blocks)} parts for {self.accelerator}, each with "
                "commands of its own: see blocks"
            )
        return self.blocks[0]

    @property
    def c(self) -> tuple[str, str]:
        """C source and header of a function that gives the model to Arm's driver.

        Raises CompileError for a model with operators that stay on the CPU.
        """
        if not self.inputs:
            raise CompileError(
                f"{self.name}: {', '.join(self.cpu)} stay on the CPU, so that the driver alone "
                "cannot run the model; TensorFlow Lite Micro runs the optimised .tflite"
            )
        return driver_code(self.name, self._only, self.inputs, self.outputs)

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write NAME_vela.tflite, and NAME.c and NAME.h of a model that runs there as a whole.

        Raises ExportError where the folder cannot be made or written to.
        """
        target = Path(folder)
        texts = {f"{self.name}_vela.tflite": self.tflite}
        if self.inputs:
            source, header = self.c
            texts |= {f"{self.name}.c": source.encode(), f"{self.name}.h": header.encode()}
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise ExportError(f"cannot make the folder {target}: {e.strerror}") from None
        for name, content in texts.items():
            write_file(target / name, lambda file, own=content: file.write(own))  # type: ignore[misc]
        return [target / name for name in texts]
