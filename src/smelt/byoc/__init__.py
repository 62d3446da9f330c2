"""Bring your own code generator: parts of a graph that somebody else's code computes.

A graph function with {"Compiler": "mybackend"} is given to the code generator that is registered
under this name. It answers with C source, or with a text and a runtime half in Python that runs it.
Nothing of smelt is built again for it.

    @smelt.byoc.register_codegen("mybackend")
    def codegen(func, symbol, module):
        return smelt.byoc.CSource(...)          # or smelt.byoc.Json(...)
"""

from __future__ import annotations

from smelt.byoc.codegen import (
    CSource,
    Json,
    compile_externals,
    register_codegen,
    registered_codegens,
    signature,
)
from smelt.runtime.external import register_runtime, registered_runtimes

__all__ = ["CSource", "Json", "compile_externals", "register_codegen", "register_runtime",
           "registered_codegens", "registered_runtimes", "signature"]  # fmt: skip
