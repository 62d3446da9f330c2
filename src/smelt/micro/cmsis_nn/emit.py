"""C that calls CMSIS-NN: one function for each part of a model.

The library is Arm's, and the model is compiled against the one that the user has: versions 4 to 7,
and on cores with Helium (MVE) 6 or 7, where sums of fully connected weights stand in the context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from smelt.byoc import CSource, register_codegen
from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.relax.nodes import Call, Function, RelaxExpr, Var

from .match import (
    TO_CHANNELS,
    Array,
    Pairs,
    Part,
    Pool,
    Product,
    Softmax,
    part_of,
    shape_of,
    softmax_radius,
)

COMPILER = "cmsis-nn"
MCPU = "mcpu"
"""The attribute of a part that names the processor."""

FOLDER = Path(__file__).parent / "c"
"""Headers with the names of the library that parts use, and portable code for them."""

HERE = (f"-I{FOLDER}", "-DSMELT_CMSIS_NN_INLINE", "-Wno-unused-function")
"""What compiles a part by itself on this machine, with the portable code inside."""

_BLOCK = 124
"""Channels that the library's depthwise convolution for Helium takes at once."""

HELIUM, DSP, PLAIN = "mve", "dsp", "plain"

CORES: Mapping[str, str] = {
    **dict.fromkeys(("cortex-m52", "cortex-m55", "cortex-m85"), HELIUM),
    **dict.fromkeys(("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m35p"), DSP),
    **dict.fromkeys(("cortex-m0", "cortex-m0plus", "cortex-m1", "cortex-m3", "cortex-m23"), PLAIN),
}
"""What instructions the library uses on a processor."""


@register_codegen(COMPILER)
def codegen(func: Function, symbol: str, module: IRModule) -> CSource:
    """The C of a part. Raises CompileError for a function that is not one call of the library."""
    body = func.body
    part = part_of(body)
    if part is None and isinstance(body, Call) and body.callee == "transpose":
        body = body.args[0] or body
        part = part_of(body)
    if part is None:
        raise CompileError(f"{symbol} is no operator that CMSIS-NN computes in one call; "
                           "partition_for_cmsisnn finds those")  # fmt: skip
    order = [func.params.index(_parameter(x)) for x in part.inputs]
    cpu = str(func.attrs.get(MCPU, ""))
    cores = (CORES[cpu],) if cpu else (HELIUM, DSP, PLAIN)
    return _Writer(symbol, part, order, body, cores).source()


def _parameter(x: RelaxExpr) -> Var:
    """The parameter that an operand is, or is a view of."""
    while isinstance(x, Call) and x.args[0] is not None:
        x = x.args[0]
    assert isinstance(x, Var)
    return x


