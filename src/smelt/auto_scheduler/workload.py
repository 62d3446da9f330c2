"""Programs by name: functions that make tensors, and keys of these with arguments."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from smelt.ir.errors import CompileError
from smelt.ir.expr import IntImm
from smelt.runtime.errors import nearest
from smelt.te import Tensor
from smelt.tir.nodes import PrimFunc

Maker: TypeAlias = Callable[..., Sequence[Tensor]]
"""Makes the parameters of a program, placeholders and results in order."""

WORKLOADS: dict[str, Maker | Sequence[Tensor]] = {}
"""What was registered, by name."""


def register_workload(
    func_name: str | Maker, f: Maker | None = None, override: bool = False
) -> Any:
    """Register a function that makes tensors; a decorator, with or without a name.

    func_name  the name, or the function itself, which is registered under its own
    f          the function, where this is no decorator
    override   whether it may take the place of another one of that name
    """
    if callable(func_name):
        return _registered(func_name.__name__, func_name, override)
    name = func_name

    def enter(made: Maker) -> Maker:
        return _registered(name, made, override)

    return enter if f is None else enter(f)


def _registered(name: str, f: Maker, override: bool) -> Maker:
    if name in WORKLOADS and WORKLOADS[name] is not f and not override:
        raise CompileError(
            f"register_workload: {name!r} is registered already; give another name, or "
            "override=True"
        )
    WORKLOADS[name] = f
    return f


def register_workload_tensors(
    workload_key: str, tensors: Sequence[Tensor], override: bool = True
) -> str:
    """Register tensors under the name in a key."""
    name = decode_workload_key(workload_key)[0]
    if name in WORKLOADS and not override:
        raise CompileError(f"register_workload_tensors: {name!r} is registered already")
    WORKLOADS[name] = list(tensors)
    return workload_key


def make_workload_key(func: str | Maker, args: Sequence[Any] = ()) -> str:
    """The key of a registered function with arguments: `["matmul", 128, "float32"]`.

    func  the function, or its name
    args  numbers, texts, sequences of these
    """
    name = func if isinstance(func, str) else _name_of(func)
    if name not in WORKLOADS:
        raise CompileError(_unknown(name))
    if isinstance(args, str) or not isinstance(args, Sequence):
        raise CompileError(f"make_workload_key: args is {args!r}; legal: a list of arguments")
    return json.dumps([name, *[_plain(a) for a in args]])


def _name_of(func: Any) -> str:
    for name, known in WORKLOADS.items():
        if known is func:
            return name
    said = getattr(func, "__name__", repr(func))
    raise CompileError(f"{said} is no registered workload; write @auto_scheduler.register_workload "
                       "over its definition")  # fmt: skip


def _unknown(name: str) -> str:
    known = ", ".join([n for n in WORKLOADS if n.isidentifier()][:10]) or "none"
    return (f"unknown workload {name!r}{nearest(name, WORKLOADS)}; registered: {known}; "
            "@auto_scheduler.register_workload registers a function")  # fmt: skip


def _plain(value: Any) -> Any:
    """An argument as JSON has it."""
    if isinstance(value, IntImm):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Tensor):
        return ["TENSOR", [_plain(e) for e in value.shape], value.dtype]
    if value is None or isinstance(value, int | float | str):
        return value
    raise CompileError(
        f"make_workload_key: {value!r} is a {type(value).__name__}; legal: numbers, texts, lists "
        "and tuples of these"
    )


def decode_workload_key(workload_key: str) -> list[Any]:
    """The name and the arguments in a key. Raises CompileError for a text that is none."""
    try:
        found = json.loads(workload_key)
    except (TypeError, ValueError):
        found = None
    if not isinstance(found, list) or not found or not isinstance(found[0], str):
        raise CompileError(
            f"{workload_key!r} is no workload key; legal: what make_workload_key gives, e.g. "
            '["matmul", 128, "float32"]'
        )
    return found


def workload_key_to_tensors(workload_key: str) -> list[Tensor]:
    """The tensors of a key. Raises CompileError for a name that is not registered."""
    name, *args = decode_workload_key(workload_key)
    known = WORKLOADS.get(name)
    if known is None:
        raise CompileError(_unknown(name))
    made = known(*[_tuples(a) for a in args]) if callable(known) else known
    if not isinstance(made, list | tuple) or not all(isinstance(t, Tensor) for t in made):
        raise CompileError(f"the workload {name!r} gave {made!r}; it has to give a list of tensors")
    return list(made)


def _tuples(value: Any) -> Any:
    """Sequences as tuples, so that they can be shapes."""
    return tuple([_tuples(v) for v in value]) if isinstance(value, list) else value


def key_of_program(program: PrimFunc, text: str) -> str:
    """The key of a program that no function makes: a hash of its text, and its buffers' shapes."""
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    shapes = [[_plain(e) if isinstance(e, IntImm) else str(e) for e in b.shape]
              for b in program.buffers]  # fmt: skip
    return json.dumps([digest, *shapes])
