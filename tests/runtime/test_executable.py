"""Calling a model: results, threads, bound calls, measuring."""

from __future__ import annotations

import copy
import json
import os
import pickle
import threading
from typing import Any

import numpy as np
import pytest

from smelt import runtime
from smelt.runtime import InputError, NativeExecutable, NDArray, Results, RuntimeFailure
from tests.runtime.conftest import Make


class Exchanged:
    """An array that only speaks DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class OnlyArray:
    """An array that only speaks __array__."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.full(4, 7, np.float32)


@pytest.fixture
def identity(make: Make) -> NativeExecutable:
    return make("identity")


@pytest.fixture
def add(make: Make) -> NativeExecutable:
    return make("add")


def rows(n: int, value: float = 1.0) -> Any:
    return np.full((n, 4), value, np.float32) + np.arange(n * 4, dtype=np.float32).reshape(n, 4)


def test_identity_gives_an_ndarray(identity: NativeExecutable) -> None:
    x = np.arange(4, dtype=np.float32)
    for _ in range(3):
        y = identity(x)
        assert isinstance(y, NDArray)
        assert (y.shape, str(y.dtype), str(y.device)) == ((4,), "float32", "cpu(0)")
        np.testing.assert_array_equal(y.numpy(), x)


def test_results_do_not_share_memory(identity: NativeExecutable) -> None:
    xs = [np.full(4, i, np.float32) for i in range(20)]
    ys = [identity(x) for x in xs]
    views = [y.numpy() for y in ys]
    del ys
    more = [identity(x) for x in xs]
    for i, view in enumerate(views):
        assert view[0] == i
        assert view.ctypes.data % 64 == 0
    assert len(more) == 20


def test_symbolic_sizes_and_named_inputs(add: NativeExecutable) -> None:
    for n in (1, 7, 2, 0, 100):
        x, y = rows(n), rows(n, 5)
        np.testing.assert_array_equal(add(x, y).numpy(), x + y + 100)
        np.testing.assert_array_equal(add(y=y, x=x).numpy(), x + y + 100)
        np.testing.assert_array_equal(add(x, y=y).numpy(), x + y + 100)


def test_many_shapes_keep_few_plans(add: NativeExecutable) -> None:
    for n in range(200):
        assert add(rows(n), rows(n)).shape == (n, 4)
    assert len(add._plans) <= 64


