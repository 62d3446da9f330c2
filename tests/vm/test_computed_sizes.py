"""Operators whose sizes are computed: as numpy says, without Python, in files too; their errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import smelt
from smelt import relax_build
from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.runtime import InputError
from smelt.runtime.vm import VMExecutable

from .support import both, f32, main, relay
from .test_native import in_python

Array = np.ndarray[Any, Any]
Case = tuple[Callable[..., Any], Callable[..., Any], Sequence[Any]]


def i64(*values: int) -> Array:
    return np.asarray(values, "int64")


def i32(*values: int) -> Array:
    return np.asarray(values, "int32")


X = f32(np.arange(24).reshape(2, 3, 4))
NAN, INF = float("nan"), float("inf")


def sliced(x: Array, begin: Array, end: Array, strides: Array) -> Array:
    cut = zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True)
    return x[tuple([slice(b, e, s) for b, e, s in cut])]


def counted(x: Array, begin: Array, count: Array) -> Array:
    parts = []
    for b, c, n in zip(begin.tolist(), count.tolist(), x.shape, strict=False):
        first = b % n if n else 0
        parts.append(slice(first, n if c < 0 else first + c))
    return x[tuple(parts)]


def reshaped(x: Array, shape: Array) -> Array:
    wanted = [n or x.shape[d] for d, n in enumerate(shape.tolist())]
    known = int(np.prod([n for n in wanted if n != -1]))
    rest = x.size // known if known else 0
    return x.reshape([rest if n == -1 else n for n in wanted])


def best(x: Array, k: Array, axis: int, up: bool, dtype: str) -> tuple[Array, Array]:
    size = x.shape[axis]
    order = np.argsort(x, axis, kind="stable")
    if not up:
        order = np.flip(size - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    count = size if k < 1 else min(k.item(), size)
    order = np.take(order, np.arange(count), axis)
    return np.take_along_axis(x, order, axis), order.astype(dtype)


def topk(axis: int, up: bool, dtype: str = "int32", ret: str = "both") -> Callable[..., Any]:
    def build(x: Any, k: Any) -> Any:
        made = relay.topk(x, k, axis=axis, ret_type=ret, is_ascend=up, dtype=dtype)
        return made.astuple() if ret == "both" else made

    return build


def hot(axis: int, dtype: str, on: Any = 1, off: Any = 0) -> Callable[..., Any]:
    def build(x: Any, depth: Any) -> Any:
        values = [relay.const(v, dtype) for v in (on, off)]
        return relay.one_hot(x, *values, depth, axis, dtype)

    return build


def marked(axis: int, dtype: str, on: Any = 1, off: Any = 0) -> Callable[..., Any]:
    def want(x: Array, depth: Array) -> Array:
        at = axis % (x.ndim + 1)
        shape = [-1 if d == at else 1 for d in range(x.ndim + 1)]
        places = np.arange(int(depth)).reshape(shape)
        return np.where(np.expand_dims(x, at) == places, on, off).astype(dtype)  # type: ignore[no-any-return]

    return want


TIES = np.asarray([[3, 1, 3, 2, 1], [0, 0, 5, 5, 0]])
FLOATS = f32([2, NAN, -INF, 2, INF, -0.0, 0.0])
SLICES = [
    (X, i64(0), i64(2), i64(1)),
    (X, i64(-1, 2), i64(-3, -4), i64(-1, -2)),
    (X, i64(-9, 1, 3), i64(9, -1, 0), i64(1, 1, -1)),
    (X, i64(1), i64(1), i64(3)),
    (X, i64(-9), i64(-9), i64(-1)),
    (X, i64(9), i64(2**31 - 1), i64(2)),
    (X, i64(9, 9), i64(-9, -9), i64(-1, -2)),
    (X, i64(0), i64(2**63 - 1), i64(2**63 - 1)),
    (X, i64(1), i64(-(2**63)), i64(-(2**63))),
    (X[:, :0], i64(0, 0), i64(2, 3), i64(1, 1)),
    (X[:, :0], i64(1, -1), i64(-9, -9), i64(-1, -1)),
]
CASES: dict[str, Case] = {
    "arange": (
        lambda a, b, c: relay.arange(a, b, c, dtype="int32"),
        lambda a, b, c: np.arange(int(a), int(b), int(c)).astype("int32"),
        [np.asarray(v, "int32") for v in ((0, 5, 1), (2, 9, 3), (9, 2, -3), (5, 5, 1), (5, 1, 1),
                                          (1, 5, -1), (-4, 5, 2**31 - 1))],
    ),
    "arange of int64": (
        lambda a, b, c: relay.arange(a, b, c, dtype="int64"),
        lambda a, b, c: np.arange(int(a), int(b), int(c)),
        [i64(2**62, 2**62 + 7, 3), i64(-(2**63), -(2**63) + 2, 1),
         i64(2**62, -(2**62) + 1, -(2**62)), i64(0, -5, -(2**63))],
    ),
    "arange of floats": (
        lambda a, b, c: relay.arange(a, b, c, dtype="float32"),
        lambda a, b, c: (float(a) + float(c) * np.arange(
            max(0, int(np.ceil((float(b) - float(a)) / float(c)))))).astype("float32"),
        [f32(v) for v in ((0, 1, 0.25), (0, 1, 0.3), (1, -1, -0.3), (2, 1, 0.5), (0, 3, 1e9))],
    ),
    "arange from integers to a float": (
        lambda a, b, c: relay.arange(a, b, c, dtype="float64"),
        lambda a, b, c: int(a) + int(c) * np.arange(float(int(np.ceil(
            max(0, (float(b) - int(a)) / int(c)))))),
        [(i32(0)[0], np.float32(2.5), i64(1)[0]), (i32(5)[0], np.float32(2.5), i64(-2)[0])],
    ),
    "arange as int8": (
        lambda a, b, c: relay.arange(a, b, c, dtype="int8"),
        lambda a, b, c: np.arange(float(a), float(b), float(c)).astype("int8"),
        [f32((0, 5, 1)), f32((0, -3, -0.5))],
    ),
    "argwhere": (
        relay.argwhere, lambda x: np.argwhere(x).astype("int32"),
        [(X,), (np.zeros((2, 3, 4), "float32"),), (np.where(X % 3 == 0, NAN, 0).astype("float32"),),
         (np.zeros((0, 3, 4), "float32"),)],
    ),
    "argwhere of a vector": (
        relay.argwhere, lambda x: np.argwhere(x).astype("int32"),
        [(np.asarray([True, False, True]),), (np.zeros(4, "bool"),), (np.zeros(0, "bool"),)],
    ),
    "argwhere of a number": (
        relay.argwhere, lambda x: np.argwhere(x).astype("int32"),
        [(np.asarray(3, "int8"),), (np.asarray(0, "int8"),)],
    ),
    "dyn.reshape": (
        relay.reshape, reshaped,
        [(X, i64(4, 6)), (X, i64(-1, 8)), (X, i64(0, -1)), (X, i64(24, 1)), (X[:0], i64(0, 7)),
         (X[:0], i64(-1, 3)), (X[:0], i64(0, -1))],
    ),
    "dyn.reshape of int32 sizes": (
        lambda x, s: relay.reshape(x, s, allowzero=True), lambda x, s: x.reshape(s),
        [(X, i32(2, 1, -1, 3)), (X[:, :0], i32(5, 0, 2, 9))],
    ),
    "dyn.reshape to a number": (
        relay.reshape, lambda x, s: x.reshape(()), [(f32([[7]]), i64())],
    ),
    "dyn.reshape of a number": (
        relay.reshape, lambda x, s: x.reshape(s), [(f32(7), i64(1, -1)), (f32(7), i64(-1, 1))],
    ),
    "dyn.broadcast_to": (
        relay.broadcast_to, np.broadcast_to,
        [(f32([[1], [2]]), i64(5, 2, 3)), (f32([[1], [2]]), i64(1, 2, 1)),
         (f32([[1, 2, 3]]), i64(0, 2, 3)), (f32([[1]]), i64(2, 0, 0)),
         (np.zeros((0, 1), "float32"), i64(2, 0, 3))],
    ),
    "dyn.broadcast_to of a number": (
        relay.broadcast_to, np.broadcast_to, [(np.int8(3), i32(2, 2)), (np.int8(3), i32(0, 2))],
    ),
    "dyn.broadcast_to nothing": (relay.broadcast_to, np.broadcast_to, [(np.int8(3), i32())]),
    "dyn.full": (
        lambda v, s: relay.full(v, s, "float64"),
        lambda v, s: np.full(s, v, "float64"),
        [(np.int32(5), i64(2, 3)), (np.int32(-5), i64(0, 3))],
    ),
    "dyn.full of its type": (
        lambda v, s: relay.full(v, s), lambda v, s: np.full(s, v),
        [(np.int64(2**62 + 1), i64(2)), (np.int64(0), i64(0))],
    ),
    "dyn.zeros": (
        lambda s: relay.zeros(s, "int8"), lambda s: np.zeros(s, "int8"),
        [(i64(2, 3),), (i64(0, 4),)],
    ),
    "dyn.ones": (
        lambda s: relay.ones(s, "bool"), lambda s: np.ones(s, "bool"), [(i32(4),), (i32(0),)],
    ),
    "dyn.ones without dimensions": (
        lambda s: relay.ones(s, "float32"), lambda s: np.ones(s, "float32"), [(i64(),)],
    ),
    "dyn.tile": (
        relay.tile, np.tile,
        [(X, i64(2, 1)), (X, i64(3, 0)), (X, i64(1, 1)), (X[:, :0], i64(2, 2))],
    ),
    "dyn.tile into more dimensions": (
        relay.tile, np.tile, [(i32(1, 2), i64(2, 1, 3)), (i32(), i64(2, 1, 3))],
    ),
    "dyn.tile of a number": (relay.tile, np.tile, [(f32(2), i32(3)), (f32(2), i32(0))]),
    "dyn.strided_slice": (
        relay.strided_slice, sliced, [s for s in SLICES if len(s[1]) == 1],
    ),
    "dyn.strided_slice of two": (
        relay.strided_slice, sliced, [s for s in SLICES if len(s[1]) == 2],
    ),
    "dyn.strided_slice of all": (
        relay.strided_slice, sliced, [s for s in SLICES if len(s[1]) == 3],
    ),
    "dyn.strided_slice by one step": (
        lambda x, b, e: relay.strided_slice(x, b, e, [-1]),
        lambda x, b, e: sliced(x, b, e, i64(-1, -1)), [(X, i64(9, -1), i64(-9, 0))],
    ),
    "dyn.strided_slice by counts": (
        lambda x, b, c: relay.strided_slice(x, b, c, slice_mode="size"), counted,
        [(X, i32(0, 1), i32(1, -1)), (X, i32(-1, -2), i32(9, 1)), (X, i32(5, 4), i32(0, 2)),
         (X, i32(1, 2), i32(2**31 - 1, 1)), (X[:0], i32(3, 0), i32(-1, 2))],
    ),
    "dyn.one_hot": (
        hot(-1, "float32", 2.5, -1.5), marked(-1, "float32", 2.5, -1.5),
        [(i32(0, 3, -1, 1), np.int32(3)), (i32(0, 3, -1, 1), np.int32(0)), (i32(), np.int32(2))],
    ),
    "dyn.one_hot in front": (
        hot(0, "int8"), marked(0, "int8"),
        [(np.asarray([[1, 44], [255, 2]], "uint8"), np.int64(300))],
    ),
    "dyn.one_hot between": (
        hot(1, "bool"), marked(1, "bool"), [(np.asarray([[1, 0, 5]], "int64"), np.int64(2))],
    ),
    "dyn.one_hot of floats": (
        hot(-1, "int32"), marked(-1, "int32"), [(f32([0, 1.5, 2, NAN]), np.int32(4))],
    ),
    "dyn.topk": (
        topk(-1, False), lambda x, k: best(x, k, -1, False, "int32"),
        [(TIES.astype("float32"), np.int32(k)) for k in (1, 3, 5, 9, 0, -1)],
    ),
    "dyn.topk from the smallest": (
        topk(0, True, "int64"), lambda x, k: best(x, k, 0, True, "int64"),
        [(TIES.astype("int8"), np.int64(k)) for k in (1, 2, -7)],
    ),
    "dyn.topk of odd floats": (
        topk(0, False, ret="indices"), lambda x, k: best(x, k, 0, False, "int32")[1],
        [(FLOATS, np.int64(k)) for k in (4, 7)],
    ),
    "dyn.topk values": (
        topk(0, True, ret="values"), lambda x, k: best(x, k, 0, True, "int32")[0],
        [(FLOATS, i64(3)), (f32([]), i64(3)), (f32([]), i64(0))],
    ),
}  # fmt: skip


def module(build: Callable[..., Any], given: Sequence[Any], data: Sequence[Any] = ()) -> IRModule:
    """A module of an operator; data: the extents of the first operand, where they are others."""
    variables = []
    for n, x in enumerate(map(np.asarray, given)):
        shape = data if data and n == 0 else x.shape
        variables.append(relay.var(f"x{n}", shape=shape, dtype=str(x.dtype)))
    return main(variables, build(*variables))


def compiled(mod: IRModule) -> VMExecutable:
    exe: VMExecutable = relay.vm.compile(mod)
    assert exe.metadata["control"] == "native", exe.metadata["python"]
    return exe


def check(exe: VMExecutable, given: Sequence[Any], want: Any) -> None:
    found = exe(*given)
    results = found if isinstance(found, tuple) else (found,)
    for ours, theirs in zip(results, want if isinstance(want, tuple) else (want,), strict=True):
        assert ours.numpy().dtype == theirs.dtype
        np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("name", CASES)
def test_computed_sizes(name: str, tmp_path: Path) -> None:
    build, want, inputs = CASES[name]
    forms: dict[Any, VMExecutable] = {}
    for given in inputs:
        form = tuple([np.asarray(x).shape for x in given])
        if form not in forms:
            forms[form] = compiled(module(build, given))
        check(forms[form], given, want(*given))
    exe = next(iter(forms.values()))
    exe.export_library(tmp_path / "sizes.vm")
    loaded: Any = smelt.load(tmp_path / "sizes.vm")
    for same in (loaded, in_python(exe)):
        check(same, inputs[0], want(*inputs[0]))


SYMBOLIC = (
    "argwhere", "dyn.reshape", "dyn.tile", "dyn.strided_slice of two",
    "dyn.strided_slice by counts", "dyn.one_hot", "dyn.topk", "dyn.broadcast_to",
)  # fmt: skip


@pytest.mark.parametrize("name", SYMBOLIC)
def test_of_tensors_of_unknown_sizes(name: str) -> None:
    build, want, inputs = CASES[name]
    mod = module(build, inputs[0], [relay.Any() for _ in np.shape(inputs[0][0])])
    exe = compiled(mod)
    for given in inputs:
        check(exe, given, want(*given))


def test_every_machine_runs_them() -> None:
    for name in ("arange", "dyn.topk"):
        build, want, inputs = CASES[name]
        mod, given = module(build, inputs[0]), inputs[0]
        results = want(*given)
        made: Any
        for made in (smelt.compile(mod), relax_build.build(mod)):
            assert made.metadata["control"] == "native"
            check(made, given, results)
        machine = relax_build.VirtualMachine(relax_build.build(mod), smelt.cpu())
        for made in (machine["main"], relay.create_executor("vm", mod).evaluate()):
            found = made(*given)
            first = found[0] if isinstance(found, list) else found
            wanted = results[0] if isinstance(results, tuple) else results
            np.testing.assert_array_equal(first.numpy(), wanted)


def test_sizes_in_loops_branches_and_of_each_other() -> None:
    mod, f = IRModule(), relay.GlobalVar("f")
    n, x = relay.var("n", shape=(), dtype="int32"), relay.var("x", shape=(relay.Any(),))
    more = relay.tile(relay.arange(relay.const(0), n, relay.const(1), dtype="float32"),
                      relay.reshape(n, (1,)))  # fmt: skip
    again = f(relay.subtract(n, relay.const(1)), relay.concatenate([x, more], 0))
    mod[f] = relay.Function([n, x], relay.If(relay.equal(n, relay.const(0)), x, again))
    k, y = relay.var("k", shape=(), dtype="int32"), relay.var("y", shape=(3,))
    found = f(k, y)
    where = relay.argwhere(found)
    rows = relay.zeros(relay.take(relay.shape_of(where), relay.const([0, 1])), "float32")
    best = relay.topk(found, k, ret_type="values")
    main([k, y], relay.Tuple([relay.add(rows, relay.const(1.0)), relay.multiply(best, best)]), mod)
    ones, squares = both(mod, np.int32(3), f32([1, 0, 7]))
    assert ones.shape == (2 + 6 + 2, 1)
    assert squares.tolist() == [49, 4, 4]
    assert relay.vm.compile(mod).metadata["control"] == "native"


def test_extents_that_branches_make_sizes_of_the_run() -> None:
    mod, f = IRModule(), relay.GlobalVar("f")
    n, x = relay.var("n", shape=(), dtype="int32"), relay.var("x", shape=(relay.Any(), 3))
    inner = f(relay.subtract(n, relay.const(1)), x)
    twice = relay.concatenate([inner, inner], 0)
    best = relay.topk(twice, n, axis=1)
    y = relay.add(best[0], relay.cast(best[1], "float32"))
    mod[f] = relay.Function([n, x], relay.If(relay.equal(n, relay.const(0)), x, y))
    k, z = relay.var("k", shape=(), dtype="int32"), relay.var("z", shape=(relay.Any(), 3))
    exe: Any = compiled(main([k, z], relay.exp(f(k, z)), mod))
    assert exe(np.int32(1), f32(np.zeros((2, 3)))).tolist() == [[1]] * 4
    assert exe(np.int32(2), f32(np.zeros((1, 3)))).tolist() == [[1]] * 4


STEPS = "(-1: none is right, as with steps of 0) is -1; it has to be 0 or more"
WRONG: list[tuple[str, Any, str]] = [
    ("arange", i32(0, 5, 0), f"the number of elements {STEPS}"),
    ("arange of int64", i64(2**63 - 1, -(2**62), -1), f"the number of elements {STEPS}"),
    ("arange of floats", f32([0, 0, 0]), f"the number of elements {STEPS}"),
    ("arange of floats", f32([0, NAN, 1]), f"the number of elements {STEPS}"),
    ("arange of floats", f32([0, INF, 1]), f"the number of elements {STEPS}"),
    ("dyn.reshape", (X, i64(5, 5)), "the shape is [5, 5], which does not hold 24 elements"),
    ("dyn.reshape", (X, i64(-1, -1)), "the shape is [-1, -1], which does not hold 24 elements"),
    ("dyn.reshape", (X, i64(-1, 7)), "the shape is [3, 7], which does not hold 24 elements"),
    ("dyn.reshape", (X, i64(-2, -12)), "the shape is -2; it has to be 0 or more"),
    ("dyn.broadcast_to", (f32([[1], [2]]), i64(5, 3, 3)),
     "the shape asks for [5, 3, 3], which does not fit [5, 2, 3]"),
    ("dyn.broadcast_to", (f32([[1], [2]]), i64(5, 2, -3)),
     "the shape is -3; it has to be 0 or more"),
    ("dyn.full", (np.int32(5), i64(2, -1)), "the shape is -1; it has to be 0 or more"),
    ("dyn.zeros", (i64(-2, 2),), "the shape is -2; it has to be 0 or more"),
    ("dyn.ones", (i32(-1),), "the shape is -1; it has to be 0 or more"),
    ("dyn.tile", (X[:, :, :0], i64(2, -1)),
     "the extent of the result is -1; it has to be 0 or more"),
    ("dyn.strided_slice", (X, i64(0), i64(2), i64(0)), f"the number of elements {STEPS}"),
    ("dyn.one_hot", (i32(1), np.int32(-3)), "the depth is -3; it has to be 0 or more"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "text"), WRONG)
def test_numbers_that_are_no_sizes(name: str, given: Any, text: str) -> None:
    exe = compiled(module(CASES[name][0], given))
    for one, where in ((exe, "main: "), (in_python(exe), "")):
        with pytest.raises(InputError) as caught:
            one(*given)
        assert str(caught.value) == f"{where}{name.split()[0]}: {text}"


REFUSED: list[tuple[str, Any, str]] = [
    ("dyn.broadcast_to", (X, i64(2, 3)), "2 extents for a tensor of 3 dimensions"),
    ("dyn.strided_slice", (f32([1]), i64(0, 1), i64(2, 3), i64(1, 1)),
     "begin has 2 numbers; the data has 1 dimensions"),
    ("dyn.strided_slice", (X, i64(0), i64(2, 3), i64(1)), "operand 2 has 2 numbers, begin 1"),
    ("dyn.strided_slice", (X, i64(0), np.int64(2), i64(1)),
     "operand 2 has to be a vector of known length"),
    ("arange", (i32(0, 1), np.int32(3), np.int32(3)), "operand 0 has 2 elements, not 1"),
    ("dyn.topk", (f32([1]), i32(1, 2)), "operand 1 has 2 elements, not 1"),
    ("dyn.full", (i32(1, 2), i64(3)), "operand 0 has 2 elements, not 1"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "text"), REFUSED)
def test_operands_that_tell_no_sizes(name: str, given: Any, text: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        relay.vm.compile(module(CASES[name][0], given))
    assert str(caught.value) == f"{name}: {text}"


@pytest.mark.parametrize(
    "node", ["Range (zero, ends, steps)", "Slice (x, zeros, end, zeros, step)"]
)
def test_steps_of_0_in_onnx_models(node: str) -> None:
    exe: Any = smelt.compile(
        onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 20]>
        m (float[5] x, int64 ends, int64 steps) => (float[n] y) {{
            zero = Constant <value = int64 {{0}}> ()
            zeros = Constant <value = int64[1] {{0}}> ()
            end = Unsqueeze (ends, zeros)
            step = Unsqueeze (steps, zeros)
            z = {node}
            y = Cast <to = 1> (z)
        }}""")
    )
    x = f32([0, 1, 2, 3, 4])
    assert exe(x, 5, 2).tolist() == [0, 2, 4]
    with pytest.raises(InputError) as caught:
        exe(x, 5, 0)
    assert str(caught.value).endswith(f" as a number of elements {STEPS}")
