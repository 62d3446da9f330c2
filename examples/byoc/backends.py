"""Two back ends of one's own, in one file: nothing of smelt is built again for them.

"cdense" writes C for fully connected layers. "pyconv" hands convolutions to Python: the compiled
model holds a JSON text, and the runtime half below computes what it says. A real one would call a
library or a driver there.
"""

import json

import numpy as np

from smelt import byoc, relay
from smelt.relay.dataflow_pattern import is_op, wildcard
from smelt.relay.op.contrib import register_pattern_table

# ------------------------------------------------------------------------------- pattern tables


@register_pattern_table("cdense")
def dense_table():
    """Fully connected layers with a bias, with and without relu; the first that fits is taken."""
    product = is_op("nn.dense")(wildcard(), wildcard())
    biased = is_op("nn.bias_add")(product, wildcard()) | is_op("add")(product, wildcard())
    return [("cdense.dense_bias_relu", is_op("nn.relu")(biased)), ("cdense.dense_bias", biased)]


def plain(conv_relu):
    """Only convolutions without groups; `conv_relu` is the value that the match computes."""
    attrs = conv_relu.args[0].attrs
    return attrs.groups == 1 and attrs.data_layout == "NCHW"


@register_pattern_table("pyconv")
def conv_table():
    """Convolutions with relu."""
    conv = is_op("nn.conv2d")(wildcard(), wildcard())
    return [("pyconv.conv2d_relu", is_op("nn.relu")(conv), plain)]


# ------------------------------------------------------------------------------- C for "cdense"

LAYER = """
    /* {name} */
    for (int i = 0; i < {rows}; i++)
        for (int o = 0; o < {units}; o++) {{
            float sum = {bias}[o];
            for (int k = 0; k < {inner}; k++)
                sum += {x}[i * {inner} + k] * {weight}[o * {inner} + k];
            {out}[i * {units} + o] = {value};
        }}"""


def composites(func):
    """The calls of composite functions in an external function, in order."""
    found = []

    def visit(node):
        if isinstance(node, relay.Call) and isinstance(node.op, relay.Function):
            found.append(node)

    relay.analysis.post_order_visit(func.body, visit)
    return found


@byoc.register_codegen("cdense")
def dense_in_c(func, symbol, module):
    """One loop nest a layer; what flows between layers stands in local arrays."""
    names = {p: f"in{i}" for i, p in enumerate(func.params)}
    constants, lines, loops = {}, [], []

    def name_of(value):
        if value not in names:  # a constant: it becomes an operand of the C function
            names[value] = f"const{len(constants)}"
            constants[names[value]] = value.data.numpy()
        return names[value]

    for n, layer in enumerate(composites(func)):
        x, weight, bias = layer.args
        rows, inner = x.type.fixed_shape()
        units = weight.type.fixed_shape()[0]
        names[layer] = "out0" if layer is func.body else f"t{n}"
        if layer is not func.body:
            lines.append(f"    float t{n}[{rows * units}];")
        kind = layer.op.attrs["Composite"]
        value = "sum > 0 ? sum : 0" if kind.endswith("relu") else "sum"
        loops.append(
            LAYER.format(
                name=kind, rows=rows, inner=inner, units=units, x=name_of(x),
                weight=name_of(weight), bias=name_of(bias), out=names[layer], value=value,
            )
        )  # fmt: skip
    head = byoc.signature(func, symbol, constants)
    text = "\n".join(["#include <stdint.h>", head + " {", *lines, *loops, "    return 0;", "}", ""])
    return byoc.CSource(text, flags=("-O2",), constants=constants)


# ------------------------------------------------------------------- JSON and Python for "pyconv"


@byoc.register_codegen("pyconv")
def convs_as_json(func, symbol, module):
    """The layers as a list: which value each reads, its weight, strides and padding."""
    numbers = {p: i for i, p in enumerate(func.params)}
    layers, weights = [], {}
    for call in composites(func):
        conv = call.op.body.args[0]
        x, weight = call.args
        weights[f"w{len(layers)}"] = weight.data.numpy()
        layers.append(
            {
                "x": numbers[x],
                "strides": list(conv.attrs.strides),
                "padding": list(conv.attrs.padding),
            }
        )
        numbers[call] = len(func.params) + len(layers) - 1
    return byoc.Json(json.dumps({"inputs": len(func.params), "layers": layers}), weights)


@byoc.register_runtime("pyconv")
def load_convs(text, weights):
    """The runtime half: what it returns is called at every run of the model."""
    program = json.loads(text)

    def run(*arrays):
        values = list(arrays[: program["inputs"]])
        for n, layer in enumerate(program["layers"]):
            x = values[layer["x"]]
            made = conv2d(x, weights[f"w{n}"], layer["strides"], layer["padding"])
            values.append(np.maximum(made, 0))
        arrays[-1][...] = values[-1]

    return run


def conv2d(x, w, strides, padding):
    """A convolution as a product of matrices."""
    top, left, bottom, right = padding
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1]]
    return np.einsum("nchwij,ocij->nohw", windows, w, optimize=True)
