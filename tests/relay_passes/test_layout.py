"""ConvertLayout and AlterOpLayout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.ir.errors import TypeMismatch
from smelt.transform import Sequential

from .programs import op_names, relay
from .test_arithmetic import const, conv, image, run

T = relay.transform
NHWC = {"nn.conv2d": ["NHWC", "default"]}


def moves(e: Any) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def see(n: Any) -> None:
        if getattr(getattr(n, "op", None), "name", "") == "layout_transform":
            found.append((n.attrs.src_layout, n.attrs.dst_layout))

    relay.analysis.post_order_visit(e, see)
    return found


def convs(e: Any) -> list[Any]:
    found: list[Any] = []

    def see(n: Any) -> None:
        if getattr(getattr(n, "op", None), "name", "") == "nn.conv2d":
            found.append(n)

    relay.analysis.post_order_visit(e, see)
    return found


def test_a_convolution_in_another_layout() -> None:
    x = image()
    made = run(T.ConvertLayout(NHWC), x, relay.nn.relu(conv(x)))
    assert op_names(made) == [
        "layout_transform", "layout_transform", "nn.conv2d", "nn.relu", "layout_transform",
    ]  # fmt: skip
    (c,) = convs(made)
    assert (c.attrs.data_layout, c.attrs.kernel_layout) == ("NHWC", "HWIO")
    assert moves(made) == [("NCHW", "NHWC"), ("OIHW", "HWIO"), ("NHWC", "NCHW")]


@pytest.mark.parametrize(
    "between",
    [
        lambda y: relay.nn.relu(y + 1.0),
        lambda y: relay.nn.bias_add(y, const(4)),
        lambda y: relay.nn.batch_norm(y, const(4), const(4), const(4), const(4, low=0.5))[0],
        lambda y: y * const(4, 1, 1),
        lambda y: y + relay.tanh(y),
        lambda y: relay.nn.max_pool2d(y, pool_size=(3, 3), padding=(1, 1)),
        lambda y: relay.nn.avg_pool2d(y, pool_size=(2, 2), strides=(2, 2)),
        lambda y: relay.split(relay.concatenate([y, relay.exp(y)], axis=1), 2, axis=1)[1],
        lambda y: relay.nn.pad(y, pad_width=((0, 0), (0, 0), (1, 2), (3, 4))),
        lambda y: y - relay.mean(y, axis=1, keepdims=True),
        lambda y: y * relay.sigmoid(relay.nn.global_avg_pool2d(y)),
        lambda y: relay.nn.softmax(y, axis=1),
        lambda y: relay.nn.leaky_relu(relay.clip(y, -0.5, 0.5), 0.1),
        lambda y: relay.nn.upsampling(y, 2, 2),
    ],
)
def test_what_follows_goes_along(between: Callable[[Any], Any]) -> None:
    x = image()
    made = run(T.ConvertLayout(NHWC), x, conv(between(conv(x))))
    images = [m for m in moves(made) if m in (("NCHW", "NHWC"), ("NHWC", "NCHW"))]
    small = [n for n in op_names(made) if n == "expand_dims"]
    assert len(images) == 2 + len(small)
    assert all(c.attrs.data_layout == "NHWC" for c in convs(made))


@pytest.mark.parametrize(
    "after",
    [
        lambda y: relay.nn.batch_flatten(y),
        lambda y: relay.reshape(y, newshape=(4, 36)),
        lambda y: relay.mean(y, axis=(2, 3)),
        lambda y: relay.mean(y, axis=(1,)),
        lambda y: relay.sum(y, axis=(0, 2), exclude=True),
        lambda y: relay.variance(y, axis=(2, 3), keepdims=True),
        lambda y: relay.strided_slice(y, begin=(0, 1), end=(1, 3), strides=(1, 1)),
        lambda y: relay.transpose(y, axes=(0, 2, 3, 1)),
        lambda y: relay.nn.dense(relay.nn.batch_flatten(y), const(3, 144)),
        lambda y: y + relay.const(np.ones((6, 6), "float32")),
        lambda y: y + relay.var("z", shape=(2, 4, 6, 6)),
    ],
)
def test_other_operators_see_the_old_layout(after: Callable[[Any], Any]) -> None:
    x = image()
    body = after(conv(x))
    params = relay.analysis.free_vars(body)
    run(T.ConvertLayout(NHWC), *params, body)


def test_scopes_see_the_old_layout() -> None:
    x, c, p = image(), relay.var("c", shape=(), dtype="bool"), image("p")
    v = relay.var("v", p.type)
    f = relay.Function([p], relay.nn.relu(conv(p)))
    body = relay.Let(v, relay.nn.relu(conv(x)), relay.If(c, relay.Call(f, [v]), conv(v)))
    mod = smelt.IRModule.from_expr(relay.Function([x, c], body))
    made = T.ConvertLayout(NHWC)(mod)
    assert T.InferType()(made) is made
    assert all(c.attrs.data_layout == "NHWC" for c in convs(made["main"]))


def test_depthwise_weights_keep_one_channel() -> None:
    x = image()
    y = relay.nn.conv2d(x, const(4, 1, 3, 3), groups=4, padding=(1, 1))
    (c,) = convs(run(T.AlterOpLayout(), x, y))
    assert c.attrs.kernel_layout == "HWOI"


def test_back_from_nhwc() -> None:
    x = image(last=True)
    y = relay.nn.conv2d(x, const(3, 3, 4, 5), data_layout="NHWC", kernel_layout="HWIO")
    y = relay.nn.bias_add(y, const(5), axis=3)
    made = run(T.ConvertLayout({"nn.conv2d": ["NCHW", "default"]}), x, y)
    (c,) = convs(made)
    assert (c.attrs.data_layout, c.attrs.kernel_layout) == ("NCHW", "OIHW")
    assert moves(made)[-1] == ("NCHW", "NHWC")


def test_weights_that_are_constants_are_turned_at_compile_time() -> None:
    x = image()
    both = Sequential([T.AlterOpLayout(), T.FoldConstant()])
    made = run(both, x, relay.nn.relu(conv(conv(x) * const(4, 1, 1))))
    assert moves(made) == [("NCHW", "NHWC"), ("NHWC", "NCHW")]


def test_layers_are_skipped() -> None:
    x = image()
    y = conv(relay.nn.relu(conv(relay.nn.relu(conv(x)))))
    for skip, kept in (([0], [0]), ([-1], [2]), ([0, 1], [0, 1]), (["nn.conv2d"], [0, 1, 2])):
        with T.LayoutConfig(skip_layers=skip):
            made = run(T.ConvertLayout(NHWC), x, y)
        found = [i for i, c in enumerate(convs(made)) if c.attrs.data_layout == "NCHW"]
        assert found == kept
    assert all(c.attrs.data_layout == "NHWC" for c in convs(run(T.ConvertLayout(NHWC), x, y)))


def test_pooling_alone_may_be_asked_for() -> None:
    x = image()
    y = relay.nn.max_pool2d(x, pool_size=(2, 2))
    made = run(T.ConvertLayout({"nn.max_pool2d": ["NHWC"]}), x, y)
    assert moves(made) == [("NCHW", "NHWC"), ("NHWC", "NCHW")]


@pytest.mark.parametrize(
    ("rank", "between"),
    [
        (1, lambda y: relay.nn.adaptive_avg_pool1d(y, output_size=3)),
        (1, lambda y: relay.image.resize1d(y, size=9)),
        (3, lambda y: relay.nn.adaptive_max_pool3d(y, output_size=(2, 3, 2))),
        (3, lambda y: relay.nn.upsampling3d(y, 2, 1, 2)),
        (3, lambda y: relay.image.resize3d(y, size=(5, 3, 4))),
    ],
)
def test_images_of_one_and_three_dimensions(rank: int, between: Callable[[Any], Any]) -> None:
    said, last = (("NCW", "NWC"), ("NCDHW", "NDHWC"))[rank == 3]
    op = f"nn.conv{rank}d"
    x = relay.var("x", shape=(1, 2, *[4] * rank))
    y = getattr(relay.nn, op[3:])(x, const(3, 2, *[3] * rank), padding=(1,) * rank)
    made = run(T.ConvertLayout({op: [last, "default"]}), x, between(y))
    images = [m for m in moves(made) if "N" in m[0]]
    assert images == [(said, last), (last, said)]


def test_layouts_are_checked() -> None:
    x = image()
    mod = smelt.IRModule.from_expr(relay.Function([x], conv(x)))
    with pytest.raises(TypeMismatch, match=r"no layout of 'nn.conv2' can be chosen; nearest: nn"):
        T.ConvertLayout({"nn.conv2": ["NHWC", "default"]})
    with pytest.raises(TypeMismatch, match="'NDHWC' has other dimensions"):
        T.ConvertLayout({"nn.conv2d": ["NDHWC", "default"]})(mod)
