"""Calls of programs and functions, shapes as values, and what has no place in a graph here."""

from __future__ import annotations

from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.errors import TypeMismatch

from ..compose import create
from ..compose.common import count_of, dtype_of, legal, rank_of, scalar, shape_of
from ..compose.operands import value
from ..host_ops import packed_call
from ..nodes import (
    Call,
    Function,
    GlobalVar,
    RelaxExpr,
    Tuple,
    call_function,
    given_indices,
    updating,
)
from ..nodes import call_tir as call_program
from .entry import entry, refused, shape_given, size_given, type_given
from .registry import builder


@builder("call_tir")
def call_tir(
    gvar: Any, args: Any, out_sinfo: Any = None, tir_vars: Any = None, *, out_ty: Any = None
) -> Call:
    """A tensor program of the module, applied to values; it gets its results' memory from here.

    gvar       its name as a GlobalVar or a str
    out_sinfo  the type of the result, or a list of types (new name: out_ty)
    """
    where = "relax.op.call_tir"
    legal(tir_vars is None, f"{where}: tir_vars are found from the operands' shapes; legal: None")
    kind = out_sinfo if out_ty is None else out_ty
    legal(kind is not None, f"{where}: the result's type has to be given")
    return call_program(_name(where, gvar), _operands(where, args), type_given(kind))


@builder("call_tir_with_grad")
def call_tir_with_grad(
    gvar: Any, args: Any, out_sinfo: Any = None, te_grad_name: str = "", te_grad_kwargs: Any = None,
    tir_vars: Any = None,
) -> Call:  # fmt: skip
    """call_tir; what its derivative would be is not kept."""
    return call_tir(gvar, args, out_sinfo, tir_vars)


@builder("call_tir_inplace")
def call_tir_inplace(
    gvar: Any, args: Any, inplace_indices: Any, out_sinfo: Any = None, tir_vars: Any = None, *,
    out_ty: Any = None,
) -> Call:  # fmt: skip
    """A tensor program that writes to some of its operands, which are its results then.

    inplace_indices  for each result the number of the operand, or -1: it gets memory of its own
    """
    made = call_tir(gvar, args, out_sinfo, tir_vars, out_ty=out_ty)
    return updating("relax.op.call_tir_inplace", made, inplace_indices)


@builder("call_pure_packed")
def call_pure_packed(func: Any, *args: Any, sinfo_args: Any = None) -> Call:
    """A function that is registered by name (smelt.register_func), applied to values.

    It gets NDArrays, and gives one, or as many in a tuple or list as sinfo_args has types. Python
    runs it.
    """
    where = "relax.op.call_pure_packed"
    return packed_call(_registered(where, func), _operands(where, args), _said(where, sinfo_args))


@builder("call_dps_packed")
def call_dps_packed(func: Any, args: Any, out_sinfo: Any = None) -> Call:
    """The same of a function that gets its results behind its operands and writes to them.

    out_sinfo  the type of the result, or a list of types, whose sizes are numbers
    """
    where = "relax.op.call_dps_packed"
    kind = _said(where, out_sinfo)
    return packed_call(_registered(where, func), _operands(where, args), kind, fresh=True)


@builder("call_inplace_packed")
def call_inplace_packed(
    func: Any, *args: Any, inplace_indices: Any = 0, sinfo_args: Any = None
) -> Call:
    """The same of a function that writes to some of its operands, which are its results then.

    inplace_indices  for each result the number of the operand, or -1: the function gives it
    """
    where = "relax.op.call_inplace_packed"
    kind, given = _said(where, sinfo_args), given_indices(inplace_indices)
    return packed_call(_registered(where, func), _operands(where, args), kind, given)


def _registered(where: str, func: Any) -> str:
    legal(isinstance(func, str), f"{where}: the function is {func!r}; its name is legal")
    return str(func)


def _said(where: str, kind: Any) -> Any:
    legal(kind is not None, f"{where}: the result's type has to be given")
    return type_given(kind)


def _name(where: str, given: Any) -> GlobalVar:
    if isinstance(given, str):
        return GlobalVar(given)
    if not isinstance(given, GlobalVar):
        raise TypeMismatch(
            f"{where}: the program is given as {type(given).__name__}; a GlobalVar, or its name in "
            "the module, is legal"
        )
    return given


def _operands(where: str, given: Any) -> list[RelaxExpr]:
    many = given if isinstance(given, list | tuple) else [given]
    many = many[0].items if len(many) == 1 and isinstance(many[0], Tuple) else many
    return [value(x, f"{where}: an operand") for x in many]


@builder("invoke_closure")
def invoke_closure(closure: Any, args: Any, sinfo_args: Any = None) -> Call:
    """A function that is a value, applied to values; sinfo_args: the result's type."""
    known = None if sinfo_args in (None, (), []) else type_given(_single(sinfo_args))
    return call_function(closure, _operands("relax.op.invoke_closure", args), known)


builder("invoke_pure_closure")(invoke_closure)


def _single(given: Any) -> Any:
    return given[0] if isinstance(given, list | tuple) and len(given) == 1 else given


@builder("make_closure")
def make_closure(func: Any, args: Any) -> Function:
    """A function of the remaining parameters of a Function, whose first ones are given."""
    where = "relax.op.make_closure"
    if not isinstance(func, Function):
        raise TypeMismatch(
            f"{where}: the function is given as {type(func).__name__}; a Function is legal (of a "
            "function of the module, write one that calls it)"
        )
    given = _operands(where, args)
    rest = func.params[len(given) :]
    return Function(rest, call_function(func, [*given, *rest], func.ret_type))


