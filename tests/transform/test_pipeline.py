"""One manifest, one runner: names, instruments, orders, and what a user did by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import relax, relay
from smelt.artifact.artifact import load
from smelt.ir.errors import CompileError, Unsupported
from smelt.ir.steps import check_order
from smelt.pipeline import GRAPH, LOWER, VM, checked_context, run_graph
from smelt.relay.dataflow_pattern import is_op, wildcard
from smelt.tir.schedule import Schedule
from smelt.transform import PassContext, PassTimingInstrument, pass_instrument

X = np.random.default_rng(0).standard_normal((1, 8, 6, 6)).astype("float32")
W = np.random.default_rng(1).standard_normal((8, 8, 3, 3)).astype("float32")


def network() -> smelt.IRModule:
    """relu(conv2d(x))."""
    x = relay.var("x", shape=X.shape)
    y = relay.nn.relu(relay.nn.conv2d(x, relay.const(W), padding=(1, 1)))
    return smelt.IRModule.from_expr(relay.Function([x], y))


ENTRIES: dict[str, Callable[[smelt.IRModule], Any]] = {
    "smelt.compile": smelt.compile,
    "smelt.compile_artifact": lambda mod: load(smelt.compile_artifact(mod)),
    "relay.build": lambda mod: relay.build(mod).lib,
    "relax.build": lambda mod: relax.build(mod).program.segments[0],
    "relay.vm.compile": lambda mod: relay.vm.compile(mod).program.segments[0],
    "create_executor": lambda mod: relay.create_executor("graph", mod).evaluate(),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_point_runs_the_same_passes(entry: str) -> None:
    seen: list[str] = []

    @pass_instrument
    class Names:
        def run_before_pass(self, mod: Any, info: Any) -> None:
            seen.append(info.name)

    with PassContext(opt_level=3, instruments=[Names()]):
        ENTRIES[entry](network())
    first = [s.name for s in VM] if entry in ("relax.build", "relay.vm.compile") else []
    graph = [s.name for s in GRAPH]
    assert seen[: len(first) + len(graph)] == [*first, *graph]
    assert set(seen[len(first) + len(graph) :]) == {s.name for s in LOWER}


OTHERS: dict[str, Callable[[smelt.IRModule], Any]] = {
    "smelt.lower": smelt.lower,
    "smelt.build": smelt.build,
}


@pytest.mark.parametrize("entry", [*ENTRIES, *OTHERS])
def test_every_entry_point_refuses_unknown_names(entry: str) -> None:
    for given in ({"disabled_pass": ["FuseOp"]}, {"required_pass": ["FuseOp"]}):
        with (
            PassContext(opt_level=3, **given),  # type: ignore[arg-type]
            pytest.raises(Unsupported, match="has no pass 'FuseOp'; nearest: FuseOps"),
        ):
            {**ENTRIES, **OTHERS}[entry](network())


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e != "create_executor"])
def test_every_entry_point_leaves_out_what_is_disabled(entry: str) -> None:
    assert len(ENTRIES[entry](network()).metadata["kernels"]) < 3
    with PassContext(opt_level=3, disabled_pass=["FuseOps"]):
        exe = ENTRIES[entry](network())
    names = [k["name"] for k in exe.metadata["kernels"]]
    assert names[:2] == ["conv2d", "relu"]


def test_a_watched_build_checks_sizes_as_any_other() -> None:
    """Once, an instrument switched to other passes, which read beyond the end of b."""
    n, m = relay.Any(), relay.Any()
    x, b = relay.var("x", shape=(n, 4)), relay.var("b", shape=(m, 4))
    mod = smelt.IRModule.from_expr(relay.Function([x, b], relay.add(x, b)))
    rows, two = np.ones((2000, 4), "float32"), np.full((2, 4), 5, "float32")
    contexts = [
        PassContext(opt_level=3),
        PassContext(opt_level=3, disabled_pass=["FoldScaleAxis"]),
        PassContext(opt_level=3, instruments=[PassTimingInstrument()]),
    ]
    for context in contexts:
        with context:
            lib = relay.build(mod).lib
        with pytest.raises(smelt.SmeltError, match="these are 2000 and 2"):
            lib(rows, two)


def test_watched_and_plain_builds_have_the_same_kernels() -> None:
    x = relay.var("x", shape=(1, 4, 5, 5))
    w = relay.const(np.ones((4, 4, 4, 4), "float32"))
    y = relay.nn.conv2d_transpose(x, w, strides=(2, 2), padding=(1, 1), channels=4,
                                  kernel_size=(4, 4))  # fmt: skip
    mod = smelt.IRModule.from_expr(relay.Function([x], y))
    found = []
    for tools in ([], [PassTimingInstrument()]):
        with PassContext(opt_level=3, instruments=tools):
            found.append([k["name"] for k in relay.build(mod).lib.metadata["kernels"]])
    assert found[0] == found[1]


def test_lowering_passes_of_a_model_follow_the_context() -> None:
    with PassContext(opt_level=3, config={"tir.disable_vectorize": True}):
        slow = smelt.compile(network())
    np.testing.assert_allclose(slow(X).numpy(), smelt.compile(network())(X).numpy(), rtol=1e-5)


# ------------------------------------------------------------------------------------- orders


def test_an_illegal_order_is_refused() -> None:
    for step in GRAPH:
        if step.needs:
            early = (step, *[s for s in GRAPH if s is not step])
            with pytest.raises(CompileError, match=f"the pass {step.name} needs"):
                check_order(early)
    late = [s for s in GRAPH if s.name != "SimplifyGraph"]
    simplify = next(s for s in GRAPH if s.name == "SimplifyGraph")
    with pytest.raises(CompileError) as caught:
        run_graph(network(), checked_context("a test"), steps=(*late, simplify))
    assert str(caught.value) == (
        "the pass SimplifyGraph needs 'core operators' before it; ExpandOps gives it; so far: "
        + ", ".join([s.name for s in late])
    )


# ------------------------------------------------------------------- what was done by hand stays


def test_groups_made_by_hand_are_kernels() -> None:
    alone = relay.transform.FuseOps(fuse_opt_level=0)(relay.transform.InferType()(network()))
    names = [k["name"] for k in relay.build(alone).lib.metadata["kernels"]]
    assert names[:2] == ["conv2d", "relu"]
    together = relay.transform.FuseOps(fuse_opt_level=2)(relay.transform.InferType()(network()))
    with PassContext(opt_level=0):
        lib = relay.build(together).lib
    assert lib.metadata["kernels"][0]["ops"] == ["conv2d", "relu"]
    np.testing.assert_allclose(lib(X).numpy(), relay.build(alone).lib(X).numpy(), rtol=1e-4)


def test_composites_made_by_hand_are_kernels() -> None:
    pattern = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard()))
    merged = relay.transform.MergeComposite([("mine.conv_relu", pattern)])(network())
    with PassContext(opt_level=0):
        lib = relay.build(merged).lib
    assert lib.metadata["kernels"][0]["ops"] == ["conv2d", "relu"]
    np.testing.assert_allclose(lib(X).numpy(), relay.build(network()).lib(X).numpy(), rtol=1e-4)


def test_groups_of_relax_stay_apart() -> None:
    fused = relax.transform.FuseOps(0)(network())
    exe = smelt.compile(fused)
    assert [k["name"] for k in exe.metadata["kernels"]][:2] == ["conv2d", "relu"]


@pytest.mark.parametrize("said", [True, False])
def test_a_schedule_of_the_users_own_stays(said: bool) -> None:
    """A product with one tile of 3 rows unrolled: no rule makes such tiles."""
    x = relax.Var("x", relax.TensorStructInfo((6, 16), "float32"))
    y = relax.Var("y", relax.TensorStructInfo((16, 16), "float32"))
    mod = smelt.IRModule({"main": relax.Function([x, y], relax.op.matmul(x, y))})
    mod = relax.transform.LegalizeOps()(mod)
    (name,) = [n for n in mod.functions if n != "main"]
    sch = Schedule(mod[name])
    i = sch.get_loops("matmul")[0]
    _, rows = sch.split(i, [None, 3])
    if said:
        own = sch.func.with_attrs(**{"tir.is_scheduled": True})
    else:
        sch.unroll(rows)
        own = sch.func
    made = mod.with_functions({name: own})
    shown = smelt.stage_text(made, "scheduled")
    assert "range(2)" in shown
    assert ("T.unroll(3)" in shown) is not said
    assert "vectorized" not in shown, "no rule has touched it"
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype("float32") for s in ((6, 16), (16, 16)))
    np.testing.assert_allclose(smelt.compile(made)(a, b).numpy(), a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("entry", ["relay.build", "relay.vm.compile"])
def test_passes_of_relay_that_are_required_run_first(entry: str) -> None:
    seen: list[str] = []

    @pass_instrument
    class Names:
        def run_before_pass(self, mod: Any, info: Any) -> None:
            seen.append(info.name)

    with PassContext(opt_level=3, required_pass=["FastMath"], instruments=[Names()]):
        ENTRIES[entry](network())
    assert seen[:3] == ["InferType", "FastMath", "ResolveMatchCast"]
