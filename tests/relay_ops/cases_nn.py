"""Products, windows, normalisation, losses, images, blocks of pixels: against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from smelt import relay

from .support import Array, Case, floats, ints

torch = pytest.importorskip("torch")
F = torch.nn.functional


def t(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of torch tensors as one of arrays."""

    def run(*arrays: Array) -> Any:
        found = fn(*[torch.from_numpy(np.ascontiguousarray(a)) for a in arrays])
        return tuple(x.numpy() for x in found) if isinstance(found, tuple) else found.numpy()

    return run


IMAGE = floats(2, 4, 7, 6)
SIGNAL, VOLUME = floats(2, 4, 9), floats(1, 2, 4, 5, 5)
NHWC = IMAGE.transpose(0, 2, 3, 1)


def products() -> list[Case]:
    """Matrices."""
    a, w = floats(3, 5), floats(4, 5)
    x, y = floats(2, 3, 5), floats(2, 4, 5)
    i8, j8 = ints(3, 5, low=-100, high=100, dtype="int8"), ints(4, 5, low=-9, dtype="int8")
    packed = w.reshape(2, 2, 5).transpose(0, 2, 1)
    return [
        Case("nn.dense", lambda a, b: relay.nn.dense(a, b, units=4), [a, w], a @ w.T),
        Case("nn.dense", lambda a, b: relay.nn.dense(a, b, out_dtype="int32"), [i8, j8],
             i8.astype("int32") @ j8.T.astype("int32")),
        Case("nn.matmul", lambda a, b: relay.nn.matmul(a, b, transpose_b=True), [a, w], a @ w.T),
        Case("nn.batch_matmul", relay.nn.batch_matmul, [x, y], x @ y.transpose(0, 2, 1)),
        Case("nn.batch_matmul", lambda a, b: relay.nn.batch_matmul(a, b, "", False, False),
             [x, y[:1].transpose(0, 2, 1)], x @ y[:1].transpose(0, 2, 1)),
        Case("nn.contrib_dense_pack", lambda a, b: relay.nn.contrib_dense_pack(a, b, "NC2n"),
             [a, packed], a @ w.T),
        Case("nn.bias_add", relay.nn.bias_add, [IMAGE, IMAGE[0, :, 0, 0]],
             lambda x, b: x + b[:, None, None]),
        Case("nn.bias_add", lambda x, b: relay.nn.bias_add(x, b, -1), [a, a[0]], a + a[0]),
        Case("nn.softmax", lambda v: relay.nn.softmax(v, 1), [x], t(lambda v: v.softmax(1))),
        Case("nn.fast_softmax", relay.nn.fast_softmax, [x], t(lambda v: v.softmax(-1)), 1e-5),
        Case("nn.log_softmax", lambda v: relay.nn.log_softmax(v, axis=-1), [x],
             t(lambda v: v.log_softmax(-1))),
        Case("nn.dropout", lambda v: relay.nn.dropout(v, 0.3), [x], x),
    ]  # fmt: skip


