"""Passes by name, instruments, passes and patterns of the user's own, partitions."""

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import (
    DFPatternCallback,
    is_op,
    is_tuple_get_item,
    rewrite,
    wildcard,
)
from tvm.relay.op.contrib import dnnl
from tvm.relay.op.contrib.register import get_pattern_table, register_pattern_table

from .models import RNG, WEIGHTS, X, close, expected, network


def test_passes_in_a_row():
    steps = tvm.transform.Sequential(
        [
            relay.transform.InferType(),
            relay.transform.SimplifyInference(),
            relay.transform.FoldConstant(),
            relay.transform.EliminateCommonSubexpr(),
            relay.transform.FuseOps(fuse_opt_level=2),
        ],
        name="mine",
    )
    with tvm.transform.PassContext(opt_level=3), tvm.target.Target("llvm"):
        mod = steps(network())
    assert str(mod).count("Primitive=1") == 3
    assert relay.transform.FuseOps().info.name == "FuseOps"
    assert relay.analysis.list_op_freqs(network()) == {
        "nn.dense": 2, "nn.bias_add": 1, "nn.relu": 1, "nn.softmax": 1,
    }  # fmt: skip
    assert relay.analysis.well_formed(mod["main"])
    close(relay.create_executor("graph", mod=mod).evaluate()(X, *WEIGHTS.values()), expected())


def test_instruments(capsys):
    @tvm.instrument.pass_instrument
    class Count:
        def __init__(self):
            self.names = []

        def run_before_pass(self, mod, info):
            self.names.append(info.name)

    class Skip(tvm.ir.instrument.PassInstrument):
        def should_run(self, mod, info):
            return info.name != "FoldConstant"

    count, timing = Count(), tvm.ir.instrument.PassTimingInstrument()
    with tvm.transform.PassContext(opt_level=3, instruments=[count, timing, Skip()]):
        relay.build(network(), "llvm", params=WEIGHTS)
        relay.transform.FoldConstant()(network())
        assert "FuseOps" in timing.render()
    assert "FuseOps" in count.names
    assert "FoldConstant" not in count.names
    shown = [tvm.ir.instrument.PrintBeforeAll(), tvm.ir.instrument.PrintAfterAll()]
    with tvm.transform.PassContext(instruments=shown):
        relay.transform.FoldConstant()(network())
    printed = capsys.readouterr().out
    assert printed.count("nn.softmax") == 2


def test_a_pass_on_functions():
    @relay.transform.function_pass(opt_level=1)
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def transform_function(self, func, mod, ctx):
            outer = self

            class Replace(relay.ExprMutator):
                def visit_constant(self, c):
                    return relay.multiply(outer.factor, c)

            return Replace().visit(func)

    x = relay.var("x", shape=(3,))
    mod = tvm.IRModule.from_expr(relay.add(x, relay.const(np.ones(3, "float32"))))
    made = Scale(relay.const(2.0))(mod)
    found = relay.create_executor("graph", mod=made).evaluate()(np.zeros(3, "float32"))
    close(found, np.full(3, 2, "float32"))
    with tvm.transform.PassContext(opt_level=0):
        assert tvm.transform.Sequential([Scale(relay.const(2.0))])(mod) is mod


def test_a_pass_on_modules():
    seen = []

    @tvm.transform.module_pass(opt_level=0)
    def look(mod, ctx):
        seen.extend(gv.name_hint for gv in mod.get_global_vars())
        return mod

    @tvm.ir.transform.module_pass(opt_level=0, name="Same")
    class Same:
        def transform_module(self, mod, ctx):
            return mod

    assert Same()(look(network()))["main"]
    assert seen == ["main"]
    forgets = tvm.transform.module_pass(lambda mod, ctx: None, opt_level=0, name="forgets")
    with pytest.raises(tvm.TVMError, match="forgets gave NoneType"):
        forgets(network())
    with pytest.raises(tvm.TVMError, match=r"InferType is no pass: .* is InferType\(\) meant"):
        tvm.transform.Sequential([relay.transform.InferType])(network())


