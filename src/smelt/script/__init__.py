"""Programs as Python text: decorators for functions and modules, and texts read back.

    from smelt.script import ir as I, relax as R, tir as T

    @I.ir_module
    class Module:
        @T.prim_func
        def scale(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
            for i in range(16):
                B[i] = A[i] * 2.0

`print(Module.script())` shows the text, `parse` reads such a text.
"""

from __future__ import annotations

from .ir import ir_module
from .text import from_source, parse

__all__ = ["from_source", "ir_module", "parse"]