def convolutions() -> list[Case]:
    """conv1d to conv3d, and what is made of them."""
    w1, w2, w3 = floats(6, 4, 3), floats(6, 4, 3, 2), floats(3, 2, 2, 3, 3)
    dw = floats(4, 1, 3, 3)
    grad = floats(2, 6, 7, 7)
    packed = IMAGE.reshape(2, 2, 2, 7, 6).transpose(0, 1, 3, 4, 2)
    wp = w2.reshape(3, 2, 2, 2, 3, 2).transpose(0, 2, 4, 5, 3, 1)
    yp = t(lambda x, w: F.conv2d(x, w))(IMAGE, w2)
    full2 = {"strides": (2, 1), "padding": (1, 0, 1, 2), "dilation": (1, 2)}
    wide = np.pad(IMAGE, ((0, 0), (0, 0), (1, 1), (0, 2)))
    i8 = ints(1, 4, 5, 5, low=-100, high=100, dtype="int8")
    iw = ints(2, 4, 3, 3, low=-100, high=100, dtype="int8")
    return [
        Case("nn.conv1d", lambda x, w: relay.nn.conv1d(x, w, 2, 1), [SIGNAL, w1],
             t(lambda x, w: F.conv1d(x, w, None, 2, 1))),
        Case("nn.conv2d", lambda x, w: relay.nn.conv2d(x, w, **full2, channels=6,
                                                        kernel_size=(3, 2)), [IMAGE, w2],
             lambda x, w: t(lambda a, b: F.conv2d(a, b, None, (2, 1), 0, (1, 2)))(wide, w)),
        Case("nn.conv2d", lambda x, w: relay.nn.conv2d(x, w, data_layout="NHWC",
                                                        kernel_layout="HWIO", padding=1),
             [NHWC, w2.transpose(2, 3, 1, 0)],
             lambda x, w: t(lambda a, b: F.conv2d(a, b, None, 1, 1))(IMAGE, w2)
             .transpose(0, 2, 3, 1)),
        Case("nn.conv2d", lambda x, w: relay.nn.conv2d(x, w, groups=4, channels=4), [IMAGE, dw],
             t(lambda x, w: F.conv2d(x, w, groups=4))),
        Case("nn.conv2d", lambda x, w: relay.nn.conv2d(x, w, out_dtype="int32"), [i8, iw],
             lambda x, w: t(F.conv2d)(x.astype("float64"), w.astype("float64")).astype("int32")),
        Case("nn.conv2d", lambda x, w: relay.nn.conv2d(x, w, out_layout="NHWC"), [IMAGE, w2],
             yp.transpose(0, 2, 3, 1)),
        Case("nn.contrib_conv2d_NCHWc",
             lambda x, w: relay.nn.contrib_conv2d_NCHWc(
                 x, w, data_layout="NCHW2c", kernel_layout="OIHW2i2o"), [packed, wp],
             yp.reshape(2, 3, 2, 5, 5).transpose(0, 1, 3, 4, 2)),
        Case("nn.contrib_depthwise_conv2d_NCHWc",
             lambda x, w: relay.nn.contrib_depthwise_conv2d_NCHWc(
                 x, w, groups=4, data_layout="NCHW2c", kernel_layout="OIHW1i2o"),
             [packed, dw.reshape(2, 2, 1, 3, 3).transpose(0, 2, 3, 4, 1)[:, :, :, :, None]],
             t(lambda x, w: F.conv2d(x, w, groups=4))(IMAGE, dw).reshape(2, 2, 2, 5, 4)
             .transpose(0, 1, 3, 4, 2)),
        Case("nn.conv3d", relay.nn.conv3d, [VOLUME, w3], t(F.conv3d), 1e-5),
        Case("nn.conv2d_backward_weight",
             lambda g, x: relay.nn.conv2d_backward_weight(g, x, padding=1, kernel_size=(3, 2)),
             [grad, IMAGE], lambda g, x: torch.nn.grad.conv2d_weight(
                 torch.from_numpy(x), (6, 4, 3, 2), torch.from_numpy(g), padding=1).numpy(), 1e-5),
        Case("nn.deformable_conv2d",
             lambda x, o, w: relay.nn.deformable_conv2d(x, o, w), [IMAGE, np.zeros((2, 12, 5, 5),
                                                                                  "float32"), w2],
             lambda x, _, w: t(F.conv2d)(x, w)),
    ]  # fmt: skip


def transposed() -> list[Case]:
    """Transposed convolutions."""
    u1, u2, u3 = floats(4, 3, 3), floats(4, 3, 3, 2), floats(2, 3, 2, 3, 3)
    return [
        Case("nn.conv1d_transpose",
             lambda x, w: relay.nn.conv1d_transpose(x, w, strides=2, output_padding=1),
             [SIGNAL, u1],
             t(lambda x, w: F.conv_transpose1d(x, w, stride=2, output_padding=1))),
        Case("nn.conv2d_transpose",
             lambda x, w: relay.nn.conv2d_transpose(x, w, (2, 2), (1, 0), channels=3),
             [IMAGE, u2], t(lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=(1, 0)))),
        Case("nn.conv2d_transpose",
             lambda x, w: relay.nn.conv2d_transpose(x, w, data_layout="NHWC", kernel_layout="HWOI"),
             [NHWC, u2.transpose(2, 3, 1, 0)],
             lambda *_: t(F.conv_transpose2d)(IMAGE, u2).transpose(0, 2, 3, 1)),
        Case("nn.conv2d_transpose", lambda x, w: relay.nn.conv2d_transpose(x, w, groups=2),
             [IMAGE, u2], t(lambda x, w: F.conv_transpose2d(x, w, groups=2))),
        Case("nn.conv3d_transpose", lambda x, w: relay.nn.conv3d_transpose(x, w, 2), [VOLUME, u3],
             t(lambda x, w: F.conv_transpose3d(x, w, stride=2))),
    ]  # fmt: skip


