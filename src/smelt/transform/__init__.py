"""Passes and the context they run in, under the classic names.

with smelt.transform.PassContext(opt_level=3):
    lib = smelt.relay.build(mod, target="llvm -mcpu=native")
"""

from smelt.ir.instrument import (
    DumpIR,
    PassInstrument,
    PassPrintingInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    pass_instrument,
)
from smelt.ir.transform import ModulePass, Pass, PassContext, PassInfo, Sequential, module_pass
from smelt.lowering.check_passes import CheckInstrument

__all__ = ["CheckInstrument", "DumpIR", "ModulePass", "Pass", "PassContext", "PassInfo",
           "PassInstrument", "PassPrintingInstrument", "PassTimingInstrument", "PrintAfterAll",
           "PrintBeforeAll", "Sequential", "module_pass", "pass_instrument"]  # fmt: skip
