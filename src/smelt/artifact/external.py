"""External functions in a model: graph functions with {"Compiler": ...}, which other code computes.

A back end makes an `External` of each (`smelt.byoc`). The host program calls it like a kernel,
through a wrapper of a few instructions: C code is called directly, Python code through the host's
table of functions. Operands and results are dense and row-major.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smelt.codegen.llvm_types import llvm_type
from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError
from smelt.ir.expr import Expr, Var, const
from smelt.ir.types import TensorType, Type
from smelt.ir.walk import free_vars
from smelt.relax.nodes import Call, Function, GlobalVar, tensor_types
from smelt.relax.shapes import BaseCheckResult, struct_info_base_check
from smelt.relax.transform.engine import order
from smelt.relax.views import dense
from smelt.runtime.abi import HOST, Status
from smelt.target import Target
from smelt.target.processor import pointer_bytes

from .graph import Launch, Place, Storage
from .host import KernelCall


@dataclass(frozen=True)
class External:
    """What a back end made of one external function.

    symbol     the function's name in the object code, and for people
    compiler   the back end
    object     object code (C form); b"" where Python code runs the text
    text       what the runtime half loads (Json form)
    constants  arrays that come with it: further operands (C form), or given to the runtime half
    module     the Python module that registered the runtime half
    """

    symbol: str
    compiler: str
    object: bytes = b""
    text: str = ""
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    module: str = ""

    @property
    def wrapper(self) -> str:
        """The name under which the host program calls it."""
        return f"smelt.external.{self.symbol}"


Externals = Mapping[str, External]


def sizes_of(func: Function) -> list[Var]:
    """The symbolic sizes that an external function takes: those of its types, in order."""
    found: dict[Var, None] = {}
    for t in [*[p.type for p in func.params], *tensor_types(func.body.type)]:
        found.update(dict.fromkeys(sorted(free_vars(t), key=lambda v: v.name)))
    return list(found)


def external_call(launch: Launch, made: External, constants: Sequence[Storage]) -> KernelCall:
    """The call of an external function in the host program."""
    given: list[Place] = []
    if made.object:
        given = [Place(s, dense((const(s.fixed_bytes // dt.bytes_of(s.dtype)),)))
                 for s in constants]  # fmt: skip
    places = [*launch.inputs, *given, *launch.outputs]
    names = [v.name for v in sizes_of(launch.group)]
    return KernelCall(launch, made.wrapper, places, names)


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


def wrapper(
    made: External, call: KernelCall, number: int, symbols: Mapping[str, Var], target: Target
) -> str:
    """LLVM text of the function that the host program calls: (host, tensors ..., sizes ...).

    number  the function's place in the host's table
    """
    pointers = [f"%p{i}" for i in range(len(call.places))]
    sizes = [f"%s{i}" for i in range(len(call.scalars))]
    types = [llvm_type(symbols[n].dtype) for n in call.scalars]
    params = [f"ptr {p}" for p in pointers] + [
        f"{t} {s}" for t, s in zip(types, sizes, strict=True)
    ]
    lines = [f'define i32 @"{made.wrapper}"(ptr %host, {", ".join(params)}) #0 {{', "entry:"]
    wide = []
    for t, s in zip(types, sizes, strict=True):
        lines += [] if t == "i64" else [f"{s}w = sext {t} {s} to i64"]
        wide.append(s if t == "i64" else f"{s}w")
    if not made.object:
        field = HOST.offset("externals", pointer_bytes(target))
        lines += _through_table(pointers, wide, field, number)
    else:
        lines += _direct(made, pointers, wide)
        kinds = ["ptr"] * len(pointers) + ["i64"] * len(wide)
        lines.insert(0, f'declare i32 @"{made.symbol}"({", ".join(kinds)})')
    return "\n".join([*lines, "}"]) + "\n"


def _direct(made: External, pointers: list[str], sizes: list[str]) -> list[str]:
    args = ", ".join([f"ptr {p}" for p in pointers] + [f"i64 {s}" for s in sizes])
    return [f'%r = call i32 @"{made.symbol}"({args})', "ret i32 %r"]


def _through_table(pointers: list[str], sizes: list[str], field: int, number: int) -> list[str]:
    lines = []
    for name, kind, given in (("tensors", "ptr", pointers), ("sizes", "i64", sizes)):
        lines.append(f"%{name} = alloca [{max(1, len(given))} x {kind}], align 16")
        for i, value in enumerate(given):
            lines += [
                f"%{name}{i} = getelementptr inbounds {kind}, ptr %{name}, i64 {i}",
                f"store {kind} {value}, ptr %{name}{i}",
            ]
    return [
        *lines,
        f"%field = getelementptr inbounds i8, ptr %host, i64 {field}",
        "%table = load ptr, ptr %field",
        "%none = icmp eq ptr %table, null",
        "br i1 %none, label %absent, label %there",
        "there:",
        f"%slot = getelementptr inbounds ptr, ptr %table, i64 {number}",
        "%function = load ptr, ptr %slot",
        "%r = call i32 %function(ptr %tensors, ptr %sizes)",
        "ret i32 %r",
        "absent:",
        f"ret i32 {Status.UNSUPPORTED:d}",
    ]


def operators_of(func: Function, functions: Mapping[str, Any]) -> list[str]:
    """What a function calls, by name; composites by theirs."""
    names = []
    for v in order(func.body):  # inside composites nobody looks
        if not isinstance(v, Call):
            continue
        callee = functions.get(v.op.name) if isinstance(v.op, GlobalVar) else v.op
        if isinstance(callee, Function):
            names.append(str(callee.attrs.get("Composite", getattr(v.op, "name", "function"))))
        else:
            names.append(str(getattr(v.op, "name", "function")))
    return names


def entry_of(
    made: External,
    launch: Launch,
    offsets: Mapping[str, int],
    size_text: Callable[[Expr], int | str],
) -> dict[str, Any]:
    """What the metadata say of a function that Python code runs.

    offsets    of the constants in the blob
    size_text  an extent as a number or text
    """

    def tensor(t: Type) -> dict[str, Any]:
        assert isinstance(t, TensorType)
        return {"dtype": t.dtype, "shape": [size_text(e) for e in t.shape]}

    constants = [
        {
            "name": name,
            "dtype": dt.from_numpy(data.dtype),
            "shape": list(data.shape),
            "offset": offsets[name],
        }
        for name, data in made.constants.items()
    ]
    return {
        "symbol": made.symbol,
        "compiler": made.compiler,
        "module": made.module,
        "text": made.text,
        "symbols": [v.name for v in sizes_of(launch.group)],
        "inputs": [tensor(p.type) for p in launch.group.params],
        "outputs": [tensor(t) for t in tensor_types(launch.group.body.type)],
        "constants": constants,
    }
