"""Statistics of a model's values: the compiled model runs on the samples and finds them itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.relax.nodes import Function, RelaxExpr, Tuple, call, tensor_type_of
from smelt.runtime import Executable
from smelt.runtime.expression import evaluate

from .samples import Sample, Samples
from .statistics import BINS, Array, Statistics, count_bins

Compile = Callable[[IRModule], Executable]
"""What makes something that runs of a module."""

Step = Callable[[str, int, int], None]
"""Told (what is done, how many samples of it are done, of how many)."""

_PLENTY = 1 << 19
"""So many numbers of a value make a histogram: of larger ones every few elements are counted."""
_AT_ONCE = 1 << 18
"""So many numbers are counted together: a table is added once for all of them."""


@dataclass
class Watch:
    """What is asked of values.

    ranges     those whose smallest and largest numbers are wanted
    histogram  whether their histograms are wanted, too
    channels   value -> the dimension along which means and largest magnitudes are wanted
    """

    ranges: Sequence[RelaxExpr]
    histogram: bool = False
    channels: dict[RelaxExpr, int] = field(default_factory=dict)


def observe(
    mod: IRModule, watch: Watch, samples: Samples, compile: Compile, step: Step | None = None
) -> dict[RelaxExpr, Statistics]:
    """The statistics of values of "main" over all samples."""
    first = next(iter(samples))
    main = mod["main"]
    assert isinstance(main, Function)
    sizes = _sizes(main, first)
    probes = [_range_probes(v, watch.histogram, sizes, len(samples)) for v in watch.ranges]
    means = [_channel_probes(v, axis) for v, axis in watch.channels.items()]
    results = [r for p in (*probes, *means) for r in p]
    exe = compile(with_results(mod, main, results))
    found = {v: Statistics() for v in (*watch.ranges, *watch.channels)}
    counters = {v: _Counter() for v in watch.ranges} if watch.histogram else {}
    for n, sample in enumerate(samples):
        values = iter(results_of(exe, sample))
        for v in watch.ranges:
            s = found[v]
            s.lows.append(float(next(values)))
            s.highs.append(float(next(values)))
            if watch.histogram:
                counters[v].add(next(values))
        for v in watch.channels:
            s, mean, most = found[v], next(values), next(values)
            s.sums = mean.astype(np.float64) if s.sums is None else s.sums + mean
            s.largest = most if s.largest is None else np.maximum(s.largest, most)
            s.elements += 1
        if step is not None:
            step("samples", n + 1, len(samples))
    for v, counter in counters.items():
        found[v].counts = counter.total()
    return found


class _Counter:
    """A histogram of numbers that come in small parts."""

    def __init__(self) -> None:
        self.waiting: list[Array] = []
        self.size = 0
        self.counts = np.zeros(BINS, np.int64)

    def add(self, x: Array) -> None:
        """Count some more."""
        self.waiting.append(x.reshape(-1))
        self.size += x.size
        if self.size >= _AT_ONCE:
            self.total()

    def total(self) -> Array:
        """All that was counted."""
        if self.waiting:
            self.counts += count_bins(np.concatenate(self.waiting))
            self.waiting, self.size = [], 0
        return self.counts


def check_finite(found: dict[RelaxExpr, Statistics], name: Callable[[RelaxExpr], str]) -> None:
    """Refuse values that are NaN or infinite for some sample."""
    for v, s in found.items():
        numbers = [*s.lows, *s.highs]
        bad = not np.isfinite(numbers).all() if numbers else not np.isfinite(s.means).all()
        if bad:
            raise CompileError(
                f"the value {name(v)!r} is NaN or infinite for some sample: no range holds it; "
                "legal: samples for which the model gives numbers"
            )


# ------------------------------------------------------------------------------------- probes


def _sizes(main: Function, sample: Sample) -> dict[str, int]:
    """The symbolic sizes of a sample."""
    found: dict[str, int] = {}
    for p in main.params:
        for e, n in zip(tensor_type_of(p).shape, sample[p.name].shape, strict=True):
            found.setdefault(str(e), n)
    return found


def _range_probes(
    v: RelaxExpr, histogram: bool, sizes: dict[str, int], samples: int
) -> list[RelaxExpr]:
    """The smallest and the largest number of a value, and some of its elements."""
    probes: list[RelaxExpr] = [call(n, v, axes=None, keepdims=False) for n in ("min", "max")]
    if histogram:
        t = tensor_type_of(v)
        shape = [evaluate(str(e), sizes) for e in t.shape]
        strides = _strides(shape, max(_PLENTY // samples, 1024))
        axes = tuple([a for a, s in enumerate(strides) if s > 1])
        begin = tuple([strides[a] // 2 for a in axes])
        end, by = tuple([t.shape[a] for a in axes]), tuple([strides[a] for a in axes])
        few = call("strided_slice", v, axes=axes, begin=begin, end=end, strides=by) if axes else v
        probes.append(few)
    return probes


def _strides(shape: Sequence[int], most: int) -> list[int]:
    """Every how many elements of each dimension one is looked at: of pixels and positions before
    channels."""
    strides, left = [1] * len(shape), -(-math.prod(shape) // most)
    order = [*range(2, len(shape)), *range(min(2, len(shape)))]
    for n, axis in enumerate(order):
        share = math.ceil(left ** (1 / max(len(shape) - 2 - n, 1))) if n < len(shape) - 2 else left
        strides[axis] = max(1, min(shape[axis], share))
        left = -(-left // strides[axis])
    return strides


def _channel_probes(v: RelaxExpr, axis: int) -> list[RelaxExpr]:
    """The mean of each channel, and the largest magnitude."""
    others = tuple([a for a in range(len(tensor_type_of(v).shape)) if a != axis])
    size = call("abs", v)
    if not others:
        return [v, size]
    return [call("mean", v, axes=others, keepdims=False),
            call("max", size, axes=others, keepdims=False)]  # fmt: skip


def with_results(mod: IRModule, main: Function, results: Iterable[RelaxExpr]) -> IRModule:
    """A module whose function gives these values."""
    body = Tuple(tuple(results))
    names = tuple([f"probe_{n}" for n in range(len(body.items))])
    attrs = {**main.attrs, "output_names": names}
    return mod.with_functions({"main": main.replace(body=body, attrs=attrs)})


def results_of(exe: Executable, sample: Sample) -> list[Array]:
    """The results of one run, as arrays of their own."""
    made = exe(dict(sample))
    return [np.array(r.numpy()) for r in (made if isinstance(made, tuple) else (made,))]
