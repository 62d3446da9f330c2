"""Networks that decide while they run: branches, loops, sizes that the run finds.

Beside each builder stands a function that gives inputs for it, of which no two take the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.models import detector
from tests.models.net import Array, Dim, Feeds, Net, floats, merged
from tests.models.transformers import attend, heads

FLOAT = int(TensorProto.FLOAT)


class Body(Net):
    """A graph inside another: the outer net keeps the weights, `name` stands before all names."""

    def __init__(self, outer: Net, name: str) -> None:
        self.random, self.weights, self.name = outer.random, outer.weights, name
        self.nodes, self.inputs = [], []

    def input(self, name: str, shape: Sequence[Dim], dtype: Any = np.float32) -> str:
        return super().input(f"{self.name}_{name}", shape, dtype)

    def ops(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        made = [f"{self.name}_{o}" for o in super().ops(kind, count, *inputs, **attributes)]
        node = self.nodes[-1]
        node.name, node.output[:] = f"{self.name}_{node.name}", made
        return made

    def graph(self, *results: str) -> onnx.GraphProto:
        outputs = [helper.make_empty_tensor_value_info(r) for r in results]
        return helper.make_graph(self.nodes, self.name, self.inputs, outputs)


def turn(net: Net, name: str) -> tuple[Body, str]:
    """The body of a Loop, and the number of the turn in it."""
    body = Body(net, name)
    number = body.input("i", [], np.int64)
    body.input("go", [], np.bool_)
    return body, number


def number(name: str, value: float, dtype: Any = np.float32) -> Feeds:
    return {name: np.asarray(value, dtype)}


# ---- branches -------------------------------------------------------------------------------


def branch(image: int = 96, width: int = 24, classes: int = 10) -> onnx.ModelProto:
    """A classifier with other filters for bright images than for dark ones.

    Gives the probabilities, and whether the image is bright.
    """
    net, wide = Net(60), 2 * width
    x = net.input("image", [1, 3, image, image])
    bright = net.op("Greater", net.op("ReduceMean", x, keepdims=0), net.const(0.0))
    x = net.op("Relu", net.conv_norm(x, (3, width), 3, 2))
    yes = Body(net, "bright")
    y = yes.op("Relu", yes.conv_norm(x, (width, wide), 3, 2))
    y = yes.op("Add", y, yes.conv_norm(y, (wide, wide), 3))
    no = Body(net, "dark")
    z = no.op("Relu", no.conv_norm(x, (width, width), 5, 2, groups=width))
    z = no.silu(no.conv_norm(z, (width, wide), 1))
    graphs = {"then_branch": yes.graph(y), "else_branch": no.graph(z)}
    x = net.op("If", bright, **graphs)
    x = net.op("Relu", net.conv_norm(x, (wide, 2 * wide), 3, 2))
    y = net.op("Softmax", net.head(x, 2 * wide, classes), axis=-1)
    return net.model(y, bright)


def branch_inputs() -> list[Feeds]:
    """Two bright images, and two dark ones."""
    light = (0.3, -0.3, -0.5, 0.2)
    images = [floats("image", 1, 3, 96, 96, seed=n)["image"] for n in range(len(light))]
    return [{"image": x + np.float32(k)} for x, k in zip(images, light, strict=True)]


def tiny_if(count: int = 1) -> onnx.ModelProto:
    """One If after another; each adds a number to a number."""
    net = Net(61)
    x = net.input("x", [])
    down, up, zero = net.const(-1.5), net.const(2.0), net.const(0.0)
    for n in range(count):
        yes, no = Body(net, f"yes{n}"), Body(net, f"no{n}")
        graphs = {
            "then_branch": yes.graph(yes.op("Add", x, down)),
            "else_branch": no.graph(no.op("Add", x, up)),
        }
        x = net.op("If", net.op("Greater", x, zero), **graphs)
    return net.model(x)


def tiny_if_inputs() -> list[Feeds]:
    return [number("x", value) for value in (1.0, -1.0)]


# ---- loops ----------------------------------------------------------------------------------


def loop(size: int = 192, width: int = 16) -> onnx.ModelProto:
    """Power iteration until no element moves further than `tolerance`, but `most` turns.

    Gives the vectors, how much the matrix stretches each, and how far each turn moved them.
    """
    net = Net(62)
    most, tolerance = net.input("most", [], np.int64), net.input("tolerance", [])
    start = net.input("x", [size, width])
    turned, _ = np.linalg.qr(net.random.standard_normal((size, size)))
    matrix = net.const(turned * 0.85 ** np.arange(size) @ turned.T)
    body, _ = turn(net, "turn")
    x = body.input("x", [size, width])
    body.input("length", [1, width])
    y = body.op("MatMul", matrix, x)
    length = body.op("ReduceL2", y, body.ints(0), keepdims=1)
    y = body.op("Div", y, length)
    moved = body.op("ReduceMax", body.op("Abs", body.op("Sub", y, x)), keepdims=0)
    more = body.op("Greater", moved, tolerance)
    ones = net.const(np.ones((1, width)))
    graph = body.graph(more, y, length, moved)
    return net.model(*net.ops("Loop", 3, most, "", start, ones, body=graph))


def loop_inputs() -> list[Feeds]:
    """The last one stops because of the number of turns."""
    ways = ((100, 1e-2), (100, 3e-2), (100, 2e-3), (6, 1e-3))
    return [
        merged(number("most", m, np.int64), number("tolerance", t), floats("x", 192, 16, seed=n))
        for n, (m, t) in enumerate(ways)
    ]


def tiny_loop() -> onnx.ModelProto:
    """Adds one until there are as many as `bound`, but `most` times."""
    net = Net(63)
    most, bound = net.input("most", [], np.int64), net.input("bound", [])
    one, zero = net.const(1.0), net.const(0.0)
    body, _ = turn(net, "turn")
    x = body.op("Add", body.input("x", []), one)
    graph = body.graph(body.op("Less", x, bound), x)
    return net.model(net.op("Loop", most, "", zero, body=graph))


def turns(most: int, bound: float = 1e9) -> Feeds:
    """Inputs of `tiny_loop`."""
    return merged(number("most", most, np.int64), number("bound", bound))


def tiny_loop_inputs() -> list[Feeds]:
    return [turns(1000, 37), turns(100), turns(3), turns(500, 250)]


def scan(features: int = 64, width: int = 128) -> onnx.ModelProto:
    """A recurrent cell of the kind of a GRU over [time, batch, features], both sizes symbolic.

    Gives the last state, and a result for every step.
    """
    net = Net(64)
    x = net.input("x", ["t", "n", features])
    start = net.input("h", ["n", width])
    body = Body(net, "step")
    h, now = body.input("h", ["n", width]), body.input("x", ["n", features])
    new = body.ops("Split", 3, body.dense(now, (features, 3 * width)), axis=-1, num_outputs=3)
    old = body.ops("Split", 3, body.dense(h, (width, 3 * width)), axis=-1, num_outputs=3)
    update, reset = (
        body.op("Sigmoid", body.op("Add", a, b)) for a, b in zip(new[:2], old[:2], strict=True)
    )
    made = body.op("Tanh", body.op("Add", new[2], body.op("Mul", reset, old[2])))
    kept = body.op("Mul", update, body.op("Sub", h, made))
    h = body.op("Add", made, kept)
    graph = body.graph(h, body.op("Identity", h))
    last, every = net.ops("Scan", 2, start, x, body=graph, num_scan_inputs=1)
    return net.model(last, net.dense(every, (width, features)))


def scan_inputs() -> list[Feeds]:
    sizes = ((12, 4), (31, 1), (5, 3), (24, 4))
    return [merged(floats("x", t, n, 64, seed=t), floats("h", n, 128, seed=n)) for t, n in sizes]


# ---- words, one after another ---------------------------------------------------------------

END, BEGIN, LONGEST = 0, 1, 48


def _next_words(
    net: Net, body: Net, x: str, i: str, width: int, vocabulary: int
) -> tuple[str, str]:
    """The likeliest word [1, 1], and whether it is not the last: the later, the likelier it is."""
    end = np.zeros(vocabulary)
    end[END] = 0.1
    scores = body.op("MatMul", body.layer_norm(x, width), body.he((width, vocabulary), width, 1))
    late = body.op("Mul", body.op("Cast", i, to=FLOAT), net.const(end))
    word = body.op("ArgMax", body.op("Add", scores, late), axis=-1, keepdims=0)
    ends = body.op("Equal", word, net.const(END, np.int64))
    return word, body.op("Not", body.op("Squeeze", ends, body.ints(0, 1)))


def decoder(width: int = 128, count: int = 4, vocabulary: int = 1000) -> onnx.ModelProto:
    """A layer of a decoder that takes its own words, until one is the last.

    Keys and values of earlier words are kept: each turn adds one to them. Gives the words, and
    the keys.
    """
    net, depth = Net(65), width // count
    most = net.input("most", [], np.int64)
    memory = net.input("memory", [1, "source", width])
    far = [heads(net, net.dense(memory, (width, width)), count, depth) for _ in range(2)]
    body, i = turn(net, "word")
    word = body.input("before", [1, 1], np.int64)
    near = [body.input(name, [1, count, "past", depth]) for name in ("keys", "values")]

    def attention(x: str, q: str, keys: str, values: str) -> str:
        y = attend(body, q, keys, values, None, width, float(np.sqrt(depth)))
        return body.op("Add", x, body.dense(y, (width, width)))

    x = body.op("Gather", net.normal((vocabulary, width)), word, axis=0)
    x = body.op("Add", x, body.op("Gather", net.normal((LONGEST, width)), i, axis=0))
    y = body.layer_norm(x, width)
    q, *new = (heads(body, body.dense(y, (width, width)), count, depth) for _ in range(3))
    keys, values = (body.op("Concat", a, b, axis=2) for a, b in zip(near, new, strict=True))
    x = attention(x, q, keys, values)
    q = heads(body, body.dense(body.layer_norm(x, width), (width, width)), count, depth)
    x = attention(x, q, far[0], far[1])
    y = body.op("Relu", body.dense(body.layer_norm(x, width), (width, 4 * width), 2.0))
    x = body.op("Add", x, body.dense(y, (4 * width, width)))
    word, more = _next_words(net, body, x, i, width, vocabulary)
    graph = body.graph(more, word, keys, values, body.op("Identity", word))
    none = net.const(np.zeros((1, count, 0, depth)))
    begin = net.const([[BEGIN]], np.int64)
    _, keys, _, words = net.ops("Loop", 4, most, "", begin, none, none, body=graph)
    return net.model(net.reshape(words, 1, -1), keys)


def decoder_inputs() -> list[Feeds]:
    """The last one may not end by itself."""
    ways = ((20, LONGEST), (9, LONGEST), (33, LONGEST), (14, 5))
    return [
        merged(floats("memory", 1, t, 128, seed=t), number("most", most, np.int64))
        for t, most in ways
    ]


# ---- boxes ----------------------------------------------------------------------------------


def _boxes(random: np.random.Generator, places: int) -> Array:
    """Corners [places, 4] of boxes on a picture of 640 pixels, many around a few objects."""
    middle = random.uniform(80, 560, (12, 2))[random.integers(0, 12, places)]
    middle = middle + random.normal(0, 12, (places, 2))
    half = random.uniform(15, 60, (places, 2))
    return np.concatenate([middle - half, middle + half], axis=1).astype(np.float32)


def _centred(net: Net, boxes: str) -> str:
    """Corners [k, 4] as centre and size, in parts of the picture."""
    low, high = net.cut(boxes, 0, 2, 1), net.cut(boxes, 2, 4, 1)
    middle = net.op("Mul", net.op("Add", low, high), net.const(0.5))
    both = net.op("Concat", middle, net.op("Sub", high, low), axis=1)
    return net.op("Div", both, net.const(640.0))


def nms_tail(places: int = 400, classes: int = 8) -> onnx.ModelProto:
    """Suppression: (image, class, place) of what is kept, and [class, score, centre, size]."""
    net = Net(66)
    boxes = net.input("boxes", [1, places, 4])
    scores = net.input("scores", [1, classes, places])
    limits = [net.ints(100), net.const([0.5]), net.const([0.6])]
    kept = net.op("NonMaxSuppression", boxes, scores, *limits)
    which, place = (net.op("Gather", kept, net.const(n, np.int64), axis=1) for n in (1, 2))
    rows = net.op("Gather", net.op("Squeeze", boxes, net.ints(0)), place, axis=0)
    score = net.op("Unsqueeze", net.op("GatherND", scores, kept), net.ints(1))
    label = net.op("Unsqueeze", net.op("Cast", which, to=FLOAT), net.ints(1))
    return net.model(kept, net.op("Concat", label, score, _centred(net, rows), axis=1))


def nms_tail_inputs() -> list[Feeds]:
    """The larger the exponent, the fewer are above the limit."""
    found = []
    for n, exponent in enumerate((4, 16, 1, 64)):
        random = np.random.default_rng(n)
        scores = random.random((1, 8, 400), np.float32) ** exponent
        found.append({"boxes": _boxes(random, 400)[None], "scores": scores})
    return found


def post_processing(classes: int = 20, most: int = 50) -> onnx.ModelProto:
    """The best of any number of places, without suppression.

    Gives [class, score, centre, size] of those above the limit, at most `most`, best first; and
    of those whose score is above the mean of these.
    """
    net = Net(67)
    boxes = net.input("boxes", ["places", 4])
    scores = net.input("scores", ["places", classes])
    least = net.input("least", [])
    best = net.op("ReduceMax", scores, net.ints(1), keepdims=0)
    label = net.op("ArgMax", scores, axis=1, keepdims=0)
    good = net.op("Greater", best, least)
    place = net.op("Squeeze", net.op("NonZero", good), net.ints(0))
    k = net.op("Min", net.op("Shape", place), net.ints(most))
    score, order = net.ops("TopK", 2, net.op("Compress", best, good, axis=0), k, axis=0)
    place = net.op("Gather", place, order, axis=0)
    rows = _centred(net, net.op("Gather", boxes, place, axis=0))
    flat = net.op("Less", rows, net.const(0.1))  # of the size, that of a small box
    rows = net.op("Where", flat, net.op("Mul", rows, net.const(1.1)), rows)
    label = net.op("Cast", net.op("Gather", label, place, axis=0), to=FLOAT)
    columns = [net.op("Unsqueeze", x, net.ints(1)) for x in (label, score)]
    rows = net.op("Concat", *columns, rows, axis=1)
    strong = net.op("Greater", score, net.op("ReduceMean", score, keepdims=1))
    end = net.op("ReduceSum", net.op("Cast", strong, to=int(TensorProto.INT64)), keepdims=1)
    return net.model(rows, net.op("Slice", rows, net.ints(0), end, net.ints(0)))


def post_processing_inputs() -> list[Feeds]:
    ways = ((2000, 0.99), (500, 0.998), (3000, 0.9995), (1000, 0.999))
    found = []
    for n, (places, least) in enumerate(ways):
        random = np.random.default_rng(n)
        scores = random.random((places, 20), np.float32)
        feeds = {"boxes": _boxes(random, places), "scores": scores}
        found.append(merged(feeds, number("least", least)))
    return found


def whole_detector() -> onnx.ModelProto:
    """A backbone with heads at three scales, and the suppression of its boxes."""
    return detector.yolo(1, image=128, width=8, suppresses=True)


def whole_detector_inputs() -> list[Feeds]:
    """Images of more and of less contrast; about 55 boxes are kept."""
    images = [floats("images", 1, 3, 128, 128, seed=n)["images"] for n in range(4)]
    contrast = (1.0, 0.3, 2.0, 0.6)
    return [{"images": x * np.float32(k)} for x, k in zip(images, contrast, strict=True)]


CONTROL: dict[str, tuple[Callable[[], onnx.ModelProto], Callable[[], list[Feeds]]]] = {
    "branch": (branch, branch_inputs),
    "loop": (loop, loop_inputs),
    "scan": (scan, scan_inputs),
    "nms_tail": (nms_tail, nms_tail_inputs),
    "post_processing": (post_processing, post_processing_inputs),
    "decoder": (decoder, decoder_inputs),
    "detector": (whole_detector, whole_detector_inputs),
    "tiny_loop": (tiny_loop, tiny_loop_inputs),
    "tiny_if": (tiny_if, tiny_if_inputs),
}
"""How each is built, and its inputs."""
