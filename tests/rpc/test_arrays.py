"""Arrays that stay on the other machine, and candidates of tuning that are timed on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.codegen.llvm import object_code, resolve
from smelt.contrib import graph_executor
from smelt.rpc import RPCError, RPCSession
from smelt.runtime import InputError, LoadError
from smelt.runtime.device import present
from smelt.runtime.linking import link_kernel
from smelt.target import Target

X = np.arange(8, dtype="float32").reshape(2, 4) / 3


def test_arrays_stay_there(remote: RPCSession) -> None:
    for dtype in ("float32", "int8", "bool", "int64", "float16"):
        check_array(remote, dtype)


def check_array(remote: RPCSession, dtype: str) -> None:
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    there: Any = smelt.nd.array(x, remote.cpu(0))
    assert (there.shape, there.dtype, there.device.session) == (x.shape, x.dtype, remote)
    np.testing.assert_array_equal(there.numpy(), x)
    assert repr(there).startswith(f"RemoteArray({dtype}[2, 3, 4] on cpu(0)")
    other: Any = smelt.nd.empty((2, 3, 4), dtype, remote.cpu(0))
    assert not other.numpy().any()
    assert there.copyto(other) is other
    back: Any = other.copyto(smelt.cpu(0))
    assert isinstance(back, smelt.NDArray)
    np.testing.assert_array_equal(back.numpy(), x)
    again: Any = back.copyto(remote.cpu(0))
    np.testing.assert_array_equal(again.numpy(), x)
    here = np.zeros_like(x)
    there.copyto(here)
    np.testing.assert_array_equal(here, x)


def test_functions_use_arrays_there(remote: RPCSession, libraries: Path) -> None:
    """They are not sent, and results that are written into them stay."""
    remote.upload(libraries / "add.so")
    add = remote.load_module("add.so")
    x = np.arange(8, dtype="float32")
    a, b, c = [smelt.nd.array(v, remote.cpu(0)) for v in (x, 2 * x, 0 * x)]
    add(a, b, c)
    np.testing.assert_array_equal(c.numpy(), 3 * x)
    mixed = smelt.nd.empty((8,))
    add(c, x, mixed)
    np.testing.assert_array_equal(mixed.numpy(), 4 * x)
    add(c, x, c)
    np.testing.assert_array_equal(c.numpy(), 4 * x)
    times = add.time_evaluator(add.entry_name, remote.cpu(0), number=3, repeat=2)(a, b, c)
    assert len(times.results) == 2


def test_models_use_arrays_there(remote: RPCSession, libraries: Path) -> None:
    remote.upload(libraries / "net.so")
    lib = remote.load_module("net.so")
    x = smelt.nd.array(X, remote.cpu(0))
    np.testing.assert_array_equal(lib(x).numpy(), lib(X).numpy())
    module = graph_executor.GraphModule(lib["default"](remote.cpu(0)))
    module.set_input("x", x)
    x.copyfrom(0 * X)  # the module has its own
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), lib(X).numpy())


def test_arrays_there_that_do_not_fit(remote: RPCSession, libraries: Path) -> None:
    x: Any = smelt.nd.array(X, remote.cpu(0))
    with pytest.raises(InputError, match="copyfrom: the source has shape"):
        x.copyfrom(X[:, :2])
    with pytest.raises(InputError, match="copyfrom"):
        x.copyfrom(smelt.nd.array(X[:, :2], remote.cpu(0)))
    remote.upload(libraries / "net.so")
    with pytest.raises(InputError, match="dtype int32 given, float32 needed"):
        remote.load_module("net.so")(smelt.nd.array(X.astype("int32"), remote.cpu(0)))
    with pytest.raises(RPCError, match=r"there is no device cuda\(0\)"):
        smelt.nd.empty((1,), "float32", remote.device("cuda", 0))
    with pytest.raises(InputError, match=r"there is no device cpu\(0\) of"):
        present(remote.cpu(0), "here")
    number = x.handle["number"]
    del x
    with pytest.raises(RPCError, match=f"there is no object {number} in this session"):
        remote.value({"do": "fill", "array": {"$": "object", "number": number}}, [b"1"])


def test_messages_of_candidates_that_ask_for_nothing(remote: RPCSession) -> None:
    x: Any = smelt.nd.array(np.zeros(16, "uint8"), remote.cpu(0))
    code = link_kernel(object_code(
        resolve(Target("llvm -mcpu=native")),
        """define i32 @smelt_entry(ptr %host, ptr %tensors, ptr %sizes, ptr %w, ptr %s) {
        %p = load ptr, ptr %tensors
        %n = load i64, ptr %sizes
        store i64 %n, ptr %p
        ret i32 0 }""", "a candidate"))  # fmt: skip
    with pytest.raises(LoadError, match="compiled for a CPU with "):
        remote.value({"do": "kernel", "features": ["no-such"]}, [code])
    with pytest.raises(LoadError, match="candidate"):
        remote.value({"do": "kernel", "features": []}, [b"no library"])
    kernel: Any = remote.value({"do": "kernel", "features": []}, [code])
    good = {"do": "time", "kernel": kernel.handle, "operands": [[x.handle, 8, 8, 2, 1]],
            "sizes": [7], "turn": 1, "calls": 1, "threads": 2}  # fmt: skip
    assert 0 < remote.value(good) < 1
    assert [*x.numpy().view(np.int64)] == [0, 7]
    for wrong in (
        {"operands": [[x.handle, 9, 8, 2, 1]]}, {"operands": [[x.handle, 8, 1 << 62, 4, 1]]},
        {"operands": [[x.handle, -1, 8, 1, 1]]}, {"operands": [[kernel.handle, 0, 0, 1, 0]]},
        {"operands": [[x.handle]]}, {"operands": 3}, {"kernel": x.handle}, {"turn": -1},
        {"calls": 0}, {"threads": 0}, {"sizes": "a"},
    ):  # fmt: skip
        with pytest.raises(RPCError):
            remote.value({**good, **wrong})
    assert remote.value(good) > 0
