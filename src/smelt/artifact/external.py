"""External functions in a model: graph functions with {"Compiler": ...}, which other code computes.

A back end makes an `External` of each (`smelt.byoc`). The host program calls C code directly,
Python code through the host's table of functions. Operands and results are dense and row-major.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError
from smelt.ir.expr import Expr, Var, const
from smelt.ir.types import TensorType
from smelt.ir.walk import free_vars
from smelt.relax.nodes import Function, tensor_type_of, tensor_types
from smelt.relax.shapes import BaseCheckResult, struct_info_base_check
from smelt.relax.views import dense

from .graph import Launch, Place, Storage, calls_in
from .host import KernelCall
from .variants import tensor_data


@dataclass(frozen=True)
class External:
    """What a back end made of one external function.

    symbol     the function's name in the object code, and for people
    compiler   the back end
    object     object code (C form); b"" where Python code runs the text
    source     C source in place of it, where the model becomes C
    workspace  bytes that the function works in (C form), its last pointer; 0: none is given
    text       what the runtime half loads (Json form)
    constants  arrays that come with it: further operands (C form), or given to the runtime half
    module     the Python module that registered the runtime half
    """

    symbol: str
    compiler: str
    object: bytes = b""
    source: str = ""
    workspace: int = 0
    text: str = ""
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    module: str = ""

    @property
    def is_code(self) -> bool:
        """Whether it is called by its symbol."""
        return bool(self.object or self.source)


Externals = Mapping[str, External]


def sizes_of(func: Function) -> list[Var]:
    """The symbolic sizes that an external function takes: those of its types, in order."""
    found: dict[Var, None] = {}
    for t in [*[p.type for p in func.params], *tensor_types(func.body.type)]:
        found.update(dict.fromkeys(sorted(free_vars(t), key=lambda v: v.name)))
    return list(found)


def external_call(
    launch: Launch, made: External, constants: Sequence[Storage], number: int | None, at: int
) -> KernelCall:
    """The call of an external function in the host program.

    number  the place of a function that Python code runs in the host's table
    at      the number of the launch
    """
    given: list[Place] = []
    if made.is_code:
        given = [Place(s, dense((const(s.fixed_bytes // dt.bytes_of(s.dtype)),)))
                 for s in constants]  # fmt: skip
    places = [*launch.inputs, *given, *launch.outputs]
    names = [v.name for v in sizes_of(launch.group)]
    scratch = []
    if made.workspace:
        extent = const(made.workspace)
        scratch = [Storage("temporary", "uint8", extent, name="scratch", first=at, last=at)]
    return KernelCall(launch, made.symbol, places, names, scratch, number)


def check_types(launch: Launch, made: External, symbols: Mapping[str, Var]) -> None:
    """The operands of a call have the types that the function states; sizes go by name."""
    sizes = sizes_of(launch.group)
    for v in sizes:
        if v.name not in symbols:
            known = ", ".join(symbols) or "none"
            raise CompileError(
                f"{made.symbol}: its types mention the size {v.name}, which is no size of the "
                f"model's inputs; sizes: {known}"
            )
    own: dict[Var, Expr] = {v: symbols[v.name] for v in sizes}
    for p, at in zip(launch.group.params, launch.inputs, strict=True):
        given = TensorType(at.view.shape, at.storage.dtype)
        if struct_info_base_check(p.type, given, own) is not BaseCheckResult.PASS:
            raise CompileError(
                f"{made.symbol}: the parameter {p.name} is {p.type!r}, {given!r} is given"
            )


def operators_of(func: Function, functions: Mapping[str, Any]) -> list[str]:
    """What a function calls, by name; composites by theirs."""
    names = []
    for call, callee in calls_in(func, functions):
        name = getattr(call.op, "name", "function")
        composite = isinstance(callee, Function)
        names.append(str(callee.attrs.get("Composite", name) if composite else name))
    return names


def entry_of(made: External, launch: Launch, offsets: Mapping[str, int]) -> dict[str, Any]:
    """What the metadata say of a function that Python code runs.

    offsets  of the constants in the blob
    """
    inputs = map(tensor_type_of, launch.group.params)
    outputs = tensor_types(launch.group.body.type)
    return {
        "symbol": made.symbol,
        "compiler": made.compiler,
        "module": made.module,
        "text": made.text,
        "symbols": [v.name for v in sizes_of(launch.group)],
        "inputs": [tensor_data(t.dtype, t.shape) for t in inputs],
        "outputs": [tensor_data(t.dtype, t.shape) for t in outputs],
        "constants": [
            tensor_data(dt.from_numpy(a.dtype), map(const, a.shape), name=n, offset=offsets[n])
            for n, a in made.constants.items()
        ],
    }