def pooling() -> list[Case]:
    """Windows."""
    out = []
    for kind in ("max", "avg"):
        for rank, x in ((1, SIGNAL), (2, IMAGE), (3, VOLUME)):
            theirs = getattr(F, f"{kind}_pool{rank}d")
            ours = getattr(relay.nn, f"{kind}_pool{rank}d")
            adaptive = getattr(relay.nn, f"adaptive_{kind}_pool{rank}d")
            even = getattr(F, f"adaptive_{kind}_pool{rank}d")
            out += [
                Case(f"nn.{kind}_pool{rank}d", lambda v, o=ours: o(v, 2, 2), [x],
                     t(lambda v, f=theirs: f(v, 2, 2))),
                Case(f"nn.{kind}_pool{rank}d", lambda v, o=ours: o(v, 3, 2, ceil_mode=True), [x],
                     t(lambda v, f=theirs: f(v, 3, 2, ceil_mode=True))),
                Case(f"nn.adaptive_{kind}_pool{rank}d", lambda v, o=adaptive: o(v, 3), [x],
                     t(lambda v, f=even: f(v, 3))),
                Case(f"nn.adaptive_{kind}_pool{rank}d", lambda v, o=adaptive: o(v, 1), [x],
                     t(lambda v, f=even: f(v, 1))),
                Case(f"nn.adaptive_{kind}_pool{rank}d", adaptive, [x], x),
            ]  # fmt: skip

    def derived(fn: Callable[..., Any]) -> Callable[..., Array]:
        def run(g: Array, x: Array) -> Array:
            v = torch.from_numpy(x).requires_grad_()
            fn(v).backward(torch.from_numpy(g))
            found: Array = v.grad.numpy()
            return found

        return run

    g = floats(2, 4, 3, 3)
    return [
        *out,
        Case("nn.avg_pool2d",
             lambda v: relay.nn.avg_pool2d(v, (3, 3), padding=1, count_include_pad=True), [IMAGE],
             t(lambda v: F.avg_pool2d(v, 3, 1, 1))),
        Case("nn.avg_pool2d", lambda v: relay.nn.avg_pool2d(v, 2, layout="NHWC"), [NHWC],
             t(lambda v: F.avg_pool2d(v, 2, 1))(IMAGE).transpose(0, 2, 3, 1)),
        Case("nn.global_max_pool2d", relay.nn.global_max_pool2d, [IMAGE],
             lambda v: v.max((2, 3), keepdims=True)),
        Case("nn.global_avg_pool2d", lambda v: relay.nn.global_avg_pool2d(v, "NHWC"), [NHWC],
             lambda v: v.mean((1, 2), keepdims=True)),
        Case("nn.adaptive_avg_pool1d", relay.nn.global_avg_pool1d, [SIGNAL],
             lambda v: v.mean(2, keepdims=True)),
        Case("nn.max_pool2d_grad", lambda a, b: relay.nn.max_pool2d_grad(a, b, (2, 2), (2, 2)),
             [g, IMAGE], derived(lambda v: F.max_pool2d(v, 2, 2))),
        Case("nn.avg_pool2d_grad", lambda a, b: relay.nn.avg_pool2d_grad(a, b, (2, 2), (2, 2)),
             [g, IMAGE], derived(lambda v: F.avg_pool2d(v, 2, 2))),
    ]  # fmt: skip


