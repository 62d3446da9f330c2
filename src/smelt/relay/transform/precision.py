"""ToMixedPrecision: heavy operators in 16-bit floats, delicate ones in 32.

A table says of each operator whether its operands are brought into the narrow type (ALWAYS), kept
out of it (NEVER), or whether it follows them (FOLLOW).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.module import IRModule
from smelt.ir.node import Node, postorder
from smelt.ir.types import TensorType, TupleType, Type
from smelt.relax import nodes as relax
from smelt.relax.transform.match import dtype_of
from smelt.relax.transform.rewriting import map_functions, names_in
from smelt.runtime.errors import nearest
from smelt.topi.registry import Op
from smelt.transform import Pass, PassContext

from ..dialect import is_call, make
from .passes import graph_pass

ALWAYS, FOLLOW, NEVER = 0, 1, 2
KEEP = "relay.ToMixedPrecision.keep_orig_output_dtype"
MIXED_PRECISION_ALWAYS, MIXED_PRECISION_FOLLOW, MIXED_PRECISION_NEVER = ALWAYS, FOLLOW, NEVER

Answer = Sequence[Any]
"""(ALWAYS, FOLLOW or NEVER; the type that sums have; the type of the result)."""

_ALWAYS = (
    "nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose "
    "nn.dense nn.matmul nn.batch_matmul"
)
_FOLLOW = (
    "nn.pad nn.batch_flatten concatenate zeros split squeeze transpose expand_dims reshape "
    "broadcast_to broadcast_to_like stack strided_slice take tile repeat reverse gather gather_nd "
    "layout_transform slice_like copy ones full zeros_like ones_like full_like where cast_like "
    "reshape_like scatter_nd scatter_elements nn.space_to_depth nn.depth_to_space nn.upsampling "
    "image.resize2d nn.mirror_pad one_hot "
    "add subtract multiply divide maximum minimum negative abs clip ceil floor round trunc sign "
    "nn.bias_add nn.relu nn.leaky_relu nn.prelu nn.dropout sigmoid tanh fast_tanh sqrt rsqrt "
    "nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d "
    "nn.global_max_pool2d nn.adaptive_max_pool2d nn.adaptive_avg_pool2d nn.global_avg_pool2d "
    "nn.batch_norm max min equal not_equal less less_equal greater greater_equal argmax argmin"
)
_NEVER = (
    "exp fast_exp log log2 log10 log1p power erf fast_erf sin cos tan asin acos atan sinh cosh "
    "asinh acosh atanh sum mean prod variance cumsum cumprod nn.softmax nn.fast_softmax "
    "nn.log_softmax nn.layer_norm nn.instance_norm nn.group_norm nn.l2_normalize nn.lrn "
    "nn.cross_entropy nn.nll_loss topk sort argsort arange shape_of cast isnan isinf isfinite "
    "image.crop_and_resize vision.non_max_suppression vision.roi_align all any"
)

MIXED_PRECISION: dict[str, Callable[[relax.Call, str], Answer]] = {}
"""What to do with the calls of an operator; `register_mixed_precision_conversion` enters more."""


def register_mixed_precision_conversion(
    op_name: str, func: Callable[[relax.Call, str], Answer] | None = None, level: int = 10
) -> Any:
    """Say what ToMixedPrecision does with calls of an operator. A decorator where func is None.

    func   (call, narrow type) -> [ALWAYS | FOLLOW | NEVER, type of sums, type of the result]
    level  there for the classic signature: what is registered last counts
    """

    def enter(fn: Callable[[relax.Call, str], Answer]) -> Callable[[relax.Call, str], Answer]:
        MIXED_PRECISION[op_name] = fn
        return fn

    return enter if func is None else enter(func)


def _default(category: int) -> Callable[[relax.Call, str], Answer]:
    def answer(call: relax.Call, narrow: str) -> Answer:
        wide = "out_dtype" in call.attrs and category == ALWAYS
        return category, "float32" if wide else narrow, narrow

    return answer


for _names, _category in ((_ALWAYS, ALWAYS), (_FOLLOW, FOLLOW), (_NEVER, NEVER)):
    for _name in _names.split():
        register_mixed_precision_conversion(_name, _default(_category))


def ToMixedPrecision(mixed_precision_type: str = "float16", missing_op_mode: int = 1) -> Pass:
    """Heavy operators compute in a narrow type.

    mixed_precision_type    "float16" or "bfloat16"
    missing_op_mode         an operator that the table does not know: 0 raises, 1 warns and keeps
                            float32, 2 keeps float32

    Results of functions that nothing calls may be narrow; the config
    "relay.ToMixedPrecision.keep_orig_output_dtype" keeps their types.
    """
    if mixed_precision_type not in ("float16", "bfloat16"):
        raise TypeMismatch(
            f"ToMixedPrecision: mixed_precision_type={mixed_precision_type!r}; legal: 'float16', "
            "'bfloat16'"
        )
    if missing_op_mode not in (0, 1, 2):
        raise TypeMismatch(
            f"ToMixedPrecision: missing_op_mode={missing_op_mode!r}; legal: 0 (raise), 1 (warn), 2"
        )

    def run(mod: IRModule) -> IRModule:
        _check_known(mod, missing_op_mode)
        keep = PassContext.current().setting(KEEP)
        called = {
            c for f in mod.functions.values() if isinstance(f, relax.Function) for c in names_in(f)
        }
        free = {f for n, f in mod.functions.items() if n not in called and not keep}
        return map_functions(mod, lambda f: _Narrow(mixed_precision_type, f).run(f in free))

    return graph_pass("ToMixedPrecision", run)


def _check_known(mod: IRModule, mode: int) -> None:
    """Tell which operators the table does not know."""
    names = {
        n.op.name
        for f in mod.functions.values()
        if isinstance(f, relax.Function)
        for n in postorder(f)
        if isinstance(n, relax.Call) and isinstance(n.op, Op) and n.op.name not in MIXED_PRECISION
    }
    if not names or mode == 2:
        return
    shown = ", ".join(sorted(names))
    if mode == 0:
        hint = nearest(min(names), list(MIXED_PRECISION))
        raise Unsupported(
            f"ToMixedPrecision: no rule for {shown}{hint}; "
            "register_mixed_precision_conversion gives one"
        )
    warnings.warn(f"ToMixedPrecision: {shown} stay in float32: no rule for them", stacklevel=4)


class _Narrow:
    """One function."""

    def __init__(self, narrow: str, f: relax.Function) -> None:
        self.narrow, self.f = narrow, f
        self.done: dict[Node, Any] = {}
        self.casts: dict[tuple[Node, str], relax.RelaxExpr] = {}

    def run(self, free_result: bool) -> relax.Function:
        """The function; free_result: its result may be of another type."""
        for node in postorder(self.f.body):
            self.done[node] = self.visit(node)
        body = self.done[self.f.body] if free_result else self.restored(self.f.body)
        return self.f if body is self.f.body else self.f.replace(body=body)

    def visit(self, node: Node) -> Any:
        """The new form of a value."""
        match node:
            case relax.Call(Op()):
                return self.call(node)
            case relax.Tuple() | relax.TupleGetItem():
                return node.with_children(lambda c: self.done.get(c, c))
        # what a scope or a function sees has the type that is written there
        return node.with_children(self.restored)

    def restored(self, old: Any) -> Any:
        """The new form of a value in its old type."""
        new = self.done.get(old, old)
        if not isinstance(old, relax.RelaxExpr) or relax.incomplete(old.type):
            return new
        return self.in_type(new, old.type)

    def in_type(self, new: relax.RelaxExpr, want: Type) -> relax.RelaxExpr:
        """A value with the element types of a type."""
        if isinstance(want, TensorType):
            return self.cast(new, want.dtype)
        if isinstance(want, TupleType) and new.type is not want:
            items = new.items if isinstance(new, relax.Tuple) else [
                relax.TupleGetItem(new, i) for i in range(len(want.items))
            ]  # fmt: skip
            return relax.Tuple(
                tuple([self.in_type(i, t) for i, t in zip(items, want.items, strict=True)])
            )
        return new

    def cast(self, x: relax.RelaxExpr, dtype: str) -> relax.RelaxExpr:
        """A tensor in another element type, once."""
        if dtype_of(x) == dtype:
            return x
        if (x, dtype) not in self.casts:
            if isinstance(x, relax.Constant):
                made: relax.RelaxExpr = relax.constant(
                    np.asarray(x.data).astype(dt.to_numpy(dtype), order="C"), x.name
                )
            elif is_call(x, "cast") and dtype_of(x.args[0]) == dtype:
                made = x.args[0]  # type: ignore[assignment]
            else:
                made = make("cast", x, dtype=dtype)
            self.casts[x, dtype] = made
        return self.casts[x, dtype]

    def call(self, n: relax.Call) -> relax.RelaxExpr:
        """A call in the type that its operator's entry says."""
        assert isinstance(n.op, Op)
        rule = MIXED_PRECISION.get(n.op.name, _default(NEVER))
        category, sums, result = rule(n, self.narrow)
        new = [None if a is None else self.done[a] for a in n.args]
        if category == FOLLOW:
            category = ALWAYS if self.narrow_enough(new) else NEVER
        if category == NEVER:
            return self.renewed(n, [None if a is None else self.restored(a) for a in n.args])
        args = [None if a is None else self.narrowed(a) for a in new]
        attrs = {}
        if "out_dtype" in n.attrs and rule(n, self.narrow)[0] == ALWAYS:
            attrs["out_dtype"] = sums
        if "dtype" in n.attrs and not n.args:
            return n
        made = relax.renewed_call(n, *args, **attrs)
        if not isinstance(made.type, TensorType) or not dt.is_float(made.type.dtype):
            return made
        return self.cast(made, result)

    def renewed(self, n: relax.Call, args: list[Any]) -> relax.Call:
        same = all(a is b for a, b in zip(args, n.args, strict=True))
        return n if same else relax.renewed_call(n, *args)

    def narrow_enough(self, args: Sequence[Any]) -> bool:
        """Whether some operand is narrow, and the others are too, constants or parameters."""
        parts = [p for a in args if a is not None for p in _parts(a)]
        floats = [p for p in parts if dt.is_float(dtype_of(p) or "int32")]
        computed = [p for p in floats if not isinstance(p, relax.Constant | relax.Var)]
        return bool(computed) and all(dtype_of(p) == self.narrow for p in computed)

    def narrowed(self, a: relax.RelaxExpr) -> relax.RelaxExpr:
        """An operand in the narrow type, where it is of 32-bit floats."""
        if isinstance(a, relax.Tuple):
            return relax.Tuple(tuple([self.narrowed(i) for i in a.items]))
        return self.cast(a, self.narrow) if dtype_of(a) == "float32" else a


def _parts(e: relax.RelaxExpr) -> list[relax.RelaxExpr]:
    return [p for i in e.items for p in _parts(i)] if isinstance(e, relax.Tuple) else [e]
