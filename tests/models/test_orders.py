"""What passes need and give is true: any order that keeps it computes the same."""

from __future__ import annotations

import random
import zlib

import pytest

import smelt
from smelt.artifact.artifact import load
from smelt.codegen.llvm import resolve
from smelt.frontend.source import import_model
from smelt.ir.steps import Step
from smelt.pipeline import GRAPH, assemble, checked_context, run_graph
from smelt.target import Target

from .compare import agree, compiled, run
from .test_networks import NETWORKS


def legal_order(steps: tuple[Step, ...], seed: int) -> tuple[Step, ...]:
    """A random order in which every pass finds what it needs."""
    rng, left, now, out = random.Random(seed), list(steps), set[str](), list[Step]()
    while left:
        fits = [
            s for s in left
            if now.issuperset(s.needs)
            and not any(set(s.ends) & set(o.needs) for o in left if o is not s)
        ]  # fmt: skip
        step = rng.choice(fits)
        left.remove(step)
        out.append(step)
        now = (now - set(step.ends)) | set(step.gives)
    return tuple(out)


@pytest.mark.parametrize("name", NETWORKS)
def test_any_legal_order_computes_the_same(name: str, cache: str) -> None:
    build, feeds = NETWORKS[name]
    model = build(2)
    order = legal_order(GRAPH, zlib.crc32(name.encode()))
    context = checked_context("a test", smelt.Options(cache_dir=cache))
    fused = run_graph(import_model(model), context, steps=order)
    exe = load(assemble(fused, resolve(Target("llvm -mcpu=native")), context))
    agree(run(exe, feeds(2)), run(compiled(model, cache), feeds(2)))


def test_orders_differ() -> None:
    assert len({tuple(s.name for s in legal_order(GRAPH, n)) for n in range(20)}) > 10
