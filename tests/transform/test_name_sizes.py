"""Sizes that share a name are told apart."""

import numpy as np

import smelt
from smelt import relay
from smelt.relax.interpret import interpret
from smelt.transform import PassContext


def test_two_unknown_extents() -> None:
    x = relay.var("x", shape=(relay.Any(), relay.Any()))
    y = relay.var("y", shape=(relay.Any(), 3))
    parts = relay.Tuple([relay.transpose(x), relay.exp(y), relay.sum(x, axis=1)])
    mod = smelt.IRModule.from_expr(relay.Function([x, y], parts))
    a, b = np.ones((2, 5), "float32"), np.ones((4, 3), "float32")
    want = interpret(mod["main"], a, b)
    exe = smelt.compile(mod)
    assert len({s for i in exe.inputs for s in i.shape if isinstance(s, str)}) == 3
    with PassContext(opt_level=3, disabled_pass=["FoldScaleAxis"]):
        lib = relay.build(mod)
    for run in (exe, lib.lib):
        for ours, theirs in zip(run(a, b), want, strict=True):
            assert np.allclose(ours.numpy(), theirs)
            assert ours.shape == theirs.shape


def test_names_that_differ_stay() -> None:
    x = relay.var("x", shape=(relay.Any(), 3))
    mod = smelt.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    assert smelt.compile(mod).inputs[0].shape == ("any", 3)
