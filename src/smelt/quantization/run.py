"""A float model and samples of its inputs become a quantized model."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

from smelt.frontend.onnx.write import save
from smelt.ir.build import value_of
from smelt.ir.errors import CompileError, Unsupported
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType
from smelt.relax.match_cast import resolve_match_cast
from smelt.relax.nodes import Function, RelaxExpr, Var, tensor_type_of
from smelt.relax.transform.canonicalize import simplify_graph
from smelt.relax.transform.expand_ops import expand_dialects
from smelt.relax.transform.normal_form import inline_functions
from smelt.runtime import TensorInfo
from smelt.runtime.errors import unknown

from .insert import Plan, insert
from .numbers import Affine, affine_of
from .observe import Compile, Step, Watch, check_finite, observe
from .points import Points, find_points, layers_of, tables_of
from .ranges import METHODS, WITHOUT_HISTOGRAM
from .report import LayerReport, Measured, Report, constant_bytes, describe_layers, measure
from .samples import Data, Sample, Samples, noise_in
from .search import Drop, Switched, agreement, distance, layers_to_keep
from .settings import Settings
from .statistics import Statistics
from .weight_only import quantize_weights_only
from .weights import channel_of_operand, corrections, equalize, norms_before, smooth

_COMPARED = 64
"""So many samples are compared, if none is said to be kept to a budget."""
_SMOOTHED = 32


@dataclass(frozen=True)
class Quantized:
    """A quantized model.

    mod     the program, with quantize and dequantize in it: smelt.compile takes it
    report  what was done, layer by layer
    """

    mod: IRModule
    report: Report

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as an ONNX model in QDQ form, which any runtime opens."""
        save(self.mod, path)


def prepare(mod: IRModule) -> IRModule:
    """A module in the core's operators, constants folded and BatchNorm in the weights."""
    return simplify_graph(expand_dialects(inline_functions(resolve_match_cast(mod))))


def quantize_module(
    mod: IRModule, data: Data | None, settings: Settings, compile: Compile,
    step: Step | None = None,
) -> Quantized:  # fmt: skip
    """A module in floats as one with quantize and dequantize; see `smelt.quantize`."""
    return _Run(mod, settings, compile, step).run(data)


