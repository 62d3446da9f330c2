"""What the printer writes is read back: the same program, from text alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from smelt.cli.resnet import resnet18
from smelt.ir import dtype as dt
from smelt.ir.equal import assert_structural_equal, structural_equal
from smelt.ir.errors import ParseError
from smelt.ir.expr import FloorDiv, FloorMod, Max, Min
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.relax.nodes import Call, Constant, Function, Tuple, call_function, constant, values

from .face import relay
from .generate import programs
from .programs import control, list_sum


def again(f: Any) -> Any:
    text = relay.astext(f)
    read = relay.parse_expr(text) if not isinstance(f, IRModule) else relay.parse(text)
    assert relay.astext(read) == text
    return read


@given(programs())
@settings(max_examples=100)
def test_a_random_function_is_read_back(f: Function) -> None:
    read = again(f)
    assert structural_equal(read, f), relay.astext(f)
    assert {k: type(v) for k, v in read.attrs.items()} == {k: type(v) for k, v in f.attrs.items()}


@given(programs(), programs())
@settings(max_examples=30)
def test_a_module_of_functions_that_share_sizes_is_read_back(f: Function, g: Function) -> None:
    params = [relay.var("x", p.type) for p in f.params]
    main = relay.Function(params, call_function(relay.GlobalVar("a.b"), params, f.body.type))
    mod = IRModule({"main": main, "a.b": f, "any text": g}, {"k": [1, (2.5,)]})
    read = again(mod)
    assert structural_equal(read, mod), relay.astext(mod)
    assert list(read.functions) == ["main", "a.b", "any text"]


def test_every_bit_of_every_type_is_kept() -> None:
    rng = np.random.default_rng(5)
    for dtype in dt.DTYPES:
        kind = dt.to_numpy(dtype)
        data = rng.integers(0, 2 if dtype == "bool" else 8, 24 * kind.itemsize).astype("u1")
        array = np.frombuffer(data.tobytes(), kind).reshape(2, 3, 4)
        for c in (constant(array), constant(array[1, 2, 3].reshape(())), constant(array.T)):
            read = relay.parse_expr(relay.astext(c))
            assert isinstance(read, Constant)
            assert (read.type, read.data.tobytes()) == (c.type, c.data.tobytes())


def test_numbers_keep_their_bits() -> None:
    for value in (0.0, -0.0, 0.1, 1e-45, 3.4028235e38, float("nan"), -float("inf"), 16777216.0):
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            with np.errstate(over="ignore"):
                c = constant(np.asarray(value).astype(dt.to_numpy(dtype)))
            text = str(c)
            assert "meta" not in text
            read = relay.parse_expr(text)
            assert isinstance(read, Constant)
            assert read.type is c.type
            assert read.data.tobytes() == c.data.tobytes(), text


def test_sizes_are_read_back() -> None:
    n, m, k = SizeVar("n", "int64"), SizeVar("n", "int64"), SizeVar("k", "int32")
    any_, other = relay.Any(), relay.Any()
    shapes = [
        (n, m, 4), (n * 2 + 1, (n + 1) * 2, n - (m - 3)), (FloorDiv(n, m), FloorMod(n + m, n)),
        (Min(n, m * 2), Max(n, m)), (k, k + 1), (any_, 3), (other, other),
    ]  # fmt: skip
    params = [relay.var("x", shape=s) for s in shapes]
    body = relay.Tuple([relay.exp(p) for p in params])
    f = relay.Function(params, body)
    text = str(f)
    assert "%x: Tensor[(n, n_1, 4), float32]" in text
    assert "Tensor[(n * 2 + 1, (n + 1) * 2, n - (n_1 - 3)), float32]" in text
    assert "%x_5: Tensor[(?, 3), float32], %x_6: Tensor[(any, any), float32]" in text
    assert_structural_equal(again(f), f)


def test_attributes_over_sizes_are_read_back() -> None:
    n = SizeVar("n", "int64")
    x = relay.var("x", shape=(n, 4))
    f = relay.Function([x], relay.reshape(x, newshape=(n * 2, 2)))
    assert "newshape=[n * 2, 2]" in str(f)
    assert_structural_equal(again(f), f)


def test_shared_values_stay_shared() -> None:
    x = relay.var("x", shape=(2,))
    e = relay.exp(x)
    pair, apart = relay.Tuple([e, e]), relay.Tuple([relay.exp(x), relay.exp(x)])
    for t in (pair, apart):
        f = relay.Function([x], t)
        assert_structural_equal(again(f), f)
    w = constant(np.ones(3, "float32"))
    read = relay.parse_expr(relay.astext(relay.Tuple([w, w, constant(np.ones(3, "float32"))])))
    assert isinstance(read, Tuple)
    assert read.items[0] is read.items[1] is not read.items[2]


def test_weights_are_given_beside_a_text() -> None:
    x = relay.var("x", shape=(2, 3))
    w = constant(np.arange(12, dtype="float32").reshape(4, 3))
    f = relay.Function([x], relay.nn.dense(x, w) + 1.5)
    text = relay.astext(f, show_meta_data=False)
    assert "#[metadata]" not in text
    table = relay.meta_table(f)
    assert table["relay.Constant"][0].base is not None
    assert_structural_equal(relay.parse_expr(text, meta=table), f)
    with pytest.raises(ParseError, match="refers to 1 constant that it does not hold"):
        relay.parse_expr(text)
    with pytest.raises(ParseError, match="the text holds its constants"):
        relay.parse_expr(relay.astext(f), meta=table)


def chain(depth: int) -> Any:
    x = relay.var("x", shape=(2,))
    e: Any = x
    for _ in range(depth):
        e = relay.nn.relu(e)
    return relay.Function([x], e)


def test_ten_thousand_operators_and_lets() -> None:
    f = chain(10_000)
    assert len(str(f).splitlines()) == 10_002
    assert structural_equal(again(f), f)
    x = relay.var("x", shape=(2,))
    names = [x, *[relay.var("v", shape=(2,)) for _ in range(10_000)]]
    body: Any = names[-1]
    for before, v in zip(names[-2::-1], names[:0:-1], strict=True):
        body = relay.Let(v, relay.nn.relu(before), body)
    let = relay.Function([x], body)
    assert len(str(let).splitlines()) == 10_003
    assert structural_equal(again(let), let)


def test_branches_and_functions_nested_as_deep_as_texts_may_be() -> None:
    x, c = relay.var("x", shape=(2,)), relay.var("c", "bool")
    e: Any = x
    for _ in range(45):
        f = relay.Function([relay.var("y", shape=(2,))], relay.If(c, relay.exp(e), x))
        e = f(x)
    whole = relay.Function([x, c], e)
    assert structural_equal(again(whole), whole)
    for _ in range(2_000):
        e = relay.If(c, e, x)
    deep = relay.Function([x, c], e)
    assert str(deep).count("if (%c)") == 2_045
    with pytest.raises(ParseError, match="more than 100 brackets are open here"):
        relay.parse_expr(str(deep))


def test_calls_in_a_text_are_calls_of_the_same_operators() -> None:
    x = relay.var("x", shape=(1, 4))
    core = relay.op.get("smelt.gelu")
    f = relay.Function([x], Call(core, (x,), core.normalize({}), x.type))
    assert "smelt.gelu(%x)" in str(f)
    read = again(f)
    assert [v.op for v in values(read.body) if isinstance(v, Call)] == [core]


def test_inference_gives_a_read_module_the_types_that_the_written_one_has() -> None:
    infer = relay.transform.InferType()
    for make in (list_sum, control, prelude):
        known = infer(make())
        text = known.astext()
        assert structural_equal(infer(relay.parse(text)), known)
        assert infer(relay.parse(text)).astext() == text


def prelude() -> Any:
    mod = IRModule()
    relay.prelude.Prelude(mod)
    return mod


def test_an_imported_model_is_read_back_between_passes() -> None:
    mod = relay.frontend.from_onnx(
        resnet18(width=4, image=32, classes=5), {"input": (1, 3, 32, 32)}
    )
    mod = mod[0]
    for name in ("InferType", "SimplifyInference", "FoldConstant", "FuseOps"):
        mod = getattr(relay.transform, name)()(mod)
        assert_structural_equal(again(mod), mod)
