"""Functions of `smelt.relax_frontend`, which stands above graphs; loaded when first used."""

from __future__ import annotations

from smelt.ir.tables import names_above

NAMES = ("from_tflite",)

__getattr__ = names_above(__name__, dict.fromkeys(NAMES, "smelt.relax_frontend"))
