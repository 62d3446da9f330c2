"""The single operators that `benchmarks.kernels` measures, as ONNX models of one node."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

Shapes = dict[str, tuple[int, ...]]

FLOAT = 4  # bytes
RANDOM, GROUPED = 200, 60
"""How many random shapes of each kind."""


@dataclass(frozen=True)
class MatMul:
    """[m, k] times [k, n]; B is a weight or a second input."""

    m: int
    n: int
    k: int
    constant: bool = True

    @property
    def flops(self) -> int:
        """Float operations; a multiply-add counts two."""
        return 2 * self.m * self.n * self.k

    @property
    def inputs(self) -> Shapes:
        """The shape of each input."""
        second: Shapes = {} if self.constant else {"b": (self.k, self.n)}
        return {"a": (self.m, self.k), **second}

    @property
    def weight_bytes(self) -> int:
        """Bytes of the constant."""
        return FLOAT * self.n * self.k if self.constant else 0

    @property
    def bytes(self) -> int:
        """Bytes of operands and result."""
        return FLOAT * (self.m * self.k + self.n * self.k + self.m * self.n)

    @property
    def label(self) -> str:
        """For the table."""
        return f"{self.m} x {self.n} x {self.k}"

    def model(self) -> ModelProto:
        """One node."""
        weights = {"b": normal(self.k, self.n)} if self.constant else {}
        return one_node("MatMul", self.inputs, weights, (self.m, self.n))


@dataclass(frozen=True)
class Conv:
    """A square image of one batch, a square filter, padded by half of it.

    i, o  channels of the image and of the result
    """

    i: int
    o: int
    size: int
    side: int
    stride: int = 1
    groups: int = 1

    @property
    def out(self) -> int:
        """The side of the result."""
        return (self.size + 2 * (self.side // 2) - self.side) // self.stride + 1

    @property
    def flops(self) -> int:
        """Float operations of the taps inside the image."""
        pad = self.side // 2
        taps = sum(
            0 <= y * self.stride - pad + t < self.size
            for y in range(self.out)
            for t in range(self.side)
        )
        return 2 * taps * taps * self.i * self.o // self.groups

    @property
    def inputs(self) -> Shapes:
        """The shape of the image."""
        return {"a": (1, self.i, self.size, self.size)}

    @property
    def weight_bytes(self) -> int:
        """Bytes of the filters."""
        return FLOAT * self.o * self.i // self.groups * self.side**2

    @property
    def bytes(self) -> int:
        """Bytes of image, filters and result."""
        images = self.i * self.size**2 + self.o * self.out**2
        return self.weight_bytes + FLOAT * images

    @property
    def label(self) -> str:
        """For the table."""
        stride = f" / {self.stride}" if self.stride > 1 else ""
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        return f"{self.side}x{self.side}{stride}, {self.size}², {self.i} → {self.o}{groups}"

    def model(self) -> ModelProto:
        """One node."""
        filters = normal(self.o, self.i // self.groups, self.side, self.side)
        return one_node(
            "Conv",
            self.inputs,
            {"b": filters},
            (1, self.o, self.out, self.out),
            strides=[self.stride] * 2,
            pads=[self.side // 2] * 4,
            group=self.groups,
        )


Case = MatMul | Conv


def normal(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Values of a fixed seed, scaled by the second dimension."""
    values = np.random.default_rng(0).standard_normal(shape, np.float32)
    return values / np.float32(math.sqrt(shape[1]))


def one_node(
    op: str,
    inputs: Shapes,
    weights: dict[str, np.ndarray[Any, np.dtype[np.float32]]],
    result: tuple[int, ...],
    **attributes: Any,
) -> ModelProto:
    """A model of one operator on `a` and `b`."""
    graph = helper.make_graph(
        [helper.make_node(op, ["a", "b"], ["c"], name="case", **attributes)],
        "case",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, result)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def squares() -> list[Case]:
    """Square products, and those of a transformer."""
    found = [(n, n, n) for n in (256, 512, 1024, 2048)]
    found += [(128, 3072, 768), (128, 768, 3072), (128, 768, 768), (16, 3072, 768)]
    return [MatMul(*shape) for shape in found]