def test_mutators_and_visitors():
    class Smooth(relay.ExprMutator):
        def visit_call(self, call):
            call = super().visit_call(call)
            if call.op == relay.op.get("nn.relu"):
                return relay.sigmoid(call.args[0])
            return call

    class Names(relay.ExprVisitor):
        def __init__(self):
            super().__init__()
            self.names = []

        def visit_call(self, call):
            super().visit_call(call)
            self.names.append(call.op.name)

    names = Names()
    names.visit(Smooth().visit(network()["main"]))
    assert names.names == ["nn.dense", "nn.bias_add", "sigmoid", "nn.dense", "nn.softmax"]


def convolution():
    """relu(batch_norm(conv2d(x, w))) and values for its variables."""
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    rest = [relay.var(n, shape=(4,)) for n in ("gamma", "beta", "mean", "var")]
    normal = relay.nn.batch_norm(relay.nn.conv2d(x, w, padding=(1, 1)), *rest)[0]
    values = [RNG.standard_normal(s).astype("float32") for s in [(1, 3, 8, 8), (4, 3, 3, 3)]]
    values += [RNG.uniform(0.5, 2, 4).astype("float32") for _ in rest]
    return relay.Function([x, w, *rest], relay.nn.relu(normal)), values


class FoldNorm(DFPatternCallback):
    """A BatchNorm after a convolution becomes part of its weights."""

    def __init__(self):
        super().__init__(require_type=True)
        self.x, self.w = wildcard(), wildcard()
        self.rest = [wildcard() for _ in range(4)]
        conv = is_op("nn.conv2d")(self.x, self.w)
        self.pattern = is_tuple_get_item(is_op("nn.batch_norm")(conv, *self.rest), 0)

    def callback(self, pre, post, node_map):
        x, w = node_map[self.x][0], node_map[self.w][0]
        gamma, beta, mean, var = [node_map[p][0] for p in self.rest]
        scale = gamma / relay.sqrt(var + relay.const(1e-5))
        conv = relay.nn.conv2d(x, w * relay.reshape(scale, (4, 1, 1, 1)), padding=(1, 1))
        return relay.nn.bias_add(conv, beta - mean * scale)


def test_patterns():
    before, values = convolution()
    after = rewrite(FoldNorm(), before)
    names = relay.analysis.list_op_freqs(tvm.IRModule.from_expr(after))
    assert "nn.batch_norm" not in names
    run = [
        relay.create_executor("graph", mod=tvm.IRModule.from_expr(f)).evaluate()(*values)
        for f in (before, after)
    ]
    close(run[0], run[1].numpy(), 1e-4)
    conv = is_op("nn.conv2d")(wildcard(), wildcard())
    whole = is_op("nn.relu")(is_tuple_get_item(is_op("nn.batch_norm")(conv, *FoldNorm().rest), 0))
    assert whole.match(before.body)
    assert conv.has_attr({"padding": [1, 1, 1, 1]}).match(before.body.args[0].tuple_value.args[0])
    parts = whole.partition(before.body, {"Composite": "mine.block"})
    assert parts.op.attrs["Composite"] == "mine.block"


def test_a_back_end_of_the_users_own():
    @register_pattern_table("programs")
    def table():
        dense = is_op("nn.dense")(wildcard(), wildcard())
        return [("programs.dense", dense, lambda match: match.args[1].checked_type.shape[0] == 16)]

    @tvm.ir.register_op_attr("nn.relu", "target.programs")
    def relu(call):
        return True

    mod = network()
    mod = relay.transform.MergeComposite(get_pattern_table("programs"))(mod)
    mod = relay.transform.AnnotateTarget(["programs"])(mod)
    mod = relay.transform.MergeCompilerRegions()(mod)
    mod = relay.transform.PartitionGraph()(mod)
    names = [gv.name_hint for gv in mod.get_global_vars()]
    assert names == ["main", "tvmgen_default_programs_main_0", "tvmgen_default_programs_main_1"]
    assert mod.astext().count('Composite="programs.dense"') == 1
    with pytest.raises(tvm.TVMError, match=r"defined by smelt\.op"):
        tvm.ir.register_op_attr("nn.relu", "TOpPattern", 0)


def test_a_model_for_another_compiler():
    mod = dnnl.partition_for_dnnl(network(), WEIGHTS)
    assert "@tvmgen_default_dnnl_main_0" in mod.astext()[:3000]
    close(relay.create_executor("debug", mod=mod).evaluate()(X), expected())
    with pytest.raises(tvm.TVMError, match="no back end 'dnnl' is registered"):
        relay.build(mod, "llvm")
