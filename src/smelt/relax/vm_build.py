"""The old place of `relax.build` and `relax.VirtualMachine`."""

from __future__ import annotations

from smelt.ir.tables import names_above

__getattr__ = names_above(
    __name__, {"VirtualMachine": "smelt.relax_build", "build": "smelt.relax_build"}
)
