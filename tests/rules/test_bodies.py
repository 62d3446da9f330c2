"""Other algorithms for operators: they compute what the operator does, under every schedule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smelt
from smelt import te
from smelt.artifact.kernel import KernelSpec, build_kernel, plans, scheduled
from smelt.codegen.llvm import resolve
from smelt.ir.errors import CompileError, InternalError, ScheduleError
from smelt.ir.options import Options
from smelt.pipeline import LOWER
from smelt.rules.cpu import Plan, apply, plan
from smelt.rules.cpu.tiles import TilesSpace
from smelt.stages import kernels_of
from smelt.target import Machine, Target
from smelt.te import Tensor
from smelt.tir.interpret import interpret
from smelt.tir.nodes import PrimFunc
from smelt.topi.registry import Body, get_op, op
from tests.frontend.models import reference
from tests.models.net import Net, floats

from .build import FAR, NARROW, NHWC, ONE, TWO, Array, close, data, laid_out, made, run

CONV = get_op("conv2d")
BODIES = {b.name: (CONV, b) for b in CONV.bodies if b.name in ("winograd2", "winograd4")}
"""Those for floats; test_dot has the others."""


def program(
    body: Body, n: Any, c: int, o: int, h: Any, w: Any, pads: tuple[int, ...], epilogue: bool = True
) -> PrimFunc:
    """A convolution by another body, with a bias and relu behind it, channels last."""
    x, f = te.placeholder((n, c, h, w), name="x"), te.placeholder((o, c, 3, 3), name="f")
    b = te.placeholder((o, 1, 1), name="b")
    attrs = CONV.normalize({"strides": (1, 1), "pads": pads, "dilations": (1, 1)})
    y: Tensor = body.fn(x, f, **attrs)
    if not epilogue:
        return laid_out(made(x, f, y), {"x": NHWC, "conv": NHWC})
    z = te.compute(
        y.shape, lambda i, k, u, v: te.maximum(y[i, k, u, v] + b[k, 0, 0], 0.0), name="z"
    )
    return laid_out(made(x, f, b, z), {"x": NHWC, "z": NHWC})


def expected(x: Array, f: Array, pads: tuple[int, ...]) -> Array:
    """What the operator's numpy meaning gives."""
    assert CONV.meaning is not None
    attrs = CONV.normalize({"strides": (1, 1), "pads": pads, "dilations": (1, 1)})
    found: Array = CONV.meaning(x, f, **attrs)
    return found


SIZES = st.tuples(
    st.integers(1, 2),
    st.integers(1, 19),
    st.integers(1, 37),
    st.integers(1, 13),
    st.integers(1, 13),
)
PADS = st.tuples(*[st.integers(0, 2)] * 4)


def fits(sizes: tuple[int, ...], pads: tuple[int, ...]) -> bool:
    return sizes[3] + pads[0] + pads[2] >= 3 and sizes[4] + pads[1] + pads[3] >= 3


@pytest.mark.parametrize("name", BODIES)
@given(sizes=SIZES, pads=PADS)
@settings(max_examples=12, deadline=None)
def test_bodies_compute_what_the_operator_does(
    name: str, sizes: tuple[int, ...], pads: tuple[int, ...]
) -> None:
    if not fits(sizes, pads):
        return
    n, c, o, h, w = sizes
    c, o = min(c, 3), min(o, 4)
    func = program(BODIES[name][1], n, c, o, h, w, pads, epilogue=False)
    x, f = data(n, c, h, w), data(o, c, 3, 3)
    result = np.zeros_like(expected(x, f, pads))
    interpret(func, x, f, result)
    close(result, expected(x, f, pads))


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("machine", [ONE, TWO, NARROW, FAR], ids=["one", "two", "narrow", "far"])
@given(sizes=SIZES, pads=PADS, constant=st.booleans())
@settings(max_examples=8, deadline=None)
def test_schedules_of_bodies(
    name: str, machine: Machine, sizes: tuple[int, ...], pads: tuple[int, ...], constant: bool
) -> None:
    if not fits(sizes, pads):
        return
    n, c, o, h, w = sizes
    x, f, b = data(n, c, h, w), data(o, c, 3, 3), data(o, 1, 1)
    func = program(BODIES[name][1], n, c, o, h, w, pads)
    known = frozenset({"f"} if constant else ())
    (found,) = run(func, x, f, b, machine=machine, constants=known)
    close(found, np.maximum(expected(x, f, pads) + b, 0))


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("machine", [TWO, FAR], ids=["two", "far"])
def test_symbolic_images(name: str, machine: Machine) -> None:
    n, h, w = te.size_var("n"), te.size_var("h"), te.size_var("w")
    func = program(BODIES[name][1], n, 16, 24, h, w, (1, 1, 1, 1))
    f, b = data(24, 16, 3, 3), data(24, 1, 1)
    for sizes in ((1, 8, 8), (1, 5, 11), (2, 3, 17), (3, 1, 1), (1, 13, 2)):
        x = data(sizes[0], 16, *sizes[1:])
        known = dict(zip("nhw", sizes, strict=True))
        (found,) = run(func, x, f, b, machine=machine, sizes=known, constants=frozenset({"f"}))
        close(found, np.maximum(expected(x, f, (1, 1, 1, 1)) + b, 0))


