"""A model whose layers three compilers share: smelt, and the two back ends of backends.py."""

import backends  # noqa: F401  (registers the back ends)
import numpy as np

import smelt
from smelt import relay
from smelt.contrib import graph_executor
from smelt.relax.interpret import interpret
from smelt.relay import transform
from smelt.relay.op.contrib import get_pattern_table

rng = np.random.default_rng(0)


def weight(*shape):
    """Random values of a useful size."""
    return relay.const((rng.standard_normal(shape) / np.sqrt(shape[-1])).astype("float32"))


# A small network: two convolutions, pooling, two fully connected layers.
x = relay.var("x", shape=(1, 3, 16, 16))
y = relay.nn.relu(relay.nn.conv2d(x, weight(8, 3, 3, 3), padding=1))
y = relay.nn.relu(relay.nn.conv2d(y, weight(8, 8, 3, 3), padding=1, strides=2))
y = relay.nn.batch_flatten(relay.nn.max_pool2d(y, pool_size=2, strides=2))
y = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(y, weight(32, 128)), weight(32), axis=-1))
y = relay.nn.bias_add(relay.nn.dense(y, weight(10, 32)), weight(10), axis=-1)
mod = smelt.IRModule.from_expr(relay.Function([x], relay.nn.softmax(y)))

# Partition: what the tables match goes to the back ends, neighbours together.
shared = mod
for name in ("pyconv", "cdense"):
    shared = transform.MergeComposite(get_pattern_table(name))(shared)
shared = transform.AnnotateTarget(["pyconv", "cdense"])(shared)
shared = transform.MergeCompilerRegions()(shared)
shared = transform.PartitionGraph()(shared)
print(shared.astext(show_meta_data=False))

# Build, run, compare.
lib = relay.build(shared, target="llvm -mcpu=native")
module = graph_executor.GraphModule(lib["default"](smelt.cpu(0)))
image = rng.standard_normal((1, 3, 16, 16)).astype("float32")
module.run(x=image)
result = module.get_output(0).numpy()
(expected,) = interpret(mod["main"], image)
print("kernels:", ", ".join(k["name"] for k in lib.lib.metadata["kernels"]))
print(f"largest difference: {np.abs(result - expected).max():.1e}")
assert np.abs(result - expected).max() < 1e-5

# The exported library holds the C code and the JSON; "pyconv" has to be registered where it runs.
lib.export_library("shared.so")
loaded = smelt.runtime.load_module("shared.so")
assert np.array_equal(loaded(image).numpy(), result)
print("exported and loaded: shared.so")