def given() -> list[Case]:
    """The same, with both operands given at run time."""
    return [MatMul(c.m, c.n, c.k, constant=False) for c in squares() if isinstance(c, MatMul)]


def few_rows() -> list[Case]:
    """One to sixteen rows times weights of transformers: how words are written one by one."""
    weights = ((768, 768), (3072, 768), (768, 3072), (4096, 1024))
    return [MatMul(m, *weight) for weight in weights for m in range(1, 17)]


def resnet() -> list[Case]:
    """The convolutions of ResNet."""
    stages = [(64, 56), (128, 28), (256, 14), (512, 7)]
    found = [Conv(c, c, size, 3) for c, size in stages]
    found += [Conv(c, 2 * c, size, 3, 2) for c, size in stages[:-1]]
    found += [Conv(64, 256, 56, 1), Conv(512, 128, 28, 1), Conv(1024, 256, 14, 1)]
    return [*found, Conv(512, 2048, 7, 1), Conv(64, 128, 56, 1, 2), Conv(3, 64, 224, 7, 2)]


def between(source: random.Random, low: int, high: int) -> int:
    """A random size, small ones as likely as large ones."""
    return round(math.exp(source.uniform(math.log(low), math.log(high))))


def random_cases(seed: int = 1, count: int = RANDOM) -> list[Case]:
    """Shapes between 4 and 1000 million operations, odd ones too: half MatMul, half Conv."""
    source = random.Random(seed)
    found: list[Case] = []
    while len(found) < count:
        case: Case
        if len(found) % 2:
            side, stride = source.choice((1, 3, 3, 5, 7)), source.choice((1, 1, 2))
            i, o, size = (between(source, *span) for span in ((3, 512), (8, 512), (7, 112)))
            case = Conv(i, o, size, side, stride)
        else:
            m, n, k = (between(source, *span) for span in ((1, 1500), (8, 3000), (8, 3000)))
            case = MatMul(m, n, k, source.random() < 0.5)
        if 4e6 <= case.flops <= 1e9:
            found.append(case)
    return found


def grouped_cases(seed: int = 1, count: int = GROUPED) -> list[Case]:
    """1x1 and 3x3 in turns, 4 to 64 channels a group, between 2 and 500 million operations.

    Every second pair has groups as wide in the result as in the image. Widths may be odd.
    """
    source = random.Random(seed)
    found: list[Case] = []
    while len(found) < count:
        n = len(found)
        groups, i, size = (between(source, *span) for span in ((2, 32), (4, 64), (7, 56)))
        o = i if n // 2 % 2 else between(source, 4, 64)
        side, stride = (1, 3)[n % 2], source.choice((1, 1, 2))
        case = Conv(groups * i, groups * o, size, side, stride, groups)
        if 2e6 <= case.flops <= 5e8:
            found.append(case)
    return found


GROUPS: dict[str, tuple[str, Callable[[], list[Case]]]] = {
    "matmul": ("MatMul, constant B", squares),
    "matmul2": ("MatMul, both operands given at run time", given),
    "rows": ("MatMul, 1 to 16 rows, constant B", few_rows),
    "conv": ("Convolutions of ResNet", resnet),
    "random": (f"{RANDOM} random shapes", random_cases),
    "grouped": (f"{GROUPED} random convolutions in groups", grouped_cases),
}
"""What a group is called, and its cases."""


def cases(group: str) -> list[Case]:
    """The shapes of one part of the table."""
    return GROUPS[group][1]()


def smallest(found: Sequence[Case], count: int = 1) -> list[Case]:
    """Those with the fewest operations."""
    return sorted(found, key=lambda case: case.flops)[:count]