class _Writer:
    """Writes one part."""

    def __init__(
        self, symbol: str, part: Part, order: Sequence[int], result: RelaxExpr,
        cores: Sequence[str],
    ) -> None:  # fmt: skip
        self.symbol, self.part, self.cores = symbol, part, cores
        self.inputs = [f"in{n}" for n in order]
        self.shapes = [_known(shape_of(x)) for x in part.inputs]
        self.result = _known(shape_of(result))
        if isinstance(part, Product) and part.turned:
            self.result = tuple([self.result[n] for n in TO_CHANNELS])
        self.constants: dict[str, Array] = {}
        self.lines: list[str] = []
        self.workspace = 0

    def source(self) -> CSource:
        """All of it."""
        match self.part:
            case Product() as p if p.window is not None:
                self.convolution(p)
            case Product() as p:
                self.fully_connected(p)
            case Pool() as p:
                self.pool(p)
            case Pairs() as p:
                self.pairs(p)
            case Softmax() as p:
                self.softmax(p)
        given = [f"const int8_t *in{n}" for n in range(len(set(self.inputs)))]
        given += [f"const {_C[a.dtype.str]} *{n}" for n, a in self.constants.items()]
        given += ["int8_t *out", *(["void *workspace"] if self.workspace else [])]
        body = "".join([f"    {line}\n" for line in self.lines])
        text = (
            f'#include "arm_nnfunctions.h"\n\nint {self.symbol}({", ".join(given)}) {{\n{body}}}\n'
        )
        return CSource(text, HERE, self.constants, self.workspace)

    # ---- pieces -----------------------------------------------------------------------------

    def struct(self, kind: str, name: str, *fields: object) -> None:
        """A structure of the library."""
        self.lines.append(f"const cmsis_nn_{kind} {name} = {_braced(fields)};")

    def dims(self, name: str, n: int, h: int, w: int, c: int) -> None:
        """The extents of a tensor."""
        self.struct("dims", name, n, h, w, c)

    def context(self, pointer: str, size: int) -> None:
        """What a call works in."""
        self.struct("context", "context", pointer, size)

    def scratch(self, sizes: Mapping[str, int]) -> None:
        """Bytes that a call works in: the most that the processor's code may use."""
        self.workspace = max([sizes.get(c, 0) for c in self.cores])
        self.context("workspace" if self.workspace else "0", self.workspace)

    def returns(self, function: str, *given: object) -> None:
        """The call."""
        self.lines.append(f"return (int){function}({', '.join(map(str, given))});")

    @property
    def held(self) -> tuple[int, int]:
        """The range of the result."""
        return self.part.low, self.part.high

    # ---- operators --------------------------------------------------------------------------

    def convolution(self, p: Product) -> None:
        """arm_convolve_wrapper_s8, arm_depthwise_conv_wrapper_s8."""
        assert p.window is not None
        w, (n, channels, *image), (_, outputs, *size) = p.window, self.shapes[0], self.result
        (kh, kw), depthwise = w.kernel, p.groups > 1
        order = (1, 2, 3, 0) if depthwise else (0, 2, 3, 1)
        self.constants = {
            "weights": np.ascontiguousarray(p.weights.transpose(order)),
            "bias": p.bias,
            **_factors(p.factors),
        }
        covered, few = kh * kw * channels, outputs == channels and n == 1
        if depthwise:
            plain = few and tuple(w.dilations) == (1, 1)
            direct = w.kernel == (3, 3) and max(w.pads[:2]) <= 1
            self.scratch({HELIUM: 4 * _BLOCK * kh * kw, DSP: 0 if direct else 2 * covered}
                         if plain else {})  # fmt: skip
        else:
            self.scratch({HELIUM: 4 * _up(covered, 16), DSP: 4 * _up(covered, 4),
                          PLAIN: 4 * _up(covered, 4)})  # fmt: skip
        sides = [(pair[1], pair[0]) for pair in (w.strides, w.pads[:2], w.dilations)]
        each = [outputs // channels] if depthwise else []
        kind = "dw_conv_params" if depthwise else "conv_params"
        self.struct(kind, "params", *p.offsets, *each, *sides, self.held)
        self.struct("per_channel_quant_params", "scales", "(int32_t *)multipliers",
                    "(int32_t *)shifts")  # fmt: skip
        self.dims("input", n, image[0], image[1], channels)
        first = 1 if depthwise else outputs
        self.dims("filter", first, kh, kw, outputs if depthwise else channels)
        self.dims("biases", 1, 1, 1, outputs)
        self.dims("output", n, size[0], size[1], outputs)
        name = "depthwise_conv" if depthwise else "convolve"
        self.returns(f"arm_{name}_wrapper_s8", "&context", "&params", "&scales", "&input",
                     self.inputs[0], "&filter", "weights", "&biases", "bias", "&output",
                     "out")  # fmt: skip

    def fully_connected(self, p: Product) -> None:
        """arm_fully_connected_s8."""
        (n, depth), (outputs, _) = self.shapes[0], p.weights.shape
        self.constants = {"weights": p.weights, "bias": p.bias}
        # with Helium the accumulators begin with the bias and the weights' sums times the offset,
        # which is 0 here
        sums = "(void *)bias" if HELIUM in self.cores else "0"
        self.context(sums, 4 * outputs if HELIUM in self.cores else 0)
        self.struct("fc_params", "params", p.offsets[0], 0, p.offsets[1], self.held)
        self.struct("per_tensor_quant_params", "scale", *p.factors[0])
        self.dims("input", n, 1, 1, depth)
        self.dims("filter", depth, 1, 1, outputs)
        self.dims("biases", 1, 1, 1, outputs)
        self.dims("output", n, 1, 1, outputs)
        self.returns("arm_fully_connected_s8", "&context", "&params", "&scale", "&input",
                     self.inputs[0], "&filter", "weights", "&biases", "bias", "&output",
                     "out")  # fmt: skip

    def pool(self, p: Pool) -> None:
        """arm_avgpool_s8, arm_max_pool_s8."""
        w, (n, channels, *image), (_, _, *size) = p.window, self.shapes[0], self.result
        self.scratch({DSP: 4 * channels} if p.mean else {})
        sides = [(pair[1], pair[0]) for pair in (w.strides, w.pads[:2])]
        self.struct("pool_params", "params", *sides, self.held)
        self.dims("input", n, image[0], image[1], channels)
        self.dims("filter", 1, *w.kernel, 1)
        self.dims("output", n, size[0], size[1], channels)
        self.returns("arm_avgpool_s8" if p.mean else "arm_max_pool_s8", "&context", "&params",
                     "&input", self.inputs[0], "&filter", "&output", "out")  # fmt: skip

    def pairs(self, p: Pairs) -> None:
        """arm_elementwise_add_s8, arm_elementwise_mul_s8."""
        a, b, zero = p.offsets
        size = int(np.prod(self.result))
        first, second, own = p.factors
        if p.shift is None:
            self.returns("arm_elementwise_mul_s8", *self.inputs, a, b, "out", zero, *own,
                         *self.held, size)  # fmt: skip
        else:
            self.returns("arm_elementwise_add_s8", *self.inputs, a, *first, b, *second, p.shift,
                         "out", zero, *own, *self.held, size)  # fmt: skip

    def softmax(self, p: Softmax) -> None:
        """arm_softmax_s8."""
        row = self.result[-1]
        rows = int(np.prod(self.result)) // row
        self.lines.append(f"arm_softmax_s8({self.inputs[0]}, {rows}, {row}, {p.factor[0]}, "
                          f"{p.factor[1]}, {-softmax_radius(p)}, out);")  # fmt: skip
        self.lines.append("return 0;")


_C = {"|i1": "int8_t", "<i4": "int32_t"}


def _braced(fields: Sequence[object]) -> str:
    return "{" + ", ".join([_braced(f) if isinstance(f, tuple) else str(f) for f in fields]) + "}"


def _up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


def _known(shape: tuple[int, ...] | None) -> tuple[int, ...]:
    assert shape is not None  # a part has such shapes only
    return shape


def _factors(pairs: Sequence[tuple[int, int]]) -> dict[str, Array]:
    numbers, powers = np.array(pairs, np.int32).T
    return {"multipliers": np.ascontiguousarray(numbers), "shifts": np.ascontiguousarray(powers)}
