"""What kernels want done with constants: programs over them, compiled and run when a model is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import smelt
from smelt import te
from smelt.artifact import constants
from smelt.artifact.constants import Preparation, preparations
from smelt.artifact.graph import Made, Storage
from smelt.artifact.weights import weights_of
from smelt.codegen.llvm import object_code
from smelt.ir import dtype as dt
from smelt.ir.errors import ScheduleError
from smelt.ir.expr import Expr, cast, const
from smelt.ir.options import Options
from smelt.pipeline import LOWER
from smelt.tir.parser import parse
from smelt.tir.schedule import Schedule
from tests.models import conv_nets
from tests.models.net import Array, Net

Map = Callable[..., Any]
OPTIONS = Options(threads=2, workers=0, cache_dir="")


def relaid(shape: Sequence[int], maps: Sequence[Map], dtype: str, pad: Any) -> Schedule:
    """A schedule that lays its parameter out anew, step by step."""
    given = te.placeholder(shape, dtype, "A")
    sch = Schedule(te.create_prim_func([given, te.compute(shape, lambda *i: given[i], "B")]))
    for index_map in maps:
        sch.transform_layout("B", ("read", 0), index_map, pad_value=pad)
    return sch


def given(data: Array) -> Storage:
    return Storage("constant", dt.from_numpy(data.dtype), const(data.nbytes), data=data)


def prepared(wanted: Preparation, *arrays: Array, options: Options = OPTIONS) -> list[Array]:
    """The bytes of what a preparation makes of some constants."""
    program = wanted.program()
    sources = tuple(map(given, arrays))
    made = [
        Storage("constant", "uint8", const(size), made=Made(program, sources, k))
        for k, (_, size) in enumerate(program.makes)
    ]
    blob, places = weights_of(made, options, LOWER, by_contents=False)
    return [blob[places[s] : places[s] + s.fixed_bytes] for s in made]


def numbers(shape: Sequence[int], dtype: Any) -> Array:
    random = np.random.default_rng(len(shape)).integers(-100, 100, tuple(shape))
    return np.asarray(random % 2 if dtype is np.bool_ else random, dtype)


LAYOUTS: dict[str, tuple[tuple[int, ...], list[Map], tuple[int, ...]]] = {
    "transposed": ((20, 33), [lambda i, j: (j, i)], (33, 20)),
    "panels": ((96, 40), [lambda n, k: (n // 48, k, n % 48)], (2, 40, 48)),
    "padded panels": ((100, 37), [lambda n, k: (n // 48, k, n % 48)], (3, 37, 48)),
    "less than a panel": ((5, 9), [lambda n, k: (n // 8, k, n % 8)], (1, 9, 8)),
    "filters": ((40, 3, 5, 5), [lambda o, i, h, w: (o // 16, h, w, i, o % 16)], (3, 5, 5, 3, 16)),
    "a unit dimension gone": ((20, 1, 3), [lambda i, j, k: (k, i)], (3, 20)),
    "a unit dimension more": ((20, 3), [lambda i, j: (0, j, i)], (1, 3, 20)),
    "flat": ((6, 7), [lambda i, j: (i * 7 + j,)], (42,)),
    "cut anew": ((20, 12), [lambda i, j: ((i * 12 + j) // 16, (i * 12 + j) % 16)], (15, 16)),
    "gaps": ((9,), [lambda i: (i * 2,)], (17,)),
    "two steps": (
        (20, 12),
        [lambda i, j: (i // 8, j, i % 8), lambda a, b, c: (b // 5, a, c, b % 5)],
        (3, 3, 8, 5),
    ),
}


def moved(data: Array, maps: Sequence[Map], shape: Sequence[int], pad: float) -> Array:
    """Every element where the maps send it."""
    out = np.full(tuple(shape), pad, data.dtype)
    for index in np.ndindex(data.shape):
        at = index
        for index_map in maps:
            at = index_map(*at)
        out[at] = data[index]
    return out


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("pad", [0.0, 3.0])
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_constant_stands_where_the_maps_send_it(name: str, pad: float, threads: int) -> None:
    shape, maps, new = LAYOUTS[name]
    data = numbers(shape, np.float32)
    (wanted,) = preparations(relaid(shape, maps, "float32", pad))
    options = Options(threads=threads, workers=0, cache_dir="")
    (made,) = prepared(wanted, data, options=options)
    assert np.array_equal(made.view(np.float32).reshape(new), moved(data, maps, new, pad))


KINDS = [np.float16, np.float64, np.int8, np.uint8, np.int64, np.bool_, ml_dtypes.bfloat16]


@pytest.mark.parametrize("kind", KINDS)
def test_elements_of_every_type_are_moved(kind: Any) -> None:
    data, index_map = numbers((35, 66), kind), LAYOUTS["panels"][1]
    (wanted,) = preparations(relaid(data.shape, index_map, dt.from_numpy(data.dtype), 0))
    (made,) = prepared(wanted, data)
    assert np.array_equal(
        made.view(kind).reshape(1, 66, 48), moved(data, index_map, (1, 66, 48), 0)
    )


def test_large_constants_are_moved_by_many_tasks() -> None:
    data, index_map = numbers((1003, 515), np.float32), LAYOUTS["panels"][1]
    (wanted,) = preparations(relaid(data.shape, index_map, "float32", 0.0))
    (made,) = prepared(wanted, data)
    expected = np.pad(data, ((0, 5), (0, 0))).reshape(21, 48, 515).transpose(0, 2, 1)
    assert np.array_equal(made.view(np.float32).reshape(expected.shape), expected)


def test_bits_that_are_no_numbers_are_kept() -> None:
    data = np.arange(0x7F800000, 0x7F800000 + 20 * 33, dtype=np.uint32).view(np.float32)
    (wanted,) = preparations(relaid((20, 33), LAYOUTS["transposed"][1], "float32", 0.0))
    (made,) = prepared(wanted, data.reshape(20, 33))
    assert np.array_equal(
        made.view(np.uint32).reshape(33, 20), data.view(np.uint32).reshape(20, 33).T
    )


def test_constants_need_not_be_in_order_or_aligned() -> None:
    data, maps = numbers((33, 20), np.float32), LAYOUTS["transposed"][1]
    shifted = np.frombuffer(b"x" + np.ascontiguousarray(data.T).tobytes(), np.uint8)[1:]
    (wanted,) = preparations(relaid((20, 33), maps, "float32", 0.0))
    for source in (data.T, shifted.view(np.float32).reshape(20, 33)):
        (made,) = prepared(wanted, source)
        assert np.array_equal(made.view(np.float32).reshape(33, 20), data)


def test_a_constant_without_elements() -> None:
    (wanted,) = preparations(relaid((0, 4), LAYOUTS["transposed"][1], "float32", 0.0))
    (made,) = prepared(wanted, np.empty((0, 4), np.float32))
    assert made.size == 0


def several() -> Preparation:
    """Of two matrices: the product with the first turned, and the sums of the second's columns."""
    a, b = te.placeholder((24, 16), "float32", "a"), te.placeholder((24, 40), "int8", "b")
    k, r = te.reduce_axis((0, 24), "k"), te.reduce_axis((0, 24), "r")
    product = te.compute((16, 40), lambda i, j: te.sum(a[k, i] * cast("float32", b[k, j]), k), "p")
    sums = te.compute((40,), lambda j: te.sum(cast("int32", b[r, j]), r), "sums")
    return Preparation(te.create_prim_func([a, b, product, sums]), (1, 2), (1, 3))