def norms() -> list[Case]:
    """Normalisation."""
    g, b, m = floats(4, low=0.5), floats(4, seed=2), floats(4, seed=3)
    v = floats(4, low=0.5, high=2, seed=4)
    last = [g, b]
    return [
        Case("nn.batch_norm", relay.nn.batch_norm, [IMAGE, g, b, m, v],
             lambda x, g, b, m, v: (t(lambda x, g, b, m, v: F.batch_norm(x, m, v, g, b))(
                 x, g, b, m, v), m, v)),
        Case("nn.batch_norm", lambda *xs: relay.nn.batch_norm(*xs, axis=3, center=False)[0],
             [NHWC, g, b, m, v], lambda x, g, b, m, v: (x - m) / np.sqrt(v + 1e-5) * g),
        Case("nn.layer_norm", relay.nn.layer_norm, [NHWC, *last],
             t(lambda x, g, b: F.layer_norm(x, (4,), g, b)), 1e-5),
        Case("nn.layer_norm", lambda x, g, b: relay.nn.layer_norm(x, g, b, axis=1, scale=False),
             [IMAGE, *last], lambda x, g, b: t(lambda v, b: F.layer_norm(v, (4,), None, b))(
                 NHWC, b).transpose(0, 3, 1, 2), 1e-5),
        Case("nn.instance_norm", relay.nn.instance_norm, [IMAGE, *last],
             t(lambda x, g, b: F.instance_norm(x, None, None, g, b)), 1e-5),
        Case("nn.instance_norm", lambda x, g, b: relay.nn.instance_norm(x, g, b, axis=3),
             [NHWC, *last], lambda x, g, b: t(lambda v, g, b: F.instance_norm(v, None, None, g, b))(
                 IMAGE, g, b).transpose(0, 2, 3, 1), 1e-5),
        Case("nn.group_norm", lambda x, g, b: relay.nn.group_norm(x, g, b, 2), [IMAGE, *last],
             t(lambda x, g, b: F.group_norm(x, 2, g, b)), 1e-5),
        Case("nn.lrn", lambda x: relay.nn.lrn(x, size=3, alpha=0.1), [IMAGE],
             t(lambda x: F.local_response_norm(x, 3, 0.1, 0.75, 2.0)), 1e-5),
        Case("nn.l2_normalize", lambda x: relay.nn.l2_normalize(x, 1e-6, axis=[1]), [IMAGE],
             t(lambda x: F.normalize(x, dim=1)), 1e-5),
    ]  # fmt: skip


def losses() -> list[Case]:
    """Losses."""
    p = floats(3, 5, low=0.1, high=1)
    y = np.eye(5, dtype="float32")[[1, 0, 4]]
    labels = np.array([1, 4, 2])
    w = floats(5, low=0.5)
    pixels, many = floats(2, 5, 3), ints(2, 3, low=0, high=5, dtype="int64")

    def nll(how: str) -> Case:
        return Case(
            "nn.nll_loss", lambda a, b, c: relay.nn.nll_loss(a, b, c, how, 4), [p, labels, w],
            t(lambda a, b, c: F.nll_loss(a, b, c, reduction=how, ignore_index=4)),
        )  # fmt: skip

    return [
        Case("nn.cross_entropy", relay.nn.cross_entropy, [p, y],
             lambda p, y: np.asarray(-(y * np.log(p)).sum() / 3, "float32")),
        Case("nn.cross_entropy_with_logits", relay.nn.cross_entropy_with_logits, [p, y],
             lambda p, y: np.asarray(-(y * p).sum() / 3, "float32")),
        nll("mean"), nll("sum"), nll("none"),
        Case("nn.nll_loss", relay.nn.nll_loss, [pixels, many, w], t(F.nll_loss)),
    ]  # fmt: skip


def borders() -> list[Case]:
    """Borders and blocks."""
    x = floats(1, 8, 2, 3)
    wide = np.pad(IMAGE, ((0, 0), (0, 0), (1, 2), (0, 1)), constant_values=3)
    pairs = ((0, 0), (0, 0), (1, 2), (0, 1))
    blocks = floats(1, 4, 6, 2)
    found = blocks.reshape(1, 2, 2, 3, 2, 2).transpose(2, 4, 0, 1, 3, 5).reshape(4, 2, 3, 2)
    spaced = np.full((3, 7), 9, "float32")
    spaced[::2, ::3] = floats(2, 3)
    return [
        Case("nn.pad", lambda v: relay.nn.pad(v, pairs, 3), [IMAGE], wide),
        Case("nn.pad", lambda v, c: relay.nn.pad(v, pairs, c), [IMAGE, np.array(3, "float32")],
             lambda *_: wide),
        Case("nn.pad", lambda v: relay.nn.pad(v, pairs, pad_mode="edge"), [IMAGE],
             np.pad(IMAGE, pairs, "edge")),
        Case("nn.pad", lambda v: relay.nn.pad(v, pairs, pad_mode="reflect"), [IMAGE],
             np.pad(IMAGE, pairs, "reflect")),
        Case("nn.mirror_pad", lambda v: relay.nn.mirror_pad(v, pairs), [IMAGE],
             np.pad(IMAGE, pairs, "symmetric")),
        Case("nn.dilate", lambda v: relay.nn.dilate(v, (2, 3), 9.0), [floats(2, 3)],
             lambda _: spaced),
        Case("nn.depth_to_space", lambda v: relay.nn.depth_to_space(v, 2, mode="CRD"), [x],
             t(lambda v: F.pixel_shuffle(v, 2))),
        Case("nn.space_to_depth", lambda v: relay.nn.space_to_depth(v, 2),
             [IMAGE[:, :, :6]], lambda v: v.reshape(2, 4, 3, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4)
             .reshape(2, 16, 3, 3)),
        Case("nn.space_to_batch_nd",
             lambda v: relay.nn.space_to_batch_nd(v, [2, 2], [[0, 0], [0, 0]]), [blocks], found),
        Case("nn.batch_to_space_nd",
             lambda v: relay.nn.batch_to_space_nd(v, [2, 2], [[1, 0], [0, 1]]), [found],
             blocks[:, 1:, :-1]),
    ]  # fmt: skip


