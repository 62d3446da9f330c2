"""How fast Relay's passes are: types of BERT-base, the graph pipeline of ResNet-50.

Seconds of processor time, medians of nine. `--levels` also times ResNet-18 as built at each
opt_level. Run as `python -m benchmarks.relay_passes`.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import smelt
from smelt import relay as relay_face
from smelt.ir.options import Options
from smelt.pipeline import optimize
from smelt.transform import PassContext, Sequential

relay: Any = relay_face
T = relay_face.transform

REPEAT = 9


def weight(*shape: int) -> Any:
    """A weight; the values do not matter."""
    return relay.const(np.full(shape, 0.01, "float32"))


def seconds(run: Callable[[], Any], repeat: int = REPEAT) -> float:
    """The median processor time of a call."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def line(name: str, value: float, unit: str = "s", target: float | None = None) -> None:
    """One row of the report."""
    wanted = "" if target is None else f"   target {target:g} {unit}"
    print(f"  {name:52s} {value:9.3f} {unit}{wanted}")


# ----------------------------------------------------------------------------------- BERT-base


def norm(x: Any) -> Any:
    """Layer normalisation written out, as exporters do."""
    apart = x - relay.mean(x, axis=-1, keepdims=True)
    var = relay.mean(apart * apart, axis=-1, keepdims=True)
    return apart / relay.sqrt(var + 1e-12) * weight(768) + weight(768)


def linear(x: Any, out: int) -> Any:
    """A dense layer of rows [128, k] with its bias."""
    k = int(x.type.shape[-1].value)
    rows = relay.reshape(x, newshape=(-1, k))
    y = relay.nn.bias_add(relay.nn.dense(rows, weight(out, k)), weight(out), axis=-1)
    return relay.reshape(y, newshape=(1, 128, out))


def heads(x: Any) -> Any:
    """[1, 128, 768] as [12, 128, 64]."""
    split = relay.reshape(x, newshape=(1, 128, 12, 64))
    return relay.reshape(relay.transpose(split, axes=(0, 2, 1, 3)), newshape=(12, 128, 64))


def gelu(x: Any) -> Any:
    """The exact form."""
    return x * 0.5 * (relay.erf(x / 1.4142135) + 1.0)


def encoder(x: Any, mask: Any) -> Any:
    """One layer."""
    q, k, v = (heads(linear(x, 768)) for _ in range(3))
    scores = relay.nn.batch_matmul(q, k) / 8.0 + mask
    mixed = relay.nn.batch_matmul(relay.nn.softmax(scores), v, transpose_b=False)
    joined = relay.transpose(relay.reshape(mixed, newshape=(1, 12, 128, 64)), axes=(0, 2, 1, 3))
    x = norm(linear(relay.reshape(joined, newshape=(1, 128, 768)), 768) + x)
    return norm(linear(gelu(linear(x, 3072)), 768) + x)


def bert() -> Any:
    """BERT-base on 128 tokens, behind the embedding."""
    x, mask = relay.var("x", shape=(1, 128, 768)), relay.var("mask", shape=(1, 1, 128))
    y: Any = norm(x)
    for _ in range(12):
        y = encoder(y, mask)
    return smelt.IRModule.from_expr(relay.Function([x, mask], y))


# ------------------------------------------------------------------------------------- ResNets


def unit(x: Any, channels: int, kernel: int, stride: int = 1, *, act: bool = True) -> Any:
    """Convolution, batch normalisation, relu."""
    given = int(x.type.shape[1].value)
    w = weight(channels, given, kernel, kernel)
    y = relay.nn.conv2d(x, w, strides=stride, padding=kernel // 2, channels=channels,
                        kernel_size=kernel)  # fmt: skip
    stats = [relay.const(np.full(channels, v, "float32")) for v in (1.0, 0.0, 0.1, 0.9)]
    y = relay.nn.batch_norm(y, *stats)[0]
    return relay.nn.relu(y) if act else y


def block(x: Any, channels: int, stride: int, bottleneck: bool) -> Any:
    """Two or three convolutions around a shortcut."""
    wide = channels * 4 if bottleneck else channels
    same = stride == 1 and int(x.type.shape[1].value) == wide
    short = x if same else unit(x, wide, 1, stride, act=False)
    if bottleneck:
        y = unit(unit(x, channels, 1), channels, 3, stride)
        y = unit(y, wide, 1, act=False)
    else:
        y = unit(unit(x, channels, 3, stride), channels, 3, act=False)
    return relay.nn.relu(y + short)


def resnet(layers: tuple[int, ...], bottleneck: bool) -> Any:
    """ResNet on one image of 224 x 224."""
    x = relay.var("x", shape=(1, 3, 224, 224))
    y = unit(x, 64, 7, 2)
    y = relay.nn.max_pool2d(y, pool_size=3, strides=2, padding=1)
    for stage, count in enumerate(layers):
        for i in range(count):
            y = block(y, 64 << stage, 2 if stage and i == 0 else 1, bottleneck)
    y = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(y))
    y = relay.nn.bias_add(relay.nn.dense(y, weight(1000, int(y.type.shape[1].value))), weight(1000))
    return smelt.IRModule.from_expr(relay.Function([x], y))


def classic() -> Sequential:
    """The passes that the classic stack runs before fusion, on Relay's own operators."""
    return Sequential([
        T.RemoveUnusedFunctions(), T.ToBasicBlockNormalForm(), T.Legalize(), T.SimplifyInference(),
        T.EliminateCommonSubexpr(), T.CombineParallelConv2D(3), T.CombineParallelDense(3),
        T.CombineParallelBatchMatmul(3), T.FoldConstant(), T.FoldScaleAxis(), T.SimplifyExpr(),
        T.CanonicalizeCast(), T.CanonicalizeOps(), T.FlattenAtrousConv(), T.InferType(),
        T.AlterOpLayout(), T.FoldConstant(), T.SplitArgs(64), T.FuseOps(), T.InferType(),
        T.Inline(), T.InferType(),
    ])  # fmt: skip


def levels() -> None:
    """ResNet-18 as built at each level, milliseconds."""
    mod = resnet((2, 2, 2, 2), bottleneck=False)
    data = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype("float32")
    for level in range(4):
        with PassContext(opt_level=level):
            exe = relay.build(mod).lib
        exe(data)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            exe(data)
            times.append(time.perf_counter() - start)
        line(f"ResNet-18 at opt_level {level}", statistics.median(times) * 1e3, "ms")


def main() -> None:
    """Print the figures."""
    mod = bert()
    nodes = sum(1 for _ in smelt.relax.nodes.values(mod["main"]))
    calls = sum(relay.analysis.list_op_freqs(mod).values())
    print(f"BERT-base: {calls} calls, {nodes} values")
    line("InferType", seconds(lambda: T.InferType()(mod)), target=0.5)
    for name in ("ToANormalForm", "SimplifyExpr", "EliminateCommonSubexpr", "AlterOpLayout"):
        line(name, seconds(lambda n=name: getattr(T, n)()(mod)))  # type: ignore[misc]
    deep = resnet((3, 4, 6, 3), bottleneck=True)
    print(f"ResNet-50: {sum(relay.analysis.list_op_freqs(deep).values())} calls")
    whole = seconds(lambda: optimize(deep, Options(opt_level=3)), 5)
    line("graph pipeline of relay.build at opt_level 3", whole, target=1.5)
    with PassContext(opt_level=3):
        line("the classic order of passes, at opt_level 3", seconds(lambda: classic()(deep), 3))
    if "--levels" in sys.argv:
        levels()


if __name__ == "__main__":
    main()
