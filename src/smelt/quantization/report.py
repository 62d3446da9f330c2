"""What quantization did to a model, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.module import IRModule
from smelt.relax.nodes import Constant, Function, RelaxExpr, call, values

from .insert import Plan, insert_traced
from .observe import Compile, Step, results_of, with_results
from .ranges import Range
from .samples import Sample
from .search import Results
from .statistics import Array, Statistics


@dataclass(frozen=True)
class LayerReport:
    """One layer.

    name, operator, weights  what it is; the shape of its weights
    form       "int8", "int4", ..., or "float32"
    why        of a layer in floats the reason
    input, result  the ranges that its integers cover; None: it is not quantized
    saturated  the share of the operand's numbers that lie outside of the range, in percent; None:
               they were not counted
    noise      the signal-to-noise ratio of its result, in dB; None: not measured
    cost       the distance of the model's results where it alone is quantized, in percent; None:
               not measured
    """

    name: str
    operator: str
    weights: tuple[int, ...]
    form: str
    why: str = ""
    input: Range | None = None
    result: Range | None = None
    saturated: float | None = None
    noise: float | None = None
    cost: float | None = None


@dataclass
class Report:
    """The whole model.

    method     how ranges were found
    samples    how many samples there were
    layers     in the order in which they run
    bytes      of all constants: before and after
    agreement  of how many samples the largest number of the first result is the same, in percent;
               None: it is no table of classes
    distance   the norm of the differences of the results over that of the results, in percent
    drop       how much worse results are by the measure that was asked for; None: none was
    notes      what the user should know
    seconds    by what was done
    """

    method: str
    samples: int
    layers: list[LayerReport] = field(default_factory=list)
    bytes: tuple[int, int] = (0, 0)
    agreement: float | None = None
    distance: float | None = None
    drop: float | None = None
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def quantized(self) -> int:
        """How many layers are quantized."""
        return sum(v.form != "float32" for v in self.layers)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as JSON has it."""
        return asdict(self)


def constant_bytes(mod: IRModule) -> int:
    """The size of a module's constants, each counted once, as a file holds them."""
    found: dict[int, int] = {}
    for f in mod.functions.values():
        if isinstance(f, Function):
            for v in values(f.body):
                if isinstance(v, Constant):
                    found[id(v.data)] = -(-v.data.size * dt.width(v.type.dtype) // 8)
    return sum(found.values())


# ---------------------------------------------------------------------------------------- noise


@dataclass(frozen=True)
class Measured:
    """A float model and its quantized form on the same samples.

    noise     of each layer's result the signal-to-noise ratio in dB
    expected, found  the results of both
    """

    noise: dict[str, float]
    expected: Results
    found: Results


def measure(
    mod: IRModule, f: Function, plan: Plan, samples: Sequence[Sample], compile: Compile,
    step: Step | None,
) -> Measured:  # fmt: skip
    """Both forms, as one program, on every sample."""
    quantized, raw = insert_traced(f, plan)
    layers = plan.points.layers
    probes: list[RelaxExpr] = []
    for layer in layers.values():
        a, b = layer.result, raw[layer.result]
        d = call("subtract", a, b)
        for v in (a, d):
            probes.append(call("sum", call("multiply", v, v), axes=None, keepdims=False))
    count = len(f.results())
    exe = compile(with_results(mod, f, [*f.results(), *quantized.results(), *probes]))
    sums = np.zeros((len(layers), 2))
    expected: list[list[Array]] = []
    found: list[list[Array]] = []
    for n, sample in enumerate(samples):
        arrays = results_of(exe, sample)
        expected.append(arrays[:count])
        found.append(arrays[count : 2 * count])
        sums += np.array(arrays[2 * count :], np.float64).reshape(-1, 2)
        if step is not None:
            step("comparing", n + 1, len(samples))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = 10 * np.log10(sums[:, 0] / sums[:, 1])
    noise = {n: float(r) for n, r in zip(layers, ratio, strict=True)}
    return Measured(noise, expected, found)


def describe_layers(
    whole: Mapping[str, Any], plan: Plan, found: Mapping[RelaxExpr, Statistics],
    noise: Mapping[str, float], why: Mapping[str, str], cost: Mapping[str, float],
) -> list[LayerReport]:  # fmt: skip
    """Every layer of a model, those in floats included.

    whole  all layers by name
    found  statistics, by the value that stands for a group
    why    of those in floats the reason
    """
    rows = []
    for name, layer in whole.items():
        shape = tuple(layer.weights.data.shape)
        inside = plan.points.layers.get(name)
        if inside is None:
            rows.append(LayerReport(name, layer.call.callee, shape, "float32", why.get(name, ""),
                                    cost=cost.get(name)))  # fmt: skip
            continue
        ends = plan.of(inside.x).range
        s = found.get(plan.points.groups.find(inside.x))
        cut = None if s is None or s.counts is None else 100 * s.beyond(*ends)
        result = plan.of(inside.result).range if inside.result in plan.points.values else None
        rows.append(LayerReport(name, layer.call.callee, shape, "int8", "", ends, result,
                                cut, noise.get(name), cost.get(name)))  # fmt: skip
    return rows
