"""Programs as text and as JSON, functions by name, tensor programs."""

import numpy as np
import pytest
import tvm
from tvm import relay, te
from tvm.script import tir as T

from .models import WEIGHTS, X, close, expected, network


def test_texts_are_read_back():
    mod = relay.transform.InferType()(network())
    text = mod.astext()
    for read in (tvm.parser.fromtext, tvm.parser.parse, relay.parse, relay.fromtext):
        tvm.ir.assert_structural_equal(mod, read(text))
    one = tvm.parser.parse_expr('#[version = "0.0.5"]\nfn (%x: float32) { %x + 1f }')
    assert float(relay.create_executor("debug").evaluate(one)(2.0)) == 3


def test_json():
    mod = relay.transform.InferType()(network())
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], WEIGHTS)
    back = tvm.ir.load_json(tvm.ir.save_json(mod))
    tvm.ir.assert_structural_equal(mod, back)
    close(relay.create_executor("debug", mod=back).evaluate()(X), expected())
    body = network()["main"]
    tvm.ir.assert_structural_equal(body, tvm.ir.load_json(tvm.ir.save_json(body)))
    with pytest.raises(tvm.TVMError, match="this is no JSON"):
        tvm.ir.load_json("#[version]")
    with pytest.raises(tvm.TVMError, match="not written by smelt's save_json"):
        tvm.ir.load_json('{"root": 1, "nodes": []}')
    with pytest.raises(tvm.TVMError, match="a dict cannot be written"):
        tvm.ir.save_json({})


def test_hashes():
    one, same = network(), network()
    x, y = relay.var("x", shape=(3,)), relay.var("y", shape=(4,))
    assert tvm.ir.structural_hash(one) == tvm.ir.structural_hash(same)
    other = {tvm.ir.structural_hash(e) for e in (x, y, x + x, relay.tanh(x), relay.exp(x), one)}
    assert len(other) == 6
    renamed = relay.Function([y], y + relay.const(2.0))
    z = relay.var("z", shape=(4,))
    assert tvm.ir.structural_hash(renamed) == tvm.ir.structural_hash(
        relay.Function([z], z + relay.const(2.0))
    )
    deep = x
    for _ in range(3000):
        deep = relay.tanh(deep)
    assert tvm.ir.structural_hash(deep) != tvm.ir.structural_hash(relay.tanh(deep))


def test_functions_by_name():
    @tvm.register_func("programs.add")
    def add(a, b):
        return a + b

    try:
        assert tvm.get_global_func("programs.add")(1, 2) == 3
        with pytest.raises(tvm.TVMError, match="registered already; override=True"):
            tvm.register_func("programs.add", add)
        tvm.register_func("programs.add", lambda a, b: a - b, override=True)
        assert tvm._ffi.get_global_func("programs.add")(1, 2) == -1
        with pytest.raises(tvm.TVMError, match=r"nearest: programs\.add"):
            tvm.get_global_func("programs.ad")
        assert tvm.get_global_func("programs.ad", allow_missing=True) is None
        with pytest.raises(tvm.TVMError, match="cannot be called"):
            tvm.register_func("programs.number", 3)
    finally:
        tvm._ffi.remove_global_func("programs.add")


def test_a_tensor_program(tmp_path):
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    b = te.compute(a.shape, lambda i: a[i] + 1.0, name="b")
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(b.op.axis[0], factor=8)
    s[b].parallel(outer)
    assert "parallel" in str(tvm.lower(s, [a, b], simple_mode=True))
    f = tvm.build(s, [a, b], "llvm", name="addone")
    x, y = tvm.nd.array(np.arange(10, dtype="float32"), tvm.cpu(0)), tvm.nd.empty((10,))
    f(x, y)
    close(y, x.numpy() + 1)
    assert f.time_evaluator(f.entry_name, tvm.cpu(0), number=2)(x, y).mean > 0
    f.export_library(str(tmp_path / "f.so"))
    again = tvm.nd.empty((10,))
    tvm.runtime.load_module(str(tmp_path / "f.so"))["addone"](x, again)
    close(again, y.numpy())


@tvm.script.ir_module
class Twice:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * 2.0


def test_a_script():
    sch = tvm.tir.Schedule(Twice)
    (loop,) = sch.get_loops(sch.get_block("B"))
    sch.vectorize(loop)
    f = tvm.build(sch.mod, target="llvm")
    x, y = tvm.nd.array(np.arange(8, dtype="float32")), tvm.nd.empty((8,))
    f["main"](x, y)
    close(y, 2 * x.numpy())