def images() -> list[Case]:
    """Other sizes, other places."""

    def size(mode: str, theirs: str, how: str, **named: Any) -> Case:
        align = how == "align_corners" or None
        return Case("image.resize2d", lambda v: relay.image.resize2d(
            v, (14, 9), method=mode, coordinate_transformation_mode=how, **named), [IMAGE],
            t(lambda v: F.interpolate(v, (14, 9), mode=theirs, **(
                {} if theirs == "nearest" else {"align_corners": bool(align)}))), 1e-5)  # fmt: skip

    theta = floats(2, 2, 3)
    grid = floats(2, 2, 5, 4, low=-1, high=1)

    def at(mode: str, pad: str, align: bool) -> Case:
        return Case("image.grid_sample",
                    lambda x, g: relay.image.grid_sample(x, g, mode, "NCHW", pad, align),
                    [IMAGE, grid], t(lambda x, g: F.grid_sample(
                        x, g.permute(0, 2, 3, 1), mode, pad, align)), 1e-5)  # fmt: skip

    return [
        size("linear", "bilinear", "half_pixel"), size("linear", "bilinear", "align_corners"),
        size("nearest_neighbor", "nearest", "asymmetric"),
        size("cubic", "bicubic", "half_pixel", cubic_alpha=-0.75),
        Case("image.resize1d", lambda v: relay.image.resize1d(v, 5), [SIGNAL],
             t(lambda v: F.interpolate(v, 5, mode="linear")), 1e-5),
        Case("image.resize3d", lambda v: relay.image.resize3d(v, (2, 6, 5)), [VOLUME],
             t(lambda v: F.interpolate(v, (2, 6, 5), mode="trilinear")), 1e-5),
        Case("nn.upsampling", lambda v: relay.nn.upsampling(v, 2, 3), [IMAGE],
             lambda v: v.repeat(2, 2).repeat(3, 3)),
        Case("nn.upsampling",
             lambda v: relay.nn.upsampling(v, 2, 2, "NHWC", "bilinear", align_corners=True), [NHWC],
             lambda v: t(lambda x: F.interpolate(x, (14, 12), mode="bilinear", align_corners=True))(
                 IMAGE).transpose(0, 2, 3, 1), 1e-5),
        Case("nn.upsampling3d", lambda v: relay.nn.upsampling3d(v, 2, 1, 2, method="trilinear"),
             [VOLUME], t(lambda v: F.interpolate(v, (8, 5, 10), mode="trilinear")), 1e-5),
        Case("image.affine_grid", lambda v: relay.image.affine_grid(v, (3, 4)), [theta],
             t(lambda v: F.affine_grid(v, [2, 1, 3, 4], align_corners=True).permute(0, 3, 1, 2)),
             1e-5),
        at("bilinear", "zeros", True), at("nearest", "border", False),
        at("bicubic", "reflection", True),
        Case("image.crop_and_resize", lambda x, b, i: relay.image.crop_and_resize(x, b, i, (3, 2)),
             [IMAGE, np.array([[0, 0, 1, 1], [1 / 6, 0.2, 0.5, 0.4]], "float32"),
              np.array([1, 0], "int32")],
             lambda x, *_: np.stack([x[1][:, [0, 3, 6]][..., [0, 5]],
                                     x[0][:, [1, 2, 3]][..., [1, 2]]]), 1e-5),
        Case("image.dilation2d", lambda x, w: relay.image.dilation2d(x, w, padding=[1, 1]),
             [IMAGE, np.zeros((4, 3, 3), "float32")],
             lambda x, _: t(lambda v: F.max_pool2d(v, 3, 1, 1))(x)),
    ]  # fmt: skip


CASES = [
    *products(), *convolutions(), *transposed(), *pooling(), *norms(), *losses(), *borders(),
    *images(),
]  # fmt: skip
