"""Instruments of passes at their second classic place; see `smelt.ir.instrument`."""

from smelt.ir.instrument import (
    DumpIR,
    PassInstrument,
    PassPrintingInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    pass_instrument,
)

__all__ = ["DumpIR", "PassInstrument", "PassPrintingInstrument", "PassTimingInstrument",
           "PrintAfterAll", "PrintBeforeAll", "pass_instrument"]  # fmt: skip
