"""The old place of `relax.build` and `relax.VirtualMachine`."""

from __future__ import annotations

from smelt.ir.tables import names_above

_NAMES = ("VirtualMachine", "build")
__getattr__ = names_above(__name__, dict.fromkeys(_NAMES, "smelt.relax_build"))
