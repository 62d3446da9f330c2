"""Code generators by name, and what they make of the external functions of a module."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smelt.artifact.external import External, sizes_of
from smelt.artifact.graph import calls_in, symbol_of
from smelt.codegen.c_helpers import STORED
from smelt.ir import dtype as dt
from smelt.ir.errors import CompileError, SmeltError, TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.ir.types import TensorType
from smelt.relax.graph import is_foreign
from smelt.relax.nodes import Function, tensor_types
from smelt.runtime.errors import ExportError, nearest
from smelt.runtime.external import registered_runtimes, runtime_of
from smelt.runtime.linking import c_string, compile_source
from smelt.target import Target


@dataclass(frozen=True)
class CSource:
    """C source that defines the function; `signature` says how it is called.

    flags      further arguments of the C compiler: ("-O3", "-march=native", "-I/usr/include/x")
    constants  arrays that the function gets as operands, after its inputs
    workspace  bytes that the function works in: a pointer to them is given after its outputs
    """

    text: str
    flags: Sequence[str] = ()
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    workspace: int = 0


@dataclass(frozen=True)
class Json:
    """A text (JSON or any other) that the runtime half of the back end loads.

    constants  arrays that the runtime half gets by name
    """

    text: str
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)


Codegen = Callable[[Function, str, IRModule], CSource | Json]
_codegens: dict[str, Codegen] = {}


def register_codegen(name: str) -> Callable[[Codegen], Codegen]:
    """`@register_codegen("mybackend")`: a function (func, symbol, module) -> CSource | Json.

    func    the graph function; its body calls operators and composite functions
    symbol  the name that the code is to have
    module  where the composite functions are
    A name registered again is replaced.
    """
    if not isinstance(name, str) or not name:
        raise TypeMismatch(f"register_codegen({name!r}): a name is needed")

    def enter(codegen: Codegen) -> Codegen:
        if not callable(codegen):
            raise TypeMismatch(
                f"register_codegen({name!r}): a {type(codegen).__name__} is given; "
                "a function (func, symbol, module) is needed"
            )
        _codegens[name] = codegen
        return codegen

    return enter


def registered_codegens() -> tuple[str, ...]:
    """The names of the back ends that generate code."""
    return tuple(sorted(_codegens))


def signature(
    func: Function,
    symbol: str,
    constants: Mapping[str, np.ndarray] | None = None,
    workspace: int = 0,
) -> str:
    """The C declaration of an external function.

    Inputs, then constants, then outputs, then what it works in, where that has bytes, then the
    symbolic sizes of their types; row-major arrays; 0 is success.
    """
    params = [f"const {_c_type(p.type)}* in{i}" for i, p in enumerate(func.params)]
    for i, a in enumerate((constants or {}).values()):
        params.append(f"const {_C_TYPES[dt.from_numpy(a.dtype)]}* const{i}")
    params += [f"{_c_type(t)}* out{i}" for i, t in enumerate(tensor_types(func.body.type))]
    params += ["void* workspace"] if workspace else []
    params += [f"int64_t {v.name}" for v in sizes_of(func)]
    return f"int {symbol}({', '.join(params)})"


_C_TYPES = {name: c for name, c in STORED.items() if name != "handle"}


def _c_type(t: Any) -> str:
    if not isinstance(t, TensorType) or t.dtype not in _C_TYPES:
        raise CompileError(f"an external function cannot take {t!r}; tensors of "
                           f"{', '.join(_C_TYPES)} are possible")  # fmt: skip
    return _C_TYPES[t.dtype]


# --------------------------------------------------------------------------------------- compiling


def compile_externals(mod: IRModule, target: Target, options: Options) -> dict[str, External]:
    """What the registered back ends make of the external functions that "main" calls, by symbol.

    target, options  those of the compilation; C source is compiled for this machine, or stays what
                     it is where the target is "c"
    """
    found: dict[str, tuple[str, Function]] = {}
    for call, func in calls_in(mod["main"], mod.functions):
        if not isinstance(func, Function) or not is_foreign(func):
            continue
        own = call.callee
        symbol = symbol_of(func, own)
        name, _ = found.setdefault(symbol, (own, func))
        if name != own:
            raise CompileError(f"{name} and {own} have one global_symbol, {symbol!r}")
    text = target.kind.name == "c"
    return {symbol: _compiled(func, symbol, mod, text) for symbol, (_, func) in found.items()}


def _compiled(func: Function, symbol: str, mod: IRModule, text: bool) -> External:
    """What a back end makes of a function; text: its source stays source."""
    name = str(func.attrs["Compiler"])
    if not re.fullmatch(r"[A-Za-z_]\w*", symbol, re.ASCII):
        raise CompileError(f"the symbol {symbol!r} of the back end {name!r} is no name in C")
    codegen = _codegens.get(name)
    if codegen is None:
        raise CompileError(
            f"{symbol}: no back end {name!r} is registered{nearest(name, _codegens)}; "
            f"registered: {', '.join(registered_codegens()) or 'none'}\n"
            f'  smelt.byoc.register_codegen("{name}") registers one'
        )
    where = f"the back end {name!r}: {symbol}"
    for t in [*[p.type for p in func.params], func.body.type]:
        for item in tensor_types(t):
            _c_type(item)
    try:
        made = codegen(func, symbol, mod)
    except SmeltError:
        raise
    except Exception as e:
        raise CompileError(f"{where}: the code generator failed: {type(e).__name__}: {e}") from e
    if isinstance(made, CSource):
        constants = _arrays(made.constants, where)
        declared = _declared(func, symbol, made, constants, where)
        code = b"" if text else _c_object(func, symbol, made, constants, declared, where)
        source = made.text if text else ""
        return External(symbol, name, code, source, made.workspace, constants=constants)
    if not isinstance(made, Json):
        raise CompileError(
            f"{where}: the code generator gave a {type(made).__name__}; "
            "legal: smelt.byoc.CSource, smelt.byoc.Json"
        )
    if text:
        raise CompileError(
            f"{where}: its code is Json, which Python code runs; a model as C has parts whose code "
            "generators give smelt.byoc.CSource"
        )
    if not isinstance(made.text, str):
        raise CompileError(f"{where}: Json.text is a {type(made.text).__name__}, not a str")
    loader = runtime_of(name)
    if loader is None:
        raise CompileError(
            f"{where}: its code is Json, and no runtime half is registered under {name!r}\n"
            f'  smelt.byoc.register_runtime("{name}") registers one; '
            f"registered: {', '.join(registered_runtimes()) or 'none'}"
        )
    module = str(getattr(loader, "__module__", ""))
    constants = _arrays(made.constants, where)
    return External(symbol, name, text=made.text, constants=constants, module=module)


def _arrays(constants: Mapping[str, Any], where: str) -> dict[str, np.ndarray]:
    found = {}
    for name, value in constants.items():
        array = np.asarray(value, order="C")
        try:
            known = dt.from_numpy(array.dtype) in _C_TYPES
        except TypeError:
            known = False
        if not known:
            raise CompileError(
                f"{where}: the constant {name!r} has the dtype {array.dtype}; "
                f"legal: {', '.join(_C_TYPES)}"
            )
        found[str(name)] = array
    return found


def _declared(
    func: Function, symbol: str, made: CSource, constants: Mapping[str, np.ndarray], where: str
) -> str:
    """How a back end's function is called. Raises CompileError where its source has none."""
    if not isinstance(made.workspace, int) or made.workspace < 0:
        raise CompileError(f"{where}: workspace is {made.workspace!r}; legal: bytes, 0 or more")
    declared = signature(func, symbol, constants, made.workspace)
    if not re.search(rf"\b{symbol}\s*\(", made.text):
        raise CompileError(
            f"{where}: the C source has no function of this name; it is called as\n  {declared}"
        )
    return declared


def _c_object(
    func: Function, symbol: str, made: CSource, constants: Mapping[str, np.ndarray], declared: str,
    where: str,
) -> bytes:  # fmt: skip
    """Object code of a back end's source, with a call in it that proves the signature."""
    pointers = len(func.params) + len(constants) + len(tensor_types(func.body.type))
    pointers += bool(made.workspace)
    args = ["(void *)0"] * pointers + ["(long long)1"] * len(sizes_of(func))
    check = (
        f"\n#line 1 {c_string(f'called as {declared}')}\n"
        f"static int smelt_check(void) {{ (void)smelt_check; return {symbol}({', '.join(args)}); }}"
    )
    try:
        return compile_source(made.text + check + "\n", symbol, tuple(made.flags))
    except ExportError as e:
        raise CompileError(f"{where}: {e}\n  it is called as\n  {declared}") from None
