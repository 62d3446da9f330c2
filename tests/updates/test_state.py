"""Executables that keep a state: caches updated in place, grown, saved; wrong ones are refused."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest

import smelt
from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.nodes import Function, Tuple, Var, call
from smelt.runtime import InputError, LoadError
from smelt.runtime.state import StatefulExecutable
from tests.models.net import Net
from tests.updates import nets
from tests.vm.test_native import in_python

CACHES = {"past_k": "present_k", "past_v": "present_v"}


def stateful(way: str = "scatter_elements", **more: Any) -> StatefulExecutable:
    exe = smelt.compile(nets.step(way), state=CACHES, **more)
    assert isinstance(exe, StatefulExecutable)
    return exe


def chosen(rows: int = 8) -> Any:
    return smelt.compile(nets.chosen(rows), state={"cache": "after"}, threads=1)


@pytest.mark.parametrize("way", nets.WAYS)
def test_calls_continue_each_other(way: str) -> None:
    model = nets.step(way)
    exe, free = stateful(way, threads=1), smelt.compile(model, threads=1)
    rows = 0 if way == "concat" else nets.ROWS
    past = [np.zeros((1, nets.HEADS, rows, nets.DEPTH), "float32") for _ in "kv"]
    peer = None
    if way != "tensor_scatter":  # onnxruntime has none yet
        peer = onnxruntime.InferenceSession(model.SerializeToString())
    addresses = set()
    for t in range(nets.ROWS):
        given = nets.step_inputs(t)
        y = np.asarray(exe(*given))
        if peer is not None:
            feeds = dict(zip([i.name for i in free.inputs], [*given, *past], strict=True))
            np.testing.assert_allclose(y, peer.run(["y"], feeds)[0], atol=1e-5)
        wanted, *past = (np.asarray(r) for r in free(*given, *past))
        np.testing.assert_array_equal(y, wanted)
        np.testing.assert_array_equal(exe.state["past_k"].numpy(), past[0])
        addresses.add(exe.state["past_k"].address)
    assert way == "concat" or len(addresses) == 1


@pytest.mark.parametrize("way", nets.WAYS[:3])
def test_only_new_rows_are_written(way: str) -> None:
    """All that the kernels touch does not grow with the cache."""

    def written(rows: int) -> list[Any]:
        exe = smelt.compile(nets.step(way, rows), state=CACHES, threads=1)
        assert exe.metadata["updates"] == [(4, 1), (5, 2)]
        kernels = exe.metadata["kernels"]
        return [k["bytes"] for k in kernels if "attention" not in k["name"]]

    assert written(16) == written(64)


def test_a_large_cache_stays_where_it_is() -> None:
    exe: Any = smelt.compile(nets.step("scatter_elements", 1 << 16), state=CACHES)
    before = {n: v.address for n, v in ((n, exe.state[n]) for n in CACHES)}
    for t in (0, 5, 65535):
        new = nets.step_inputs(t)
        exe(*new)
        np.testing.assert_array_equal(exe.state["past_k"][:, :, t], new[1][:, :, 0])
    assert before == {n: exe.state[n].address for n in CACHES}
    assert int(np.count_nonzero(exe.state["past_k"].numpy())) == 3 * nets.HEADS * nets.DEPTH


def test_states_that_follow_from_themselves() -> None:
    """Elementwise: in place; by a product: computed aside, then copied."""
    state = {"mean": "mean_after", "hidden": "hidden_after"}
    exe: Any = smelt.compile(nets.averaged(), state=state, threads=1)
    names = [k["name"] for k in exe.metadata["kernels"]]
    assert names.count("copy") == 1
    mean, hidden = np.zeros((2, 6, 6), "float32")
    exe.state["hidden"] = hidden = np.ones_like(hidden)
    for n in range(4):
        x = np.full((6, 6), n, "float32")
        y = exe(x)
        mean, hidden = mean * 0.5 + x, np.tanh(hidden * np.float32(0.9))
        np.testing.assert_allclose(y.numpy(), mean + hidden, rtol=1e-5)
        np.testing.assert_allclose(exe.state["mean"].numpy(), mean, rtol=1e-5)
        np.testing.assert_allclose(exe.state["hidden"].numpy(), hidden, rtol=1e-5)


def test_a_state_can_be_reset_copied_and_exchanged() -> None:
    exe = stateful()
    exe(*nets.step_inputs(0))
    other = exe.with_state(exe.state.clone())
    exe(*nets.step_inputs(1))
    assert not np.array_equal(exe.state["past_k"].numpy(), other.state["past_k"].numpy())
    other(*nets.step_inputs(1))
    np.testing.assert_array_equal(exe.state["past_k"].numpy(), other.state["past_k"].numpy())
    kept = exe.state["past_k"]
    exe.state.reset()
    assert not exe.state["past_k"].numpy().any()
    assert kept.numpy().any(), "arrays taken before keep their values"
    exe.state = other.state
    assert exe.state["past_k"].same_as(other.state["past_k"])
    assert "state: past_k float32[1, 4, 16, 8]" in repr(exe)
    assert list(exe.state) == ["past_k", "past_v"]


def test_a_state_is_saved_and_loaded(tmp_path: Path) -> None:
    exe, other = stateful(), stateful()
    exe(*nets.step_inputs(3))
    exe.state.save(tmp_path / "cache")
    other.state.load(tmp_path / "cache")
    found, wanted = other(*nets.step_inputs(4)), exe(*nets.step_inputs(4))
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
    grown = stateful("concat")
    grown(*nets.step_inputs(0))
    grown.state.save(tmp_path / "grown")
    with pytest.raises(InputError, match=r"shape \[1, 4, 1, 8\] given"):
        other.state.load(tmp_path / "grown")
    np.testing.assert_array_equal(other.state["past_k"].numpy(), exe.state["past_k"].numpy())
    (tmp_path / "bad").write_bytes(b"nothing")
    with pytest.raises(LoadError, match=r"truncated|first bytes"):
        other.state.load(tmp_path / "bad")
    smelt.runtime.save_param_dict_to_file({"past": np.zeros(3)}, tmp_path / "other")
    with pytest.raises(LoadError, match="no state 'past'; nearest: past_"):
        other.state.load(tmp_path / "other")


def test_a_state_of_narrow_numbers_is_saved(tmp_path: Path) -> None:
    x, total = (Var(n, tensor_type((4,), "bfloat16")) for n in ("x", "total"))
    body = Tuple((call("negative", x), call("add", x, total)))
    f = Function((x, total), body, {"output_names": ("y", "sum")})
    exe: Any = smelt.compile(IRModule({"main": f}), state={"total": "sum"})
    one = np.ones(4, ml_dtypes.bfloat16)
    exe(one), exe(one)
    exe.state.save(tmp_path / "s")
    exe.state.reset()
    exe.state.load(tmp_path / "s")
    np.testing.assert_array_equal(exe.state["total"].numpy(), one + one)


@pytest.mark.parametrize("suffix", [".so", ".tar"])
def test_an_exported_model_has_a_state_of_its_own(tmp_path: Path, suffix: str) -> None:
    for exe, given in ((stateful(), nets.step_inputs), (chosen(), choice)):
        path = tmp_path / f"{exe.name}{suffix}"
        exe.export_library(path)
        loaded: Any = smelt.load(path)
        assert isinstance(loaded, StatefulExecutable)
        for t in (2, 3):
            for a, b in zip([exe(*given(t))], [loaded(*given(t))], strict=True):
                np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        for name, value in exe.state.items():
            np.testing.assert_array_equal(value.numpy(), loaded.state[name].numpy())


def choice(n: int) -> list[Any]:
    return [np.asarray(n % 3 != 0), np.array([[n]]), np.full((1, 8), n, "float32")]


def test_a_branch_updates_in_place() -> None:
    exe = chosen()
    wanted = np.zeros((8, 8), "float32")
    at = exe.state["cache"].address
    for n in (1, 3, 5, 6, 3):
        assert exe(*choice(n)).numpy().item() == 8 * n
        wanted[n] = n if n % 3 else -n
        np.testing.assert_array_equal(exe.state["cache"].numpy(), wanted)
        assert exe.state["cache"].address == at
    python = smelt.runtime.state.StatefulExecutable(in_python(exe.code), [(3, 0)])
    for n in (1, 3, 5, 6, 3):
        python(*choice(n))
    np.testing.assert_array_equal(python.state["cache"].numpy(), wanted)


def test_a_loop_copies_its_cache_once() -> None:
    for rows in (1, 7, 40):
        exe: Any = smelt.compile(nets.filled(rows), threads=1)
        cache = np.random.default_rng(rows).random((rows, 8), "float32")
        before = cache.copy()
        for most in {0, 1, rows // 2, rows}:
            wanted = cache.copy()
            wanted[:most] += 1
            for machine in (exe, in_python(exe)):
                np.testing.assert_array_equal(machine(np.asarray(most), cache).numpy(), wanted)
        np.testing.assert_array_equal(cache, before)
    few, many = (exe.profile(np.asarray(n), cache).control for n in (1, rows))
    assert many.most_bytes - few.most_bytes < cache.nbytes // 4, "small values only"
    assert many.allocations > few.allocations


def test_memory_is_known_before_a_call() -> None:
    exe = stateful()
    needed = exe.memory(*nets.step_inputs(0))
    cache = 4 * nets.HEADS * nets.ROWS * nets.DEPTH
    assert (needed.state, needed.inputs) == (2 * cache, 3 * 4 * nets.HEADS * nets.DEPTH + 8)
    assert needed.outputs == 4 * nets.HEADS * nets.DEPTH
    assert needed.total == needed.state + needed.inputs + needed.outputs + needed.workspace
    with pytest.raises(InputError, match=r"exe.limit\(memory=...\) bounds it"):
        smelt.compile(nets.filled(3)).memory(np.asarray(1), np.zeros((3, 8), "float32"))


def test_the_number_of_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMELT_MAX_CACHED_PLANS", "2")
    exe: Any = smelt.compile(nets.step("concat"), threads=1)
    past = np.ones((2, 1, nets.HEADS, 6, nets.DEPTH), "float32")
    for rows in (1, 2, 3, 4):
        exe(*nets.step_inputs(0), *past[..., :rows, :].copy())
    assert len(exe._plans) == 2
    monkeypatch.setenv("SMELT_MAX_CACHED_PLANS", "few")
    with pytest.raises(InputError, match="SMELT_MAX_CACHED_PLANS='few' is not a number of plans"):
        smelt.compile(nets.step("concat"), threads=1)


def test_two_threads_on_one_state() -> None:
    exe = stateful()
    errors: list[str] = []
    with exe.state.in_use():

        def call() -> None:
            try:
                exe(*nets.step_inputs(0))
            except InputError as e:
                errors.append(str(e))

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    assert errors == [
        "net: another thread uses this state; give each thread one of its own: exe.with_state()"
    ]
    exe(*nets.step_inputs(0))


def test_measuring_leaves_the_state_alone() -> None:
    exe = stateful()
    exe(*nets.step_inputs(1))
    before = exe.state["past_k"].numpy().copy()
    exe.benchmark(*nets.step_inputs(2), repeat=1, number=2)
    assert [k.name for k in exe.profile(*nets.step_inputs(2), repeat=1).kernels]
    np.testing.assert_array_equal(exe.state["past_k"].numpy(), before)


def test_wrong_states() -> None:
    exe = stateful()
    with pytest.raises(InputError, match=r"state 'past_k': shape \[3\] given") as e:
        exe.state["past_k"] = np.zeros(3, "float32")
    assert "expected: past_k float32[1, 4, 16, 8]" in str(e.value)
    with pytest.raises(InputError, match="dtype float64 given, float32 needed"):
        exe.state["past_k"] = np.zeros((1, 4, 16, 8))
    with pytest.raises(InputError, match="no state 'past'; nearest: past_"):
        exe.state["past"]
    with pytest.raises(InputError, match=r"its state is past_k .*; a dict given"):
        exe.state = {}  # type: ignore[assignment]
    with pytest.raises(InputError, match="its shape is not known before the first call"):
        stateful("concat").state["past_k"]
    with pytest.raises(InputError, match="3 inputs given, 4 needed"):
        exe(*nets.step_inputs(0)[:3])
    exe(*nets.step_inputs(0))
    with pytest.raises(InputError, match=r"bind: it has a state; exe.code.bind\(...\) takes"):
        exe.bind(nets.step_inputs(0))
    arrays = [exe.state[n].numpy() for n in exe.state]
    call = exe.code.bind([*nets.step_inputs(1), *arrays])
    call()
    np.testing.assert_array_equal(
        np.asarray(call.outputs[0]), np.asarray(exe(*nets.step_inputs(1)))
    )


def test_a_star_stands_for_many() -> None:
    exe: Any = smelt.compile(nets.step("scatter_nd"), state={"past_*": "present_*"})
    assert list(exe.state) == ["past_k", "past_v"]
    assert exe.metadata["states"] == ((4, 1), (5, 2))
    with pytest.raises(CompileError, match=r"no input 'past\.\*'; nearest: past_"):
        smelt.compile(nets.step("scatter_nd"), state={"past.*": "present.*"})


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"past": "present_k"}, "state: the model has no input 'past'; nearest: past_"),
        ({"past_k": "present"}, "state: the model has no output 'present'; nearest: present_"),
        ({"past_k": "y"}, r"the input 'past_k' is .*16, 8.*, the output 'y' .*1, 8.*: what one "),
        ({"past_k": "present_k", "past_v": "present_k"}, "'present_k' belongs to two inputs"),
        (["past_k"], r'state is a list; legal: a dict, {"past": "present"}'),
    ],
)
def test_states_that_the_model_does_not_have(state: Any, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        smelt.compile(nets.step("scatter_nd"), state=state)


def test_a_form_for_each_value_has_no_state() -> None:
    net = Net()
    x, axes = net.input("x", [2, 3]), net.input("axes", ["n"], np.int64)
    net.op("ReduceSum", x, axes)
    model = net.model(net.nodes[-1].output[0])
    with pytest.raises(CompileError, match=r"depends on the inputs axes.*values=\{...\}"):
        smelt.compile(model, state={"x": "y"})


def test_memory_that_cannot_be_updated() -> None:
    code: Any = stateful().code
    given = [*nets.step_inputs(0), *np.zeros((2, 1, 4, 16, 8), "float32")]
    assert code(*given)["present_k"].address == given[4].ctypes.data
    flat = np.zeros((1, 4, 8, 16), "float32").transpose(0, 1, 3, 2)
    with pytest.raises(InputError, match=r"'past_k': a run updates it, which needs a contiguous"):
        code(*given[:4], flat, given[5])
    given[4].flags.writeable = False
    with pytest.raises(InputError, match="'past_k': a run updates it, the array is read-only"):
        code(*given)
    with pytest.raises(InputError, match=r"'past_.': a run updates it, and input 'past_.' is its"):
        code(*given[:4], given[5], given[5])
    outputs = [np.zeros((1, 4, 1, 8), "float32"), given[5], np.zeros((1, 4, 16, 8), "float32")]
    with pytest.raises(InputError, match="it is the input 'past_v' updated: give the same array"):
        code.bind([*given[:4], given[5], outputs[2].copy()], outputs)