class _Run:
    """One model on its way to integers."""

    def __init__(
        self, mod: IRModule, settings: Settings, compile: Compile, step: Step | None
    ) -> None:
        self.settings, self.compile, self.step = settings, compile, step
        self.before = constant_bytes(mod)
        self.mod = prepare(mod)
        self.f = self._main()
        self.layers = layers_of(self.f)
        self.report = Report(settings.method, 0)
        self.ranges: dict[RelaxExpr, Statistics] = {}
        for name in settings.keep:
            if name not in self.layers:
                raise CompileError(f"keep: the model has {unknown('layer', name, self.layers)}")
        if not self.layers:
            raise Unsupported(
                "there is nothing to quantize: the model has no product or convolution of float32 "
                "with constant weights"
            )

    def _main(self) -> Function:
        f = self.mod.functions.get("main")
        if not isinstance(f, Function):
            raise CompileError("there is no graph function 'main' to quantize")
        if any(not isinstance(p.type, TensorType) for p in f.params):
            raise Unsupported("a model whose inputs are no tensors cannot be calibrated")
        return f

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.report.seconds[what] = time.perf_counter() - start

    # ---- the way ------------------------------------------------------------------------------

    def run(self, data: Data | None) -> Quantized:
        """The whole of it."""
        if self.settings.alone:
            if data is not None:
                raise CompileError(f"activations={self.settings.activations!r}: weights alone "
                                   "need no samples (data)")  # fmt: skip
            return self._weights_only()
        if data is None:
            return self._without_samples()
        if self.settings.fixed is not None:
            raise CompileError(
                f"fixed={self.settings.fixed} says what samples (data) are for; legal: one of them"
            )
        samples = Samples(data, self._inputs(), self.settings.samples)
        self.report.samples = len(samples)
        for name in noise_in(s for s, _ in zip(samples, range(8), strict=False)):
            self.report.notes.append(
                f"the samples of {name!r} look like noise: neighbouring numbers are not related. "
                "Ranges found with noise do not fit the data that the model is for, and results "
                "get worse without any sign of it; calibrate with real samples"
            )
        with self._timed("weights before"):
            self._rescale(samples)
        with self._timed("calibration"):
            found, plan = self._plan(samples, self.settings.keep)
        why = self._asked()
        cost: dict[str, float] = {}
        measured: Measured | None = None
        if self.settings.max_drop is not None:
            with self._timed("search"):
                plan, measured, why, cost = self._within_budget(found, plan, samples, why)
        quantized = self._with_main(insert(self.f, plan))
        if measured is None and self.settings.compare and plan.points.layers:
            with self._timed("comparison"):
                measured = self._measure(plan, list(_first(samples, _COMPARED)))
        if measured is not None:
            self.report.agreement = agreement(measured.expected, measured.found)
            self.report.distance = 100 * distance(measured.expected, measured.found)
        return self._made(quantized, plan, measured.noise if measured else {}, why, cost)

    def _asked(self) -> dict[str, str]:
        """The layers that the user wants in floats."""
        return dict.fromkeys(self.settings.keep, "asked for")

    def _without_samples(self) -> Quantized:
        """With the same range for every activation."""
        s = self.settings
        if s.fixed is None:
            raise CompileError(
                "there is no calibration data: give samples of the model's inputs (data), or "
                "quantize weights alone (activations='float32')"
            )
        if given := s.needing_samples():
            raise CompileError(f"{given[0]}={getattr(s, given[0])!r} needs samples (data)")
        points = find_points(self.f, s.keep)
        every = affine_of((-s.fixed, s.fixed), s.activations, s.symmetric, "every activation")
        plan = Plan(points, {points.groups.find(v): every for v in points.values},
                    scales=s.weight_scale)  # fmt: skip
        self.report.method = f"all within {s.fixed:g}"
        return self._made(self._with_main(insert(self.f, plan)), plan, {}, self._asked(), {})

    def _made(
        self, mod: IRModule, plan: Plan, noise: dict[str, float], why: dict[str, str],
        cost: dict[str, float],
    ) -> Quantized:  # fmt: skip
        """The result, and what there is to say of it."""
        ranges = _by_group(self.ranges, plan.points)
        self.report.layers = describe_layers(self.layers, plan, ranges, noise, why, cost)
        self.report.bytes = self.before, constant_bytes(mod)
        return Quantized(mod, self.report)

    def _with_main(self, f: Function) -> IRModule:
        return self.mod.with_functions({"main": f})

    def _inputs(self) -> list[TensorInfo]:
        """What the model takes."""
        found = []
        for p in self.f.params:
            t = tensor_type_of(p)
            known = [value_of(e) for e in t.shape]
            shape = tuple([str(e) if n is None else n for e, n in zip(t.shape, known, strict=True)])
            found.append(TensorInfo(p.name, t.dtype, shape))
        return found

    def _weights_only(self) -> Quantized:
        s = self.settings
        f, forms = quantize_weights_only(self.f, self.layers, s)
        made = self._with_main(f)
        for name, layer in self.layers.items():
            shape = tuple(layer.weights.data.shape)
            self.report.layers.append(LayerReport(name, layer.call.callee, shape, *forms[name]))
        self.report.method = "weights alone"
        self.report.bytes = self.before, constant_bytes(made)
        return Quantized(made, self.report)

    # ---- steps --------------------------------------------------------------------------------

    def _rescale(self, samples: Samples) -> None:
        """Equalise and smooth, where it was asked for."""
        if self.settings.equalize:
            self.f, count = equalize(self.f)
            self.report.notes.append(f"equalized: {count} pairs of layers")
        norms = norms_before(self.f) if self.settings.smooth is not None else {}
        if norms:
            channels = {n: channel_of_operand(own[0]) for n, own in norms.items()}
            first = Samples(list(_first(samples, _SMOOTHED)), self._inputs())
            found = observe(self._with_main(self.f), Watch([], False, channels), first,
                            self.compile, self.step)  # fmt: skip
            largest = {n: s.largest for n, s in found.items() if s.largest is not None}
            assert self.settings.smooth is not None
            self.f = smooth(self.f, largest, self.settings.smooth)
        if self.settings.smooth is not None:
            self.report.notes.append(f"smoothed: the products behind {len(norms)} normalisations")
        self.layers = layers_of(self.f)

    def _plan(
        self, samples: Samples, keep: Collection[str]
    ) -> tuple[dict[RelaxExpr, Statistics], Plan]:
        """Statistics of all values, and what follows from them."""
        points = find_points(self.f, keep)
        if not points.layers:
            return {}, Plan(points, {})
        channels = {}
        if self.settings.bias_correction:
            channels = {v.x: channel_of_operand(v) for v in points.layers.values()}
        watch = Watch(sources(points), self._counts(), channels)
        found = observe(self._with_main(self.f), watch, samples, self.compile, self.step)
        check_finite(found, _name)
        leaders = _by_group(found, points)
        self.ranges = {v: leaders[points.groups.find(v)] for v in points.values}
        return found, self._planned(points, found)

    def _counts(self) -> bool:
        """Whether histograms are needed: for the method, or to say what a range cuts off."""
        return self.settings.method not in WITHOUT_HISTOGRAM

    def _planned(self, points: Points, found: dict[RelaxExpr, Statistics]) -> Plan:
        s = self.settings
        affine: dict[RelaxExpr, Affine] = {}
        for leader, stats in _by_group(self.ranges, points).items():
            ends = METHODS[s.method](stats, 256)
            own = sorted(points.values[leader])
            more = ", ..." if len(own) > 3 else ""
            what = f"the value {_name(leader)!r} (of {', '.join(own[:3])}{more})"
            affine[leader] = affine_of(ends, s.activations, s.symmetric, what)
        tables = tables_of(self.f) if points.layers else ()
        plan = Plan(points, affine, s.bits, s.weight_scale, s.method == "mse", tables)
        if s.bias_correction:
            plan.bias = corrections(plan, found)
        return plan

    def _within_budget(
        self, found: dict[RelaxExpr, Statistics], plan: Plan, samples: Samples, why: dict[str, str]
    ) -> tuple[Plan, Measured | None, dict[str, str], dict[str, float]]:
        """A plan that leaves as many layers in floats as the budget wants, and how good it is;
        None: nothing is quantized."""
        s = self.settings
        assert s.max_drop is not None
        given = list(samples)
        whole = self._measure(plan, given)
        drop = Drop(s.metric, whole.expected)
        self.report.drop = drop(whole.found)
        cost: dict[str, float] = {}
        if self.report.drop <= s.max_drop:
            return plan, whole, why, cost
        switched = Switched(self.mod, self.f, plan, self.compile)
        kept, cost = layers_to_keep(switched, drop, s.max_drop, given, self.step)
        order = sorted(cost, key=lambda n: (-cost[n], n))
        measured: Measured | None = None
        for count in range(len(kept), len(order) + 1):
            kept = order[:count]
            plan = self._planned(find_points(self.f, [*s.keep, *kept]), found)
            if not plan.points.layers:
                self.report.drop, measured = 0.0, None
                break
            measured = made = self._measure(plan, given)
            self.report.drop = drop(made.found)
            if self.report.drop <= s.max_drop:
                break
        reason = f"kept: results would be worse by more than {s.max_drop:g}"
        return plan, measured, {**why, **dict.fromkeys(kept, reason)}, cost

    def _measure(self, plan: Plan, samples: list[Sample]) -> Measured:
        """The quantized model beside the one in floats."""
        return measure(self.mod, self.f, plan, samples, self.compile, self.step)


def _first(samples: Samples, count: int) -> Iterator[Sample]:
    for _, s in zip(range(count), samples, strict=False):
        yield s


def sources(points: Points) -> list[RelaxExpr]:
    """The values whose numbers are observed: what is only moved has those of its operands."""
    return [v for v in points.values if v not in points.moved]


def _by_group(found: dict[RelaxExpr, Statistics], points: Points) -> dict[RelaxExpr, Statistics]:
    """Statistics by the value that stands for all that share a range."""
    groups: dict[RelaxExpr, list[Statistics]] = {}
    for v in points.values:
        own = groups.setdefault(points.groups.find(v), [])
        if v in found and found[v].lows and not any(found[v] is s for s in own):
            own.append(found[v])
    return {leader: reduce(Statistics.join, own) for leader, own in groups.items() if own}


def _name(v: RelaxExpr) -> str:
    """What a value is called in messages."""
    if isinstance(v, Var):
        return v.name
    return getattr(v, "name", "") or getattr(v, "callee", type(v).__name__)
