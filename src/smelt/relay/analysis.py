"""Looking at Relay programs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from smelt.ir.errors import Absent, TypeMismatch, Unsupported
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.ir.walk import free_vars as sizes_of
from smelt.relax.adt import Match
from smelt.relax.adt import unmatched_cases as missing_cases
from smelt.relax.analysis import (
    all_vars,
    binders,
    bound_vars,
    direct_parts,
    free_vars,
    parts,
    post_order_visit,
)
from smelt.relax.graph import needed_vars
from smelt.relax.nodes import Call, Constant, Function, Let, RelaxExpr, Tuple, TupleGetItem, Var
from smelt.relax.transform.let_form import to_basic_blocks
from smelt.relax.transform.match import dims
from smelt.runtime.errors import nearest
from smelt.tir.names import unique_name
from smelt.topi.registry import Op
from smelt.transform import PassContext

from .dialect import is_call
from .op import name_of
from .transform import FuseOps, InferType, SimplifyInference
from .transform.fake_quantization_rules import RelayWords

__all__ = ["all_dtypes", "all_type_vars", "all_vars", "bound_type_vars", "bound_vars",
           "check_basic_block_normal_form", "check_constant", "constants", "count_layers",
           "count_ops", "detect_feature", "extract_fused_functions", "extract_intermdeiate_expr",
           "extract_intermediate_expr", "free_type_vars", "free_vars", "get_total_mac_number",
           "list_fake_quantized_op_freqs", "list_op_freqs", "post_order_visit",
           "search_fc_transpose", "unmatched_cases", "well_formed"]  # fmt: skip


def _function_of(given: Any) -> Any:
    """The function "main" of a module; any expression as it is."""
    return given["main"] if isinstance(given, IRModule) else given


# ------------------------------------------------------------------------------- variables


def all_type_vars(expr: Any, mod: IRModule | None = None) -> list[SizeVar]:
    """The symbolic sizes in an expression's types."""
    found: dict[SizeVar, None] = {}
    for part in parts(expr):
        if isinstance(part, RelaxExpr):
            sizes = sorted(sizes_of(part.type), key=lambda v: v.name)
            found.update(dict.fromkeys(sizes))
    return list(found)


def bound_type_vars(expr: Any, mod: IRModule | None = None) -> list[SizeVar]:
    """The symbolic sizes that the types of parameters bind."""
    bound = {s for p in bound_vars(expr) for s in sizes_of(p.type)}
    return [s for s in all_type_vars(expr) if s in bound]


def free_type_vars(expr: Any, mod: IRModule | None = None) -> list[SizeVar]:
    """The symbolic sizes that no parameter's type binds."""
    bound = set(bound_type_vars(expr))
    return [s for s in all_type_vars(expr) if s not in bound]


def all_dtypes(expr: Any) -> set[str]:
    """The element types of all values."""
    return {
        part.type.dtype
        for part in parts(expr)
        if isinstance(part, RelaxExpr) and hasattr(part.type, "dtype")
    }


# ------------------------------------------------------------------------------------ form


def well_formed(expr: Any) -> bool:
    """Whether each variable is bound once, and used only below where it is bound."""
    expr = _function_of(expr)
    counts = Counter[Var]()
    for part in parts(expr):
        counts.update(binders(part))
    if any(count > 1 for count in counts.values()):
        return False
    outside = set(free_vars(expr))
    if isinstance(expr, Function) and outside:
        return False
    return needed_vars(expr)[expr] <= outside  # none stands where its binder does not reach


def check_constant(expr: Any) -> bool:
    """Whether an expression is known at compile time: a constant, or a tuple of such."""
    if isinstance(expr, Tuple):
        return all(check_constant(i) for i in expr.items)
    return isinstance(expr, Constant)


def check_basic_block_normal_form(expr: Any) -> bool:
    """Whether values that several scopes use have names, as ToBasicBlockNormalForm makes it."""
    f = expr if isinstance(expr, Function) else Function((), expr)
    mod = IRModule({"main": f})
    return to_basic_blocks(mod) is mod


