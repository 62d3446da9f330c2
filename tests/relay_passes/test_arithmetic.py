"""Passes on Relay's operators: what becomes of what, and that the rest stays as written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.ir.errors import CompileError, SmeltError, TypeMismatch
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Call, Constant, call
from smelt.relax.transform.engine import apply_rules
from smelt.relax.transform.simplify import SIMPLIFY_RULES
from smelt.transform import Sequential

from .programs import op_names, relay

T = relay.transform
RNG = np.random.default_rng(7)


def data(*shape: int, low: float = -1.0) -> np.ndarray:
    return RNG.uniform(low, 1.0, shape).astype("float32")


def const(*shape: int, low: float = -1.0) -> Any:
    return relay.const(data(*shape, low=low))


def run(passed: Any, *params_and_body: Any) -> Any:
    """The function after a pass; its result is that of before."""
    *params, body = params_and_body
    mod = smelt.IRModule.from_expr(relay.Function(params, body))
    after = passed(mod)
    given = [data(*[int(e.value) for e in p.type.shape]) for p in params]
    for a, b in zip(
        interpret(mod["main"], *given), interpret(after["main"], *given, module=after), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
    return after["main"]


def image(name: str = "x", *, last: bool = False, size: int = 6) -> Any:
    return relay.var(name, shape=(1, size, size, 4) if last else (1, 4, size, size))


def conv(x: Any, out: int = 4, k: int = 3, **attrs: Any) -> Any:
    return relay.nn.conv2d(x, const(out, 4, k, k), padding=k // 2, **attrs)


# ------------------------------------------------------------------------- SimplifyInference


def test_batch_norm_becomes_arithmetic() -> None:
    x = image(last=True)
    stats = [const(4), const(4), const(4), const(4, low=0.5)]
    y = relay.nn.batch_norm(x, *stats, axis=3, epsilon=1e-3)[0]
    made = run(T.SimplifyInference(), x, relay.nn.relu(y))
    assert op_names(made) == [
        "add", "sqrt", "divide", "multiply", "multiply", "negative", "multiply", "add", "add",
        "nn.relu",
    ]  # fmt: skip
    folded = run(Sequential([T.SimplifyInference(), T.FoldConstant()]), x, relay.nn.relu(y))
    assert op_names(folded) == ["multiply", "add", "nn.relu"]


def test_batch_norm_of_variables_and_without_scale() -> None:
    x, g, b, m = image(), *[relay.var(n, shape=(4,)) for n in "gbm"]
    y = relay.nn.batch_norm(x, g, b, m, const(4, low=0.5), scale=False)[0]
    made = run(T.SimplifyInference(), x, g, b, m, y)
    assert "nn.batch_norm" not in op_names(made)


def test_dropout_is_its_operand() -> None:
    x = image()
    made = run(T.SimplifyInference(), x, relay.nn.dropout(x, rate=0.3))
    assert made.body is made.params[0]


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("nn.layer_norm", lambda x: relay.nn.layer_norm(x, const(6), const(6))),
        ("nn.layer_norm", lambda x: relay.nn.layer_norm(x, const(4), const(4), axis=1)),
        ("nn.instance_norm", lambda x: relay.nn.instance_norm(x, const(4), const(4))),
        ("nn.group_norm", lambda x: relay.nn.group_norm(x, const(4), const(4), num_groups=2)),
        ("nn.l2_normalize", lambda x: relay.nn.l2_normalize(x, eps=1e-3, axis=[1])),
    ],
)
def test_norms_become_arithmetic(name: str, make: Callable[[Any], Any]) -> None:
    x = image()
    assert name not in op_names(run(T.SimplifyInference(), x, make(x)))


# ------------------------------------------------------------------------------ SimplifyExpr


@pytest.mark.parametrize(
    ("build", "left"),
    [
        (lambda x: x + 0.0, []),
        (lambda x: x * 1.0 / 1.0 - 0.0, []),
        (lambda x: 1.0 * x, []),
        (lambda x: 0.0 - x, ["subtract"]),
        (lambda x: relay.reshape(relay.reshape(x, newshape=(4, 36)), newshape=(1, 4, 6, 6)), []),
        (lambda x: relay.reshape(relay.reshape(x, newshape=(4, 36)), newshape=(144,)), ["reshape"]),
        (lambda x: relay.transpose(relay.transpose(x, axes=(0, 2, 3, 1)), axes=(0, 3, 1, 2)), []),
        (
            lambda x: relay.transpose(relay.transpose(x, axes=(0, 2, 3, 1)), axes=(0, 2, 3, 1)),
            ["transpose"],
        ),
        (lambda x: relay.cast(x, dtype="float32"), []),
        (lambda x: relay.cast(relay.cast(x, dtype="float64"), dtype="float32"), []),
        (lambda x: relay.cast(relay.cast(x, dtype="int32"), dtype="float32"), ["cast", "cast"]),
        (lambda x: relay.concatenate([x], axis=1), []),
        (lambda x: relay.squeeze(relay.expand_dims(x, axis=0), axis=[0]), []),
        (lambda x: x * 2.0 * 3.0, ["multiply"]),
        (lambda x: relay.copy(x), []),
        (lambda x: x / relay.sqrt(relay.abs(x) + 1.0), ["abs", "add", "rsqrt", "multiply"]),
        (lambda x: relay.minimum(relay.maximum(x, 0.0), 0.5), ["clip"]),
        (lambda x: relay.minimum(relay.maximum(x, 1.0), 0.5), ["maximum", "minimum"]),
        (lambda x: relay.clip(relay.clip(x, -1.0, 0.5), 0.0, 2.0), ["clip"]),
        (lambda x: relay.nn.bias_add(x, const(4)), ["nn.bias_add"]),
    ],
)
def test_laws(build: Callable[[Any], Any], left: list[str]) -> None:
    x = image()
    assert op_names(run(T.SimplifyExpr(), x, build(x))) == left


def test_a_larger_shape_is_kept() -> None:
    x = relay.var("x", shape=(6,))
    made = run(T.SimplifyExpr(), x, x + relay.const(np.zeros((4, 6), "float32")))
    assert op_names(made) == ["add"]


@pytest.mark.parametrize(("dtype", "left"), [("int32", ["cast"]), ("int64", ["cast", "cast"])])
def test_casts_through_a_type_that_rounds_are_kept(dtype: str, left: list[str]) -> None:
    x = relay.var("x", shape=(4,), dtype=dtype)
    body = relay.cast(relay.cast(x, "float64"), "int8")
    mod = smelt.IRModule.from_expr(relay.Function([x], body))
    assert op_names(T.SimplifyExpr()(mod)["main"]) == left


def test_rules_know_whose_operators_they_are_about() -> None:
    x = image()
    mixed = call("add", x + 0.0, relay.const(np.float32(0)))
    mod = smelt.IRModule.from_expr(relay.Function([x], mixed))
    assert T.SimplifyExpr()(mod)["main"].body is not mixed
    assert op_names(T.SimplifyExpr()(mod)["main"]) == ["add"]  # the core's
    plain = apply_rules(mod, SIMPLIFY_RULES)["main"]
    assert op_names(plain) == ["add"]
    assert plain.body is mixed.args[0]  # Relay's


def test_rules_go_into_closures_and_leave_branches() -> None:
    x, v = image(), relay.var("v", shape=(1, 4, 6, 6))
    branch = relay.If(relay.const(True), x * 1.0, x - 0.0)
    body = relay.Let(v, relay.Call(relay.Function([], x + 0.0), []), branch + v)
    made = T.SimplifyExpr()(smelt.IRModule.from_expr(relay.Function([x], body)))["main"].body
    assert made.value.op.body is x
    assert (made.body.args[0].true_branch, made.body.args[0].false_branch) == (x, x)


def test_layouts_stay_as_written() -> None:
    x = image(last=True)
    y = relay.nn.conv2d(
        x + 0.0, const(3, 3, 4, 5), data_layout="NHWC", kernel_layout="HWIO", padding=(1, 1)
    )
    for make in (T.SimplifyExpr, T.FoldConstant, T.SimplifyInference, T.CanonicalizeOps,
                 T.FoldScaleAxis, T.EliminateCommonSubexpr):  # fmt: skip
        made = run(make(), x, y).body
        assert made.op.name == "nn.conv2d"
        assert made.attrs.data_layout == "NHWC"
        assert made.attrs.kernel_layout == "HWIO"


def test_division_by_a_constant() -> None:
    x = image()
    made = run(T.DivToMul(), x, x / const(4, 1, 1, low=0.5))
    assert op_names(made) == ["multiply"]
    assert op_names(run(T.DivToMul(), x, (x + 3.0) / (x + 4.0))) == ["add", "add", "divide"]


# ---------------------------------------------------------------------------- FoldScaleAxis


def folded(x: Any, body: Any) -> list[str]:
    both = Sequential([T.FoldScaleAxis(), T.FoldConstant()])
    return op_names(run(both, x, body))


@pytest.mark.parametrize(
    ("build", "left"),
    [
        (lambda x: conv(x) * const(4, 1, 1), ["nn.conv2d"]),
        (lambda x: conv(x * const(4, 1, 1)), ["nn.conv2d"]),
        (
            lambda x: relay.nn.bias_add(conv(x), const(4)) * const(4, 1, 1),
            ["nn.conv2d", "nn.bias_add"],
        ),
        (
            lambda x: relay.nn.relu(conv(x) + const(4, 1, 1)) * const(4, 1, 1, low=0.1),
            ["nn.conv2d", "add", "nn.relu"],
        ),
        (
            lambda x: relay.nn.relu(conv(x)) * relay.const(-data(4, 1, 1, low=0.1)),
            ["nn.conv2d", "nn.relu", "multiply"],
        ),
        (lambda x: conv(relay.nn.relu(x * const(4, 1, 1, low=0.1))), ["nn.relu", "nn.conv2d"]),
        (lambda x: (conv(x) + conv(x)) * 0.5, ["nn.conv2d", "nn.conv2d", "add"]),
        (lambda x: conv(x) * const(6, 1), ["nn.conv2d", "multiply"]),  # along the height
    ],
)
def test_scales_go_into_weights(build: Callable[[Any], Any], left: list[str]) -> None:
    x = image()
    assert folded(x, build(x)) == left


def test_scales_in_other_layouts_and_depthwise() -> None:
    x = image(last=True)
    y = relay.nn.conv2d(x, const(3, 3, 4, 5), data_layout="NHWC", kernel_layout="HWIO")
    assert folded(x, y * const(5)) == ["nn.conv2d"]
    z = image()
    deep = relay.nn.conv2d(z * const(4, 1, 1), const(4, 1, 3, 3), groups=4)
    assert folded(z, deep) == ["nn.conv2d"]
    grouped = relay.nn.conv2d(z * const(4, 1, 1), const(4, 2, 3, 3), groups=2)
    assert folded(z, grouped) == ["multiply", "nn.conv2d"]
    r = relay.var("r", shape=(3, 8))
    assert folded(r, relay.nn.dense(r * const(8), const(5, 8)) * const(5)) == ["nn.dense"]


def test_a_shared_product_is_not_scaled() -> None:
    x = image()
    y = conv(x)
    made = run(T.FoldScaleAxis(), x, relay.Tuple([y * const(4, 1, 1), y]))
    assert op_names(made) == ["nn.conv2d", "multiply"]


# ------------------------------------------------------------------------------ canonical forms


def test_a_bias_becomes_an_addition() -> None:
    x = image()
    made = run(T.CanonicalizeOps(), x, relay.nn.bias_add(conv(x), const(4)))
    assert op_names(made) == ["nn.conv2d", "expand_dims", "add"]
    y = image(last=True)
    assert op_names(run(T.CanonicalizeOps(), y, relay.nn.bias_add(y, const(4), axis=-1))) == ["add"]


def test_wide_casts_are_repeated() -> None:
    x = relay.var("x", shape=(4, 4), dtype="float16")
    y = relay.cast(x, dtype="float32")
    mod = smelt.IRModule.from_expr(relay.Function([x], relay.tanh(y) + relay.exp(y)))
    made = T.CanonicalizeCast()(mod)["main"].body
    assert made.args[0].args[0] is not made.args[1].args[0]
    narrow = relay.cast(relay.var("z", shape=(4, 4)), dtype="float16")
    kept = smelt.IRModule.from_expr(relay.tanh(narrow) + relay.exp(narrow))
    assert T.CanonicalizeCast()(kept) is kept


def test_approximations() -> None:
    x = image()
    made = op_names(T.FastMath()(smelt.IRModule.from_expr(relay.exp(relay.tanh(x)))))
    assert made == ["fast_tanh", "fast_exp"]
    rows = relay.var("r", shape=(2, 3))
    names = op_names(T.FastMath()(smelt.IRModule.from_expr(relay.nn.softmax(relay.erf(rows)))))
    assert names == ["fast_erf", "nn.fast_softmax"]


def test_long_concatenations_are_cut() -> None:
    x = relay.var("x", shape=(2, 3))
    made = run(T.SplitArgs(3), x, relay.concatenate([x + float(i) for i in range(10)], axis=0))
    assert op_names(made).count("concatenate") == 5  # (3, 3, 3), 1; then 2 of what is left
    with pytest.raises(SmeltError, match="max_function_args=1"):
        T.SplitArgs(1)


def test_padding_is_folded() -> None:
    x = image()
    wide = relay.nn.pad(x, pad_width=((0, 0), (0, 0), (1, 2), (0, 1)))
    made = run(T.FoldExplicitPadding(), x, conv(wide)).body
    assert made.attrs.padding == (2, 1, 3, 2)
    assert op_names(made) == ["nn.conv2d"]
    deep = relay.nn.pad(x, pad_width=((0, 0), (1, 1), (0, 0), (0, 0)))
    kept = run(T.FoldExplicitPadding(), x, relay.nn.conv2d(deep, const(2, 6, 3, 3)))
    assert op_names(kept) == ["nn.pad", "nn.conv2d"]
    zeros = run(T.FoldExplicitPadding(), x, relay.nn.max_pool2d(wide, pool_size=(3, 3)))
    assert op_names(zeros) == ["nn.pad", "nn.max_pool2d"]
    mean = run(T.FoldExplicitPadding(), x, relay.nn.avg_pool2d(wide, pool_size=(3, 3))).body
    assert mean.attrs.count_include_pad is True


def test_atrous_convolutions_are_flattened() -> None:
    x = image(last=True)
    first = relay.nn.space_to_batch_nd(x, block_shape=[2, 2], paddings=[[2, 2], [2, 2]])
    y = relay.nn.conv2d(first, const(3, 3, 4, 5), data_layout="NHWC", kernel_layout="HWIO")
    last = relay.nn.batch_to_space_nd(y, block_shape=[2, 2], crops=[[0, 0], [0, 0]])
    made = run(T.FlattenAtrousConv(), x, last)
    assert op_names(made) == ["nn.conv2d"]
    assert made.body.attrs.dilation == (2, 2)


def test_turned_weights_of_dense_layers() -> None:
    x, w = relay.var("x", shape=(3, 8)), relay.var("w", shape=(8, 5))
    y = relay.nn.dense(x, relay.transpose(w, axes=(1, 0)))
    mod = smelt.IRModule.from_expr(relay.Function([x, w], y))
    names = relay.analysis.search_fc_transpose(mod["main"])
    assert names == ["w"]
    made = T.SimplifyFCTranspose(names)(mod)["main"]
    assert [p.name for p in made.params] == ["x", "w.T"]
    a, b = data(3, 8), data(8, 5)
    np.testing.assert_allclose(interpret(made, a, b.T)[0], a @ b, rtol=1e-5)


# ------------------------------------------------------------------------------- side by side


def test_convolutions_side_by_side_become_one() -> None:
    x = image()
    parts = [relay.nn.relu(relay.nn.bias_add(conv(x, out=n), const(n))) for n in (2, 3, 5)]
    made = run(T.CombineParallelConv2D(3), x, relay.concatenate(parts, axis=1))
    names = op_names(made)
    assert names.count("nn.conv2d") == names.count("nn.bias_add") == names.count("nn.relu") == 1
    assert names.count("strided_slice") == 3
    few = run(T.CombineParallelConv2D(4), x, relay.concatenate(parts, axis=1))
    assert op_names(few).count("nn.conv2d") == 3
    other = [conv(x), conv(x, k=1), conv(x, strides=(2, 2))]
    assert op_names(run(T.CombineParallelConv2D(2), x, relay.Tuple(other))).count("nn.conv2d") == 3


def test_dense_layers_side_by_side_become_one() -> None:
    x = relay.var("x", shape=(3, 8))
    same = relay.Tuple([relay.nn.dense(x, const(5, 8)) for _ in range(3)])
    batch = op_names(run(T.CombineParallelDense(3), x, same))
    assert batch.count("nn.batch_matmul") == 1
    assert "nn.dense" not in batch
    rows = relay.Tuple([relay.nn.dense(x, const(n, 8)) for n in (2, 3, 4)])
    flat = op_names(run(T.CombineParallelDense(3, to_batch=False), x, rows))
    assert flat.count("nn.dense") == 1
    assert op_names(run(T.CombineParallelDense(3), x, rows)).count("nn.dense") == 3


def test_products_side_by_side_become_one() -> None:
    x = relay.var("x", shape=(2, 3, 8))
    parts = relay.Tuple([relay.nn.batch_matmul(x, const(2, n, 8)) for n in (2, 3, 4)])
    made = op_names(run(T.CombineParallelBatchMatmul(3), x, parts))
    assert made.count("nn.batch_matmul") == 1
    all_of_them = smelt.transform.PassContext(opt_level=3, required_pass=list(T.LEVELS))
    with all_of_them:
        assert op_names(run(T.BatchingOps(), x, parts)).count("nn.batch_matmul") == 1


def test_weights_that_depend_on_each_other_stay_apart() -> None:
    x = relay.var("x", shape=(8, 8))
    y = relay.nn.dense(x, const(8, 8))
    z = relay.nn.dense(x, y)
    made = run(T.CombineParallelDense(2, to_batch=False), x, relay.Tuple([y, z]))
    assert op_names(made) == ["nn.dense", "nn.dense"]


@pytest.mark.parametrize("make", [T.CombineParallelConv2D, T.CombineParallelBatchMatmul])
def test_the_number_of_branches_is_checked(make: Any) -> None:
    with pytest.raises(CompileError, match="min_num_branches=1"):
        make(1)


# -------------------------------------------------------------------------- shapes, legalizing


def test_the_batch_is_changed() -> None:
    x = image()
    mod = smelt.IRModule.from_expr(relay.Function([x], relay.nn.relu(conv(x))))
    made = T.ChangeBatch({x: 0}, batch_size=5)(mod)["main"]
    assert [int(e.value) for e in made.body.type.shape] == [5, 4, 6, 6]
    with pytest.raises(TypeMismatch, match="no parameter 'data'; parameters: x"):
        T.ChangeBatch({"data": 0})(mod)


def test_shapes_that_are_known_become_attributes() -> None:
    x = image()
    y = relay.dyn.reshape(x, relay.const(np.array([4, 36], "int64")))
    mod = smelt.IRModule.from_expr(relay.Function([x], relay.nn.relu(y)))
    assert op_names(T.DynamicToStatic()(mod)) == ["reshape", "nn.relu"]


def test_legalizing_by_a_table() -> None:
    def halves(attrs: Any, args: list[Any], types: list[Any]) -> Any:
        assert types[-1] is types[0]
        return relay.tanh(args[0] * 0.5) * 0.5 + 0.5

    T.register_legalize("sigmoid", halves, table="test")
    x = image()
    made = run(T.Legalize("test"), x, relay.sigmoid(x))
    assert op_names(made) == ["multiply", "tanh", "multiply", "add"]
    assert op_names(run(T.Legalize(), x, relay.sigmoid(x))) == ["sigmoid"]
    T.register_legalize("tanh", lambda a, args, t: relay.sum(args[0]), table="test")
    with pytest.raises(TypeMismatch, match="the function for tanh changed the type"):
        T.Legalize("test")(smelt.IRModule.from_expr(relay.tanh(x)))
    with pytest.raises(TypeMismatch, match="no operator 'tanhh'; nearest: tanh"):
        T.register_legalize("tanhh", halves)


# -------------------------------------------------------------------------------- precision


def typed(mod: Any) -> dict[str, str]:
    found: dict[str, str] = {}

    def see(n: Any) -> None:
        if isinstance(n, Call) and n.op.name != "cast":  # type: ignore[union-attr]
            found[n.op.name] = n.type.dtype  # type: ignore[union-attr, attr-defined]

    relay.analysis.post_order_visit(mod["main"], see)
    return found


def test_heavy_operators_are_narrow() -> None:
    x = image()
    y = relay.nn.relu(relay.nn.bias_add(conv(x), const(4)))
    y = relay.nn.dense(relay.nn.softmax(relay.nn.batch_flatten(y)), const(3, 144))
    mod = smelt.IRModule.from_expr(relay.Function([x], y))
    made = T.ToMixedPrecision()(mod)
    types = typed(made)
    assert {n for n, t in types.items() if t == "float32"} <= {
        "nn.softmax",
        "nn.conv2d",
        "nn.dense",
    }
    assert types["nn.relu"] == types["nn.bias_add"] == "float16"
    assert types["nn.softmax"] == "float32"
    assert made["main"].params[0].type.dtype == "float32"
    assert made["main"].body.type.dtype == "float16"
    assert all(
        c.data.dtype == "float16" for c in relay.analysis.constants(made["main"])
        if isinstance(c, Constant)
    )  # fmt: skip
    with smelt.transform.PassContext(config={T.mixed_precision.KEEP: True}):
        kept = T.ToMixedPrecision()(mod)
    assert kept["main"].body.type.dtype == "float32"
    brain = typed(T.ToMixedPrecision("bfloat16")(mod))
    assert brain["nn.relu"] == "bfloat16"


def test_conversions_are_registered() -> None:
    x = image()
    mod = smelt.IRModule.from_expr(relay.Function([x], relay.nn.relu(conv(x))))
    table = T.mixed_precision.MIXED_PRECISION
    before = table["nn.conv2d"]
    try:
        T.mixed_precision.register_mixed_precision_conversion(
            "nn.conv2d", lambda call, t: [T.mixed_precision.NEVER, "float32", "float32"]
        )
        assert T.ToMixedPrecision()(mod) is mod
    finally:
        table["nn.conv2d"] = before


def test_operators_without_a_rule() -> None:
    op = "bitwise_and"
    x = relay.var("x", shape=(4,), dtype="int32")
    mod = smelt.IRModule.from_expr(relay.Function([x], getattr(relay, op)(x, x)))
    with pytest.raises(SmeltError, match=f"no rule for {op}"):
        T.ToMixedPrecision(missing_op_mode=0)(mod)
    with pytest.warns(UserWarning, match=op):
        T.ToMixedPrecision(missing_op_mode=1)(mod)
    with pytest.raises(TypeMismatch, match="'float32'"):
        T.ToMixedPrecision("float32")