def test_any_program_makes_several_constants_of_several() -> None:
    a, b = numbers((24, 16), np.float32), numbers((24, 40), np.int8)
    product, sums = prepared(several(), a, b)
    assert np.array_equal(product.view(np.float32).reshape(16, 40), a.T @ b.astype(np.float32))
    assert np.array_equal(sums.view(np.int32), b.sum(0, np.int32))


def test_what_programs_make_and_what_is_given_stand_in_one_blob() -> None:
    data = numbers((20, 33), np.float32)
    (wanted,) = preparations(relaid((20, 33), LAYOUTS["transposed"][1], "float32", 0.0))
    program, plain = wanted.program(), given(data)

    def made(source: Array) -> Storage:
        of = Made(program, (given(source),), 0)
        return Storage("constant", "uint8", const(data.nbytes), made=of)

    storages = [made(data), plain, made(data), made(data + 1)]
    blob, places = weights_of(storages, OPTIONS, LOWER, by_contents=False)
    first, own, again, other = [places[s] for s in storages]
    assert first == again  # of the same memory, in the same way
    assert len({first, own, other}) == 3
    assert all(at % 64 == 0 for at in places.values())
    assert np.array_equal(blob[own : own + data.nbytes].view(np.float32), data.reshape(-1))
    assert np.array_equal(
        blob[other : other + data.nbytes].view(np.float32), (data.T + 1).reshape(-1)
    )
    assert not blob[first + data.nbytes : own].any()