# ------------------------------------------------------------------------------- operators


def count_ops(expr: Any) -> dict[str, int]:
    """How often each operator is called, the most frequent first."""
    return list_op_freqs(expr)


def list_op_freqs(mod: Any) -> dict[str, int]:
    """How often each operator is called, in all functions of a module or in one expression."""
    roots = _functions_of(mod) if isinstance(mod, IRModule) else [mod]
    found: Counter[str] = Counter()
    for root in roots:
        for part in parts(root):
            if isinstance(part, Call) and isinstance(part.op, Op):
                found[name_of(part.op)] += 1
    return dict(found.most_common())


def list_fake_quantized_op_freqs(mod: Any) -> dict[str, int]:
    """How often each operator stands between qnn.dequantize and qnn.quantize: computed in floats,
    but from quantized numbers only and for quantized numbers only."""
    roots = _functions_of(mod) if isinstance(mod, IRModule) else [mod]
    inside: set[Call] = set()
    for root in roots:
        for part in parts(root):
            if is_call(part, "qnn.quantize"):
                inside |= _between(part)
    found = Counter(name_of(c.op) for c in inside if isinstance(c.op, Op))
    return dict(found.most_common())


def _between(quantize: Any) -> set[Call]:
    """The calls that a quantized value is computed by, where all of them start quantized."""
    found = RelayWords(set()).region(quantize.args[0])
    calls = {e for e in found if isinstance(e, Call) and isinstance(e.op, Op)}
    if not all(e in calls or isinstance(e, Constant | Tuple | TupleGetItem) for e in found):
        return set()
    return {e for e in calls if not is_call(e, "qnn.dequantize")}


def constants(expr: Any) -> list[Constant]:
    """The constants of an expression, in order of first use."""
    return [p for p in parts(expr) if isinstance(p, Constant)]


def count_layers(expr: Any, valid_ops: Sequence[str]) -> int:
    """How many calls of some operators lie on the longest path to a result.

    valid_ops  names of operators, e.g. ["nn.conv2d", "nn.dense"]
    """
    wanted = {n if isinstance(n, str) else n.name for n in valid_ops}
    depth: dict[Any, int] = {}
    root = _function_of(expr)
    for part in parts(root):
        below = max([depth.get(c, 0) for c in direct_parts(part)], default=0)
        own = isinstance(part, Call) and isinstance(part.op, Op) and name_of(part.op) in wanted
        depth[part] = below + own
    return depth[root]


def get_total_mac_number(expr: Any) -> int:
    """The multiply-adds of convolutions and products of matrices, for fixed shapes."""
    total = 0
    for part in parts(_function_of(expr)):
        if is_call(part, *_PRODUCTS):
            shapes = [*dims(part), *dims(part.args[0]), *dims(part.args[1])]
            if None in shapes:
                raise Unsupported(
                    f"get_total_mac_number: the shapes of {part.callee} are not all known"
                )
            total += _PRODUCTS[part.callee](part)
    return total


def _size(shape: Sequence[int | None]) -> int:
    return math.prod([e or 0 for e in shape])


def _conv_macs(n: Call) -> int:
    """Every element of the result needs the weights of one output channel."""
    w, layout = dims(n.args[1]), n.attrs["kernel_layout"]
    per = _size(w) // (w[layout.index("O")] or 1)
    if "transpose" in n.op.name:  # type: ignore[union-attr]
        # every element of the data meets the weights of its input channel
        return _size(dims(n.args[0])) * _size(w) // (w[layout.index("I")] or 1)
    return _size(dims(n)) * per


def _matmul_macs(n: Call) -> int:
    a = dims(n.args[0])
    inner = a[-2] if n.attrs.get("transpose_a") else a[-1]
    return _size(dims(n)) * (inner or 0)