# ------------------------------------------------------------------------------ shapes as values


@entry("shape_of")
def shape_of_(expr: RelaxExpr) -> RelaxExpr:
    """The extents as a vector of int64."""
    return create.size_vector(shape_of(expr), "int64")


@builder("shape_to_tensor")
def shape_to_tensor(expr: Any) -> RelaxExpr:
    """A shape (a tuple of sizes, or a vector already) as a vector of int64."""
    if isinstance(expr, RelaxExpr) and not hasattr(expr, "values") and not isinstance(expr, Tuple):
        return expr
    return create.size_vector(shape_given(expr), "int64")


@entry("tensor_to_shape")
def tensor_to_shape(expr: RelaxExpr) -> RelaxExpr:
    """A vector of int64 as a shape: shapes that are values are such vectors here."""
    legal(dtype_of(expr) == "int64", f"the vector is {dtype_of(expr)}; int64 is legal")
    return expr


@entry("size")
def size(x: RelaxExpr) -> RelaxExpr:
    """The number of elements, a scalar of int64."""
    return create.size_scalar(count_of(x), "int64")


def _axis(x: RelaxExpr, axis: Any) -> int:
    at = size_given(axis)
    legal(0 <= at < rank_of(x), f"axis={at} of a tensor of {rank_of(x)} dimensions")
    return int(at)


@entry("inspect.tensor_shape_i")
def tensor_shape_i(expr: RelaxExpr, axis: int) -> RelaxExpr:
    """An extent, a scalar of int64."""
    return create.size_scalar(shape_of(expr)[_axis(expr, axis)], "int64")


@entry("inspect.tensor_stride_i")
def tensor_stride_i(expr: RelaxExpr, axis: int) -> RelaxExpr:
    """The distance of neighbours along an axis in elements: values are dense."""
    step: Any = 1
    for e in shape_of(expr)[_axis(expr, axis) + 1 :]:
        step = e * step
    return create.size_scalar(step, "int64")


@entry("inspect.tensor_ndim")
def tensor_ndim(expr: RelaxExpr) -> RelaxExpr:
    """The number of dimensions, a scalar of int64."""
    return scalar(len(shape_of(expr)), "int64")


def _number(name: str, what: str, of: Any) -> None:
    def build(expr: RelaxExpr) -> RelaxExpr:
        return scalar(of(dtype_of(expr)), "int64")

    build.__doc__ = f"{what}, a scalar of int64."
    entry(f"inspect.{name}")(build)


def _code(dtype: str) -> int:
    """The code of an element type's kind in DLPack."""
    if dtype == "bool":
        return 6
    if dtype.startswith("bfloat"):
        return 4
    return 2 if dt.is_float(dtype) else 1 if dtype.startswith("uint") else 0


_number("tensor_dtype_code", "The kind of the element type as DLPack counts", _code)
_number("tensor_dtype_bits", "The width of an element in bits", lambda d: dt.bytes_of(d) * 8)
_number("tensor_dtype_lanes", "The lanes of an element, 1", lambda d: 1)
_number("tensor_byte_offset", "The offset into the memory, 0: values are dense", lambda d: 0)
_number("tensor_elem_offset", "The offset into the memory, 0: values are dense", lambda d: 0)


# --------------------------------------------------------------------------------- as it is


def _same(*names: str, doc: str) -> None:
    def build(data: RelaxExpr, *ignored: Any, **named: Any) -> RelaxExpr:
        return data

    build.__doc__ = doc
    for name in names:
        entry(name)(build)


_same("to_vdevice", "hint_on_device", doc="The value: all of a program is on one device.")
_same("grad.no_grad", "grad.start_checkpoint", "grad.end_checkpoint",
      doc="The value: there is no derivative to be told anything.")  # fmt: skip
_same("builtin.stop_lift_params",
      doc="The value: what depends on parameters alone is computed while compiling.")  # fmt: skip
_same("memory.ensure_zero_offset", doc="The value: values are dense.")


# --------------------------------------------------------------------------------- refused

refused(
    ["call_py_func", "call_builtin_with_ctx"],
    "a graph calls no Python function; te.extern in a PrimFunc (call_tir), or a registered "
    "codegen (smelt.byoc) brings foreign code in",
)  # fmt: skip
refused(
    ["print", "assert_op"],
    "a graph has values and no effects; make a value a result, or compare it after the run",
)
refused(["register_gradient"], "relay.transform.gradient derives programs of Relay's operators")
refused(["null_value"], "an operand that is left out is None")
refused(
    ["memory.alloc_storage", "memory.alloc_tensor", "memory.kill_storage", "memory.kill_tensor",
     "memory.view", "vm.alloc_storage", "vm.alloc_tensor", "vm.kill_object",
     "builtin.alloc_tensor"],
    "memory is planned when the program is compiled",
)  # fmt: skip
refused(["vm.call_tir_dyn"], "call_tir takes symbolic sizes from its operands' shapes")
refused(
    ["ccl.allreduce", "ccl.allgather", "ccl.broadcast_from_worker0", "ccl.scatter_from_worker0",
     "dist.annotate_sharding", "dist.redistribute", "dist.call_tir_local_view",
     "dist.redistribute_replica_to_shard"],
    "a program runs on one device",
)  # fmt: skip
