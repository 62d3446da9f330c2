"""Which layers stay in floats, so that a model gets no worse than it may."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.nodes import Function, RelaxExpr, Var, call

from .insert import Plan, insert
from .observe import Compile, Step, results_of
from .samples import Sample
from .statistics import Array

Results = Sequence[Sequence[Array]]
"""The results of a model for each sample."""

Metric = Callable[[Results], float]
"""A user's measure of results, in percent, say: more is better."""

_FEW = 16
"""So many samples tell how much a layer counts."""
_FLAGS = "quantized_layers"


@dataclass(frozen=True)
class Drop:
    """How much worse the results of a quantized model are.

    metric    the user's measure; None: the share of samples for which the largest number of the
              first result is another one, where that looks like classes; else the distance of the
              results from those in floats, both in percent
    expected  the results in floats
    """

    metric: Metric | None
    expected: Results

    def __call__(self, found: Results) -> float:
        """In percent, or in the unit of the user's measure."""
        if self.metric is not None:
            return self.metric(self.expected) - self.metric(found)
        same = agreement(self.expected, found)
        return 100 * distance(self.expected, found) if same is None else 100 - same


def agreement(expected: Results, found: Results) -> float | None:
    """Of how many rows of the first result the largest number is the same one, in percent; None:
    it is no table of classes."""
    first = [(np.asarray(e[0]), np.asarray(f[0])) for e, f in zip(expected, found, strict=True)]
    if any(e.ndim != 2 or e.shape[1] < 2 or e.dtype.kind != "f" for e, _ in first):
        return None
    same = np.concatenate([e.argmax(1) == f.argmax(1) for e, f in first])
    return 100 * float(same.mean())


def distance(expected: Results, found: Results) -> float:
    """The norm of all differences over that of all numbers, of results that are floats."""
    noise = signal = 0.0
    for e, f in zip(expected, found, strict=True):
        for a, b in zip(e, f, strict=True):
            if a.dtype.kind == "f":
                noise += float(np.square(a.astype(np.float64) - b).sum())
                signal += float(np.square(a.astype(np.float64)).sum())
    return float(np.sqrt(noise / signal)) if signal > 0 else float(noise > 0)


class Switched:
    """A quantized model, each layer of which can be switched back to floats while it runs."""

    def __init__(self, mod: IRModule, f: Function, plan: Plan, compile: Compile) -> None:
        """Compile it."""
        self.names = list(plan.points.layers)
        flags = Var(_FLAGS, tensor_type((len(self.names),), "bool"))
        at = {n: k for k, n in enumerate(self.names)}
        one: dict[str, RelaxExpr] = {}
        made: dict[frozenset[str], RelaxExpr] = {}

        def switch(layers: frozenset[str]) -> RelaxExpr:
            if layers not in made:
                own = [one.setdefault(n, _flag(flags, at[n])) for n in sorted(layers)]
                any_of = own[0]
                for v in own[1:]:
                    any_of = call("logical_or", any_of, v)
                made[layers] = any_of
            return made[layers]

        inside = insert(f, plan, switch)
        whole = inside.replace(params=(*f.params, flags))
        self.exe = compile(mod.with_functions({"main": whole}))

    def run(self, samples: Sequence[Sample], on: Sequence[str]) -> Results:
        """The results where some layers are quantized."""
        chosen = set(on)
        flags = np.array([n in chosen for n in self.names])
        return [results_of(self.exe, {**s, _FLAGS: flags}) for s in samples]


def _flag(flags: Var, at: int) -> RelaxExpr:
    """One of the switches."""
    part = call("strided_slice", flags, axes=(0,), begin=(at,), end=(at + 1,))
    return call("reshape", part, shape=())


def layers_to_keep(
    switched: Switched, drop: Drop, most: float, samples: Sequence[Sample], step: Step | None
) -> tuple[list[str], dict[str, float]]:
    """The layers that stay in floats, the most harmful first, and how much each alone costs.

    Each layer is quantized alone; then as few of them as possible are left out, in that order.

    most  the largest drop that is allowed
    """
    few = samples[:_FEW]
    cost: dict[str, float] = {}
    for n, name in enumerate(switched.names):
        cost[name] = 100 * distance(drop.expected[: len(few)], switched.run(few, [name]))
        if step is not None:
            step("layers", n + 1, len(switched.names))
    order = sorted(switched.names, key=lambda n: (-cost[n], n))

    def fits(kept: int) -> bool:
        return drop(switched.run(samples, order[kept:])) <= most

    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return order[:low], cost