_PRODUCTS: dict[str, Callable[[Call], int]] = {
    **{f"nn.conv{r}d": _conv_macs for r in (1, 2, 3)},
    **{f"nn.conv{r}d_transpose": _conv_macs for r in (1, 2, 3)},
    **dict.fromkeys(("nn.dense", "nn.matmul", "nn.batch_matmul"), _matmul_macs),
}


def search_fc_transpose(expr: Any) -> list[str]:
    """The names of parameters w in dense(x, transpose(w)); see transform.SimplifyFCTranspose."""
    found: dict[str, None] = {}
    for part in parts(_function_of(expr)):
        if is_call(part, "nn.dense") and is_call(part.args[1], "transpose"):
            w = part.args[1].args[0]
            if isinstance(w, Var):
                found[w.name] = None
    return list(found)


def unmatched_cases(match: Match, mod: IRModule | None = None) -> list[Any]:
    """Patterns of values that no clause of a Match is for; mod: where its data types are."""
    return list(missing_cases(match, mod or IRModule()))


def detect_feature(a: Any, b: Any = None) -> set[str]:
    """The kinds of expressions that a program uses, by the names of their classes.

    "fLetRec" stands for a function that calls itself, "fGraph" for a value with several uses.
    """
    expr = _function_of(b if isinstance(a, IRModule) and b is not None else a)
    found: set[str] = set()
    uses: Counter[Any] = Counter()
    for part in parts(expr):
        if isinstance(part, Op):
            found.add("fOp")
        elif isinstance(part, Node):
            found.add(f"f{'Var' if isinstance(part, Var) else type(part).__name__}")
        if isinstance(part, Let) and any(p is part.var for p in parts(part.value)):
            found.add("fLetRec")
        uses.update(p for p in direct_parts(part) if isinstance(p, RelaxExpr))
    shared = (e for e, n in uses.items() if n > 1 and not isinstance(e, Var | Constant))
    return found | ({"fGraph"} if any(True for _ in shared) else set())


# --------------------------------------------------------------------------------- extraction


def extract_fused_functions(mod: IRModule) -> dict[str, Function]:
    """The functions that fusion makes of a module's "main", by name: fused_nn_conv2d_add, ..."""
    fused = FuseOps(max(PassContext.current().opt_level, 1))(SimplifyInference()(InferType()(mod)))
    found: dict[str, Function] = {}
    for f in _functions_of(fused):
        for part in parts(f):
            if isinstance(part, Function) and part.attrs.get("Primitive"):
                names = [name_of(p.op) for p in parts(part) if isinstance(p, Call)]  # type: ignore[arg-type]
                stem = "_".join(["fused", *names]).replace(".", "_")
                found[unique_name(stem, set(found))] = part
    return found


def extract_intermdeiate_expr(mod: IRModule, expr_id: int) -> IRModule:
    """A module that computes an intermediate value of "main".

    expr_id  its number among the calls in the order of the graph, from 0

    The classic name is spelled like this; `extract_intermediate_expr` is the same.
    """
    calls = [p for p in parts(mod["main"]) if isinstance(p, Call)]
    if not 0 <= expr_id < len(calls):
        raise TypeMismatch(
            f"extract_intermediate_expr: expr_id={expr_id}; legal: 0 to {len(calls) - 1}"
        )
    wanted = calls[expr_id]
    return mod.with_functions({"main": Function(tuple(free_vars(wanted)), wanted)})


extract_intermediate_expr = extract_intermdeiate_expr


def _functions_of(mod: IRModule) -> list[Function]:
    return [f for f in mod.functions.values() if isinstance(f, Function)]


_ELSEWHERE = {
    "context_analysis": "a program runs on one device, the target's",
    "get_calibration_data": "build the module that extract_intermediate_expr gives, and run it",
    "type_check": "relay.transform.InferType checks all types",
    "kind_check": "types are built from known kinds only",
}


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        raise Absent(f"relay.analysis.{name} has no place here: {_ELSEWHERE[name]}")
    raise Absent(f"module {__name__!r} has no attribute {name!r}{nearest(name, __all__)}")