def test_equal_contents_count_as_one_between_graphs() -> None:
    data = numbers((20, 33), np.float32)
    (wanted,) = preparations(relaid((20, 33), LAYOUTS["transposed"][1], "float32", 0.0))
    program = wanted.program()
    storages = [
        Storage("constant", "uint8", const(data.nbytes), made=Made(program, (given(x),), 0))
        for x in (data, data.copy())
    ]
    for by_contents, count in ((True, 1), (False, 2)):
        _, places = weights_of(storages, OPTIONS, LOWER, by_contents=by_contents)
        assert len(set(places.values())) == count


# ---- of models ------------------------------------------------------------------------------


def same_layers(count: int) -> Any:
    net = Net(3)
    x = net.input("x", [8, 64])
    for _ in range(count):
        x = net.op("Relu", net.gemm(x, (64, 64)))
    return net.model(x)


def test_a_program_is_compiled_once_and_found_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []

    def counted(target: Any, ir: str, name: str, quick: bool = False) -> bytes:
        compiled.append(name)
        return object_code(target, ir, name, quick)

    monkeypatch.setattr(constants, "object_code", counted)
    options = Options(threads=1, workers=0, cache_dir=tmp_path)
    first = smelt.compile_artifact(same_layers(3), options=options)
    assert len(compiled) == 1
    again = smelt.compile_artifact(same_layers(3), options=options)
    assert len(compiled) == 1
    assert again.weights.tobytes() == first.weights.tobytes()


def test_dumps_show_what_is_done_with_constants(tmp_path: Path) -> None:
    smelt.compile_artifact(same_layers(1), options=Options(dump_dir=tmp_path, workers=0))
    (file,) = tmp_path.rglob("*_constants.txt")
    given, made = parse(file.read_text()).buffers
    assert given.fixed_shape() == (64, 64)
    assert made.rank == 3


def test_constants_are_the_same_every_time() -> None:
    one, two = [
        smelt.compile_artifact(conv_nets.alexnet(1), options=Options(threads=2, cache_dir=""))
        for _ in range(2)
    ]
    assert one.metadata["weights_bytes"] == two.metadata["weights_bytes"]
    assert one.weights.tobytes() == two.weights.tobytes()


def test_the_interpreter_judges_programs_over_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMELT_CHECK", "1")
    data, index_map = numbers((20, 9), np.float32), LAYOUTS["less than a panel"][1]
    (wanted,) = preparations(relaid((20, 9), index_map, "float32", 0.0))
    (made,) = prepared(wanted, data)
    assert np.array_equal(
        made.view(np.float32).reshape(3, 9, 8), moved(data, index_map, (3, 9, 8), 0)
    )


# ---- what a schedule remembers --------------------------------------------------------------


def test_a_map_that_cannot_be_inverted_is_refused_for_constants() -> None:
    def backwards(i: Expr) -> Expr:
        return 19 - i

    with pytest.raises(ScheduleError) as caught:
        preparations(relaid((20,), [backwards], "float32", 0.0))
    assert str(caught.value) == (
        "main: transform_layout of the constant A: its index map cannot be inverted\n"
        "  legal: sums of digits, quotients and remainders"
    )


def test_only_parameters_are_prepared() -> None:
    a = te.placeholder((8, 8), "float32", "A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, "B")
    sch = Schedule(te.create_prim_func([a, te.compute((8, 8), lambda i, j: b[i, j] * 2.0, "C")]))
    sch.transform_layout("B", ("write", 0), lambda i, j: (j, i))
    assert preparations(sch) == ()


def test_a_copy_and_a_refused_step_leave_a_schedule_as_it_was() -> None:
    sch = relaid((20, 33), [], "float32", 0.0)
    sch.copy().transform_layout("B", "A", lambda i, j: (j, i))
    with pytest.raises(ScheduleError):
        sch.transform_layout("B", "A", lambda i, j: (j,))
    assert preparations(sch) == ()


def test_a_replayed_trace_wants_the_same_done() -> None:
    shape, maps, _ = LAYOUTS["two steps"]
    first, again = relaid(shape, maps, "float32", 3.0), relaid(shape, [], "float32", 3.0)
    type(first.trace).from_text(str(first.trace)).apply_to_schedule(again)
    programs = [[w.program() for w in preparations(sch)] for sch in (first, again)]
    assert programs[0] == programs[1]
