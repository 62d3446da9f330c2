"""Detection, random numbers, integers of few bits, sizes that are operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt import relay

from .support import Array, Case, floats, ints

IMAGE = floats(1, 2, 4, 6)


def boxes() -> list[Case]:
    """Object detection."""
    rows = np.array([[[0, 0.9, 0, 0, 2, 2], [0, 0.8, 0, 0, 2, 2.1], [1, 0.7, 0, 0, 2, 2],
                      [-1, 0.6, 5, 5, 6, 6]]], "float32")  # fmt: skip
    valid = np.array([3], "int32")
    places = np.array([[0, 1, 2, 3]], "int32")
    kept = np.full((1, 4, 6), -1, "float32")
    kept[0, :2] = rows[0, [0, 2]]
    two = np.array([[[0, 0, 1, 1], [0, 0, 1, 1.05], [3, 3, 4, 4]]], "float32")
    scores = np.array([[[0.9, 0.8, 0.3]]], "float32")
    first = np.array([[0, 0, 0], [0, 0, 2]], "int64")

    def first_result(name: str, *given: Any, take: int, count: int, **named: Any) -> Any:
        """The first rows of a result that has room for more."""

        def build(*xs: Any) -> Any:
            made = getattr(relay.vision, name)(*xs, *given, **named)[take]
            return relay.strided_slice(made, [0], [count])

        return build

    return [
        Case("vision.get_valid_counts", lambda x: relay.vision.get_valid_counts(x, 0.65)[0], [rows],
             np.array([3], "int32")),
        Case("vision.non_max_suppression",
             lambda x, v, i: relay.vision.non_max_suppression(
                 x, v, i, -1, 0.5, return_indices=False, invalid_to_bottom=True),
             [rows, valid, places], lambda *_: kept),
        Case("vision.non_max_suppression",
             lambda x, v, i: relay.vision.non_max_suppression(x, v, i, relay.const(1))[1],
             [rows, valid, places], lambda *_: np.array([[1]], "int32")),
        Case("vision.all_class_non_max_suppression",
             first_result("all_class_non_max_suppression", 2, 0.5, 0.0, take=0, count=2),
             [two, scores], lambda *_: first),
        Case("vision.regular_non_max_suppression",
             lambda b, s: relay.vision.regular_non_max_suppression(b, s, 2, 2, 1, 0.5, 0.1)[2],
             [two, scores.transpose(0, 2, 1)], lambda *_: np.array([[0.9, 0.3]], "float32")),
        *regions(),
    ]  # fmt: skip


def regions() -> list[Case]:
    """Regions and anchors."""
    data = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
    roi = np.array([[0, 0, 0, 3, 3]], "float32")
    prior = relay.vision.multibox_prior
    corners = [(a, b, a + 1, b + 1) for b in (-0.25, 0.25) for a in (-0.25, 0.25)]
    anchors = np.array([corners], "float32")
    probs = np.array([[[0.1, 0.9], [0.9, 0.1]]], "float32")
    anchor = np.array([[[0, 0, 1, 1], [0.2, 0.2, 0.4, 0.4]]], "float32")
    moved = np.full((1, 2, 6), -1, "float32")
    moved[0, 0] = [0, 0.9, 0, 0, 1, 1]
    nothing = np.zeros((1, 4, 2, 2), "float32")
    fore = np.array([[[[0, 0], [0, 0]], [[0.1, 0.9], [0.2, 0.3]]]], "float32")
    return [
        Case("vision.roi_pool", lambda x, r: relay.vision.roi_pool(x, r, (2, 2), 1.0), [data, roi],
             lambda *_: np.array([[[[5, 7], [13, 15]]]], "float32")),
        Case("vision.roi_align", lambda x, r: relay.vision.roi_align(x, r, 1, 1.0, 1), [data, roi],
             lambda *_: np.array([[[[7.5]]]], "float32")),
        Case("vision.multibox_prior", lambda x: prior(x, sizes=(1.0,)),
             [np.zeros((1, 3, 2, 2), "float32")], lambda _: anchors),
        Case("vision.multibox_transform_loc",
             lambda *xs: relay.vision.multibox_transform_loc(*xs, threshold=0.5)[0],
             [probs, np.zeros((1, 8), "float32"), anchor], lambda *_: moved),
        Case("vision.proposal", lambda *xs: relay.strided_slice(relay.vision.proposal(
            *xs, [1.0], [1.0], 16, 0.7, 10, 4, 1, False), [0, 0], [4, 1]),
             [fore, nothing, np.array([[32, 32, 1]], "float32")],
             lambda *_: np.zeros((4, 1), "float32")),
        Case("vision.yolo_reorg", lambda x: relay.vision.yolo_reorg(x, 2), [floats(1, 8, 4, 6)],
             reorganised),
    ]  # fmt: skip


def reorganised(x: Array) -> Array:
    """yolo_reorg by 2, element by element from its definition."""
    n, c, h, w = x.shape
    out = np.zeros((n, c * 4, h // 2, w // 2), "float32").reshape(-1)
    k = c // 4
    wide = x.reshape(n, k, h * 2, w * 2)
    for i in range(out.size):
        b, rest = divmod(i, c * h * w)
        ch, rest = divmod(rest, h * w)
        y, z = divmod(rest, w)
        out[i] = wide[b, ch % k, y * 2 + ch // k // 2, z * 2 + ch // k % 2]
    return out.reshape(n, c * 4, h // 2, w // 2)


def drawn() -> list[Case]:
    """Random numbers: what does not depend on the generator."""
    key = relay.random.threefry_key(5)

    def inside(low: float, high: float, build: Any) -> Any:
        """Whether all numbers lie between two others."""

        def made() -> Any:
            _, x = build()
            good = relay.logical_and(relay.greater_equal(x, relay.const(low)),
                                     relay.less_equal(x, relay.const(high)))  # fmt: skip
            return relay.all(good)

        return made

    yes = np.array(True)
    return [
        Case("random.uniform", inside(2.0, 3.0, lambda: relay.random.uniform(
            key, (50,), "float32", 2.0, 3.0)), [], yes),
        Case("random.normal", inside(-8.0, 8.0, lambda: relay.random.normal(key, (50,))), [], yes),
        Case("random.multinomial", lambda: relay.random.multinomial(
            key, relay.const(np.array([0, 1, 0], "float32")), 4)[1], [], np.full(4, 1, "int32")),
        Case("random.threefry_split", lambda: relay.any(relay.not_equal(
            *relay.random.threefry_split(key))), [], yes),
        Case("random.threefry_generate", lambda: relay.any(relay.not_equal(
            relay.random.threefry_generate(key, (10,))[0], key)), [], yes),
    ]  # fmt: skip


def bits() -> list[Case]:
    """Integers of few bits."""
    a, w = ints(3, 32, low=0, high=4), ints(5, 32, low=0, high=2, seed=1)
    word = (a & 1).astype("uint64") @ (1 << np.arange(31, -1, -1, dtype="uint64"))
    x, k = ints(1, 2, 4, 4, low=0, high=4), ints(3, 2, 3, 3, low=0, high=2)
    signed = (k * 2 - 1).astype("float64")
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    both = floats(1, 2, 3, 3)
    return [
        Case("nn.bitpack", lambda v: relay.nn.bitpack(v, 1, 1, 2, "uint32"), [a],
             word.astype("uint32").reshape(3, 1, 1)),
        Case("nn.bitserial_dense", lambda a, b: relay.nn.bitserial_dense(a, b, data_bits=2),
             [a, w], (a @ (2 * w - 1).T).astype("int16")),
        Case("nn.bitserial_conv2d", lambda a, b: relay.nn.bitserial_conv2d(a, b, activation_bits=2),
             [x, k], np.einsum("ncyxhw,ochw->noyx", windows, signed).astype("int16")),
        Case("nn.correlation", lambda a, b: relay.nn.correlation(a, b, 1, 0, 1, 1, 0), [both, both],
             lambda a, b: (a * b).mean(1, keepdims=True)),
    ]  # fmt: skip


def sized() -> list[Case]:
    """Sizes that are operands: of a known shape, or constants that are computed late."""
    like = floats(3, 8)

    def late(*values: float, dtype: str = "int32") -> Any:
        """A vector that only the compiler finds to be a constant."""
        one = relay.const(np.ones(len(values)).astype(dtype))
        return relay.multiply(relay.const(np.array(values, dtype)), one)

    def number(value: float, dtype: str = "int32") -> Any:
        """A scalar of that kind."""
        return relay.squeeze(late(value, dtype=dtype), [0])

    x = floats(4, 6)
    image, volume = floats(1, 1, 2, 3), floats(1, 1, 2, 2, 2)
    return [
        Case("dyn.reshape", lambda v, w: relay.reshape(v, relay.shape_of(w)), [x, like],
             lambda a, b: a.reshape(3, 8)),
        Case("dyn.reshape", lambda v: relay.nn.relu(relay.reshape(v, late(2, -1))), [x],
             lambda a: np.maximum(a, 0).reshape(2, 12)),
        Case("dyn.broadcast_to", lambda v: relay.broadcast_to(v, late(2, 4, 6)), [x],
             np.broadcast_to(x, (2, 4, 6))),
        Case("dyn.expand_dims", lambda v: relay.expand_dims(v, number(1)), [x], x[:, None]),
        Case("dyn.squeeze", lambda v: relay.squeeze(v, late(0)), [x[:1]], x[0]),
        Case("dyn.tile", lambda v: relay.tile(v, late(2, 1)), [x], np.tile(x, (2, 1))),
        Case("dyn.full", lambda: relay.full(2.0, late(2, 3)), [], np.full((2, 3), 2, "float32")),
        Case("dyn.zeros", lambda: relay.zeros(late(2), "int8"), [], np.zeros(2, "int8")),
        Case("dyn.ones", lambda: relay.ones(late(2), "int8"), [], np.ones(2, "int8")),
        Case("dyn.one_hot", lambda v: relay.one_hot(v, 1.0, 0.0, number(3), -1, "float32"),
             [np.array([0, 2], "int32")], np.eye(3, dtype="float32")[[0, 2]]),
        Case("dyn.topk", lambda v: relay.topk(v, number(2), ret_type="values"), [x],
             np.sort(x)[:, ::-1][:, :2]),
        Case("dyn.topk", lambda v: relay.topk(v, number(2))[0], [x], np.sort(x)[:, ::-1][:, :2]),
        Case("dyn.strided_slice", lambda v: relay.strided_slice(v, late(1, 0), late(3, -1)), [x],
             x[1:3, :-1]),
        Case("dyn.sparse_to_dense",
             lambda v: relay.sparse_to_dense(relay.const([1, 3]), late(5), v, 0.0), [x[0, :2]],
             lambda v: np.array([0, v[0], 0, v[1], 0], "float32")),
        Case("dyn.nn.pad", lambda v: relay.nn.pad(v, relay.reshape(late(0, 1, 2, 0), (2, 2)), 3.0),
             [x], np.pad(x, ((0, 1), (2, 0)), constant_values=3)),
        Case("dyn.nn.upsampling",
             lambda v: relay.nn.upsampling(v, number(2, "float32"), number(1, "float32")), [image],
             image.repeat(2, 2)),
        Case("dyn.nn.upsampling3d", lambda v: relay.nn.upsampling3d(
            v, number(2, "float32"), 1.0, 1.0, coordinate_transformation_mode="asymmetric"),
             [volume], volume.repeat(2, 2)),
        Case("dyn.image.resize2d", lambda v: relay.image.resize2d(
            v, late(4, 3), method="nearest_neighbor",
            coordinate_transformation_mode="asymmetric"), [image], image.repeat(2, 2)),
        Case("arange", lambda: relay.arange(number(0), number(5), number(2), "int32"), [],
             np.arange(0, 5, 2, dtype="int32")),
    ]  # fmt: skip


CASES = [*boxes(), *drawn(), *bits(), *sized()]