@pytest.mark.parametrize(
    "form",
    [
        lambda x: x[::-1][::-1],
        lambda x: np.repeat(x, 2)[::2],
        lambda x: np.asfortranarray(x),
        runtime.array,
        Exchanged,
        lambda x: np.frombuffer(x.tobytes(), np.float32),
        lambda x: np.frombuffer(b"." + x.tobytes(), np.float32, offset=1),
        lambda x: x.view(np.ndarray),
    ],
)
def test_forms_of_input(identity: NativeExecutable, form: Any) -> None:
    x = np.array([3, 1, 4, 1], np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(identity(form(x)).numpy(), x)


def test_array_protocol(identity: NativeExecutable) -> None:
    np.testing.assert_array_equal(identity(OnlyArray()).numpy(), np.full(4, 7, np.float32))


def test_results_can_be_pickled_and_copied(identity: NativeExecutable) -> None:
    y = identity(np.arange(4, dtype=np.float32))
    for made in (pickle.loads(pickle.dumps(y)), copy.copy(y), copy.deepcopy(y)):
        assert isinstance(made, NDArray)
        assert not made.same_as(y)
        assert np.array_equal(made, y)
    both = pickle.loads(pickle.dumps(Results([y, y], ["a", "b"])))
    assert both.names == ("a", "b")
    assert np.array_equal(both["b"], y)


def test_results_go_back_in(identity: NativeExecutable) -> None:
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(identity(identity(identity(x))).numpy(), x)


@pytest.mark.parametrize("threads", [None, 1, 2])
def test_parallel_sum(make: Make, threads: int | None) -> None:
    total = make("sum", threads)
    for n in (0, 1, 5, 1000):
        x = np.arange(n, dtype=np.int64)
        y = total(x)
        assert y.shape == ()
        assert int(y) == x.sum()


def test_failing_task(make: Make) -> None:
    fail = make("fail")
    x = np.zeros(4, np.float32)
    for _ in range(2):
        with pytest.raises(RuntimeFailure) as caught:
            fail(x)
        text = "fail: the run failed: an index outside of its operand (status 5)"
        assert str(caught.value) == text
    with pytest.raises(RuntimeFailure):
        fail.bind(x)()


def test_threads_share_an_executable(make: Make) -> None:
    add, total = make("add"), make("sum")
    wrong: list[str] = []

    def work(seed: int) -> None:
        for i in range(300):
            n = (seed + i) % 20
            x = rows(n, seed)
            if not np.array_equal(add(x, x).numpy(), x + x + 100):
                wrong.append(f"add {n}")
            if int(total(np.arange(n))) != n * (n - 1) // 2:
                wrong.append(f"sum {n}")

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_fork(make: Make) -> None:
    total = make("sum")
    x = np.arange(1000)
    assert int(total(x)) == x.sum()
    child = os.fork()
    if child == 0:
        os._exit(0 if all(int(total(x)) == x.sum() for _ in range(100)) else 1)
    assert int(total(x)) == x.sum()
    assert os.waitpid(child, 0)[1] == 0


def test_bind(add: NativeExecutable) -> None:
    x, y = rows(3), rows(3, 2)
    z = np.zeros((3, 4), np.float32)
    call = add.bind([x, y], z)
    call()
    np.testing.assert_array_equal(z, x + y + 100)
    x += 1
    call()
    np.testing.assert_array_equal(z, x + y + 100)
    own = add.bind({"y": y, "x": x})
    own()
    np.testing.assert_array_equal(np.asarray(own.outputs[0]), z)
    assert own.time(10) > 0


def test_weights_are_aligned(make: Make) -> None:
    add = make("add")
    raw = np.zeros(5, np.float32)
    raw[1] = 100
    moved = NativeExecutable(add._entry, add.plan_address, add.metadata, raw[1:2], add)
    np.testing.assert_array_equal(moved(rows(2), rows(2)).numpy(), rows(2) * 2 + 100)


def test_benchmark(add: NativeExecutable) -> None:
    result = add.benchmark(rows(3), rows(3), repeat=4, number=5)
    assert len(result.results) == 4
    assert 0 < result.min <= result.median <= result.max
    assert str(result).splitlines()[0].split() == (
        ["median", "(ms)", "mean", "(ms)", "std", "(ms)", "min", "(ms)", "max", "(ms)"]
    )


def test_profile(add: NativeExecutable) -> None:
    report = add.profile(rows(100), y=rows(100))
    assert [k.name for k in report.kernels] == ["shift", "sum"]
    assert [k.calls for k in report.kernels] == [1, 1]
    assert [k.flops for k in report.kernels] == [400, 400]
    assert report.kernels[0].milliseconds <= report.total
    assert report.table(top=1).splitlines()[0].split()[0] == "kernel"
    assert "(1 more)" in report.table(top=1)
    assert json.loads(report.json())["kernels"][1]["bytes"] == 4800


def test_description(add: NativeExecutable) -> None:
    assert repr(add) == ("Executable add: x float32[n, 4]; y float32[n, 4] -> z float32[n, 4]")
    assert add.memory == runtime.MemoryInfo(4, None, None)
    assert [i.name for i in add.inputs] == ["x", "y"]


def test_expression_dimensions(make: Make) -> None:
    doubled = [
        {"name": "x", "dtype": "float32", "shape": ["n", 4]},
        {"name": "y", "dtype": "float32", "shape": ["n * 2 - n", 4]},
    ]
    add = make("add", inputs=doubled)
    assert add(rows(3), rows(3)).shape == (3, 4)
    with pytest.raises(InputError) as caught:
        add(rows(3), rows(4))
    assert str(caught.value) == (
        "add: input 'y': shape [4, 4]: dimension 0 is 4, n * 2 - n = 3 needed (n = 3)\n"
        "  expected: y float32[n * 2 - n, 4]"
    )


def test_thread_count() -> None:
    assert 1 <= runtime.num_threads() <= (os.cpu_count() or 1)
    runtime.set_num_threads(runtime.num_threads())