@pytest.mark.parametrize("machine", [TWO, NARROW], ids=["two", "narrow"])
@pytest.mark.parametrize("known", [(), (0, 1), (2, 3), (0, 2, 3)])
def test_interpolations_are_tiles_only_where_these_are_small(
    known: tuple[int, ...], machine: Machine
) -> None:
    """Axis by axis: what a tile would keep between them may have any size."""
    shape = (2, 43, 3, 5)
    sizes = dict(zip("nchw", shape, strict=True))
    extents = [e if d in known else te.size_var("nchw"[d]) for d, e in enumerate(shape)]
    x = te.placeholder((2, 40, 4, 4), name="x")
    resize = get_op("resize")
    attrs = resize.normalize({"sizes": extents, "mode": "linear"})
    y: Tensor = resize.fn(x, **attrs)
    func = laid_out(made(x, y), {"x": NHWC, y.name: NHWC})
    value = data(2, 40, 4, 4)
    (found,) = run(func, value, machine=machine, sizes=sizes)
    assert resize.meaning is not None
    close(found, resize.meaning(value, **attrs | {"sizes": shape}))


def chosen(machine: Machine, size: int, constants: frozenset[str] = frozenset({"f"})) -> Plan:
    func = program(BODIES["winograd4"][1], 1, 32, 32, size, size, (1, 1, 1, 1))
    return plan(func, machine, constants)


def test_what_does_not_stay_near_is_computed_in_bands() -> None:
    assert [str(p.site.anchor) for p in chosen(TWO, 12).parts] == ["patch", "products", "rows"]
    (part,) = chosen(TWO, 224).parts
    (choice, *_) = part.choices
    assert str(choice).startswith("bands(tasks=")
    assert "products=contraction(" in str(choice)


def test_filters_are_transformed_when_the_model_is_compiled() -> None:
    blocks = [b for p in chosen(TWO, 12).parts for b in p.site.blocks]
    given_late = [b for p in chosen(TWO, 12, frozenset()).parts for b in p.site.blocks]
    assert "filters" not in blocks
    assert "filters" in given_late


# ------------------------------------------------------------------------------- which is taken


def network(c: int, o: int, size: int, kernel: int = 3, stride: int = 1) -> onnx.ModelProto:
    """A convolution in the middle of a network."""
    net = Net(3)
    x = net.op("Relu", net.conv(net.input("x", [1, 8, size, size]), (8, c), 1))
    y = net.op("Relu", net.conv(x, (c, o), kernel, stride))
    return net.model(net.op("Relu", net.conv(y, (o, 8), 1)))


def specs(model: onnx.ModelProto, **options: Any) -> dict[str, KernelSpec]:
    target = resolve(Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4"))
    return kernels_of(model, None, target, None, Options(threads=2, **options), "the tests")


def bodies_of(model: onnx.ModelProto, **options: Any) -> list[str]:
    """What may compute the second convolution, the cheapest first."""
    spec = list(specs(model, **options).values())[1]
    return [p.body or "own" for p in plans(spec)]


def test_the_cost_decides() -> None:
    assert bodies_of(network(64, 64, 56))[0] == "winograd4"
    assert bodies_of(network(3, 64, 8))[0] == "own"
    assert set(bodies_of(network(64, 64, 56))) == {"own", "winograd2", "winograd4"}


def test_other_convolutions_have_one_body() -> None:
    assert bodies_of(network(64, 64, 56, stride=2)) == ["own"]
    assert bodies_of(network(64, 64, 56, kernel=5)) == ["own"]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_other_bodies_are_for_the_highest_level(level: int) -> None:
    spec = list(specs(network(64, 64, 56)).values())[1]
    assert [p.body for p in plans(replace(spec, opt_level=level))] == [""]


def test_whole_models_agree() -> None:
    model = network(40, 36, 30)
    feeds = floats("x", 1, 8, 30, 30)
    assert bodies_of(model)[0].startswith("winograd")
    (wanted,) = reference(model, feeds)
    for threads in (1, 2):
        exe = smelt.compile(model, threads=threads)
        close(exe.run(None, feeds)[0], wanted)


def test_why_lists_the_algorithms() -> None:
    model = network(64, 64, 56)
    found = smelt.why(model, target="llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4")
    (several,) = [k for k in found if k.algorithms]
    assert [a.sketch for a in several.algorithms] == bodies_of(model)
    assert several.seconds == several.algorithms[0].seconds
    assert "algorithms\n  *" in several.text()


def test_kernels_say_which_algorithm_they_use() -> None:
    spec = list(specs(network(64, 64, 56)).values())[1]
    assert build_kernel(spec, LOWER, text=True).sketches[0] == "winograd4"


@pytest.mark.parametrize("broken", ["build", "band"])
def test_what_cannot_be_built_is_replaced_and_said(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise ScheduleError("no such luck")

    spec = list(specs(network(64, 64, 160 if broken == "band" else 28)).values())[1]
    assert not scheduled(spec).failed
    if broken == "build":
        monkeypatch.setattr(TilesSpace, "build", fails)
    else:
        monkeypatch.setattr("smelt.rules.cpu.program.band", fails)
    found = scheduled(spec)
    assert found.failed
    assert all("no such luck" in f for f in found.failed)
    assert found.chosen[0].startswith("contraction")
    with pytest.raises(InternalError, match="no such luck"):
        apply(plans(spec)[0], strict=True)


def test_operators_of_users_have_one_body() -> None:
    @op
    def doubled(x: Tensor) -> Tensor:
        y: Tensor = te.compute(x.shape, lambda *i: x[i] + x[i], name="doubled")
        return y

    with pytest.raises(CompileError, match="operator of your own"):
        doubled.implements(lambda types, attrs: True)
