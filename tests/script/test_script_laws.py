"""Laws of the text: it comes back, its names are unique, and what is no program is a ParseError."""

from __future__ import annotations

import ast
import copy
import random
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import smelt
from smelt.ir.errors import ParseError
from smelt.ir.expr import LT, Add, Expr, Max, Mul, Select, Var, const
from smelt.pipeline import LOWER
from smelt.relax.parser import parse as parse_module
from smelt.rules.cpu import schedule
from smelt.target import Target, machine_of
from smelt.tir.equal import assert_structural_equal, structural_hash
from smelt.tir.nodes import Buffer, BufferStore, For, PrimFunc, Seq, While
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.verify import verify
from tests.lowering.programs import BUILDERS
from tests.tir_text.generate import programs

from .test_vocabulary import PROGRAMS

MACHINE = machine_of(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver5"), cores=2)
BOUND = re.compile(r"^ *(?:for )?(\w+)(?:: [\w.]+)? (?:in|=) |^ *with .* as (\w+):$", re.M)


def comes_back(func: PrimFunc) -> None:
    """The text is read as the same program, prints again, and binds every name once."""
    text = script(func)
    again = parse(text)
    assert_structural_equal(again, func)
    assert script(again) == text
    assert structural_hash(again) == structural_hash(func)
    params = [*re.findall(r"[(,] ?(\w+): T\.", text.split("\n")[1])]
    names = Counter([*params, *[a or b for a, b in BOUND.findall(text)]])
    assert not [n for n, count in names.items() if count > 1], text


@pytest.mark.parametrize("name", BUILDERS)
def test_kernels_and_every_stage_of_lowering(name: str) -> None:
    sizes = {"matmul": (37, 51, 29), "dense": (64, 96, 48), "softmax": (5, 700)}
    func = BUILDERS[name](*sizes.get(name, ()))
    comes_back(func)
    func = schedule(func, MACHINE, frozenset()).func
    comes_back(func)
    for step in LOWER:
        new = step.fn(func)
        if new is not func:
            comes_back(new)
        func = new


def test_sizes_known_at_run_time() -> None:
    n = Var("n")
    func = schedule(BUILDERS["softmax"](4, n), MACHINE, frozenset()).func
    for step in LOWER:
        comes_back(func)
        func = step.fn(func)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(flat=False))
def test_generated_programs_at_every_stage(func: PrimFunc) -> None:
    for step in LOWER:
        comes_back(func)
        func = step.fn(func)


GRAPH = """
@R.function
def main(x: R.Tensor((n, 3, 9, 9), "float32"), *, w0: R.Constant((4, 3, 3, 3), "float32")):
    v0 = R.conv2d(x, w0, strides=(2, 2))
    v1 = R.relu(v0)
    return R.sum(v1, axes=(2, 3))
"""


def test_every_text_of_a_compilation(tmp_path: Path) -> None:
    """What a compilation writes down: modules, kernels at every stage, the host programs."""
    weights = {"w0": np.ones((4, 3, 3, 3), "float32")}
    module = parse_module(GRAPH, weights)
    options = smelt.Options(dump_dir=str(tmp_path), threads=1, workers=0)
    smelt.compile(module, target="llvm -mcpu=x86-64-v3", options=options)
    texts = [f.read_text() for f in sorted(tmp_path.rglob("*.txt"))]
    parts = [part for text in texts for part in re.split(r"^(?=@T\.prim_func$)", text, flags=re.M)]
    functions = [part for part in parts if part.startswith("@T.prim_func\n")]
    assert len(functions) >= 15
    assert any("T.smelt.call_kernel" in t for t in functions), "host programs are among them"
    assert any("T.axis.reduce" in t for t in functions)
    for text in functions:
        assert parse(text).script().strip() == text.strip()


# ------------------------------------------------------------------------------- deep expressions

A = Buffer("A", (const(4),))
GROW: dict[str, Callable[[Expr, int], Expr]] = {
    "sums": lambda e, k: Add(e, A[k % 4]),
    "sums_to_the_right": lambda e, k: Add(A[k % 4], e),
    "calls": lambda e, k: Max(e, A[k % 4]),
    "mixed": lambda e, k: Mul(Add(e, A[1]), A[k % 4]),
    "shared": lambda e, k: Select(LT(e, A[1]), A[2], e),
}


@pytest.mark.parametrize("kind", GROW)
def test_expressions_of_any_depth(kind: str) -> None:
    e: Expr = A[0]
    for k in range(30 if kind == "shared" else 700):
        e = GROW[kind](e, k)
    first, second = BufferStore(A, e, (const(0),)), BufferStore(A, e, (const(1),))
    body = While(LT(e, const(3.0)), Seq((first, second)))
    comes_back(PrimFunc((A,), For(Var("i"), const(0), const(4), body), {"name": "deep"}))


# -------------------------------------------------------------------------------- broken programs

VALUES = (Path(__file__).parent / "odd_values.txt").read_text().splitlines()
STATEMENTS = (Path(__file__).parent / "odd_statements.txt").read_text().splitlines()


@cache
def parts() -> tuple[list[ast.Module], list[ast.expr], list[ast.stmt]]:
    """Programs, and what may stand in the place of parts of them."""
    trees = [ast.parse(text) for text in PROGRAMS.values()]
    nodes = [n for t in trees for n in ast.walk(t)]
    odd = [ast.parse(v, mode="eval").body for v in VALUES]
    wrong = [ast.parse(s).body[0] for s in STATEMENTS]
    return (
        trees,
        [*[n for n in nodes if isinstance(n, ast.expr)], *odd * 4],
        [*[n for n in nodes if isinstance(n, ast.stmt)], *wrong * 2],
    )


class Swap(ast.NodeTransformer):
    """Puts another expression or statement in the place of the n-th."""

    def __init__(self, rng: random.Random, place: int) -> None:
        self.rng, self.place = rng, place

    def visit(self, node: ast.AST) -> ast.AST:
        _, exprs, stmts = parts()
        if isinstance(node, ast.expr | ast.stmt) and not isinstance(node, ast.FunctionDef):
            self.place -= 1
            if self.place == 0:
                chosen = self.rng.choice(exprs if isinstance(node, ast.expr) else stmts)
                return copy.deepcopy(chosen)
        found: ast.AST = self.generic_visit(node)
        return found


@settings(max_examples=250, deadline=None)
@given(st.integers(0, 1 << 40))
def test_what_is_no_program_is_a_parse_error(seed: int) -> None:
    rng = random.Random(seed)
    tree: ast.AST = copy.deepcopy(rng.choice(parts()[0]))
    for _ in range(rng.choice((1, 1, 2))):
        size = sum(isinstance(n, ast.expr | ast.stmt) for n in ast.walk(tree))
        tree = Swap(rng, rng.randrange(2, size)).visit(tree)
    text = ast.unparse(ast.fix_missing_locations(tree))
    try:
        func = parse(text)
    except ParseError as e:
        lines = str(e).split("\n")
        assert re.match(r"<script>:\d+:\d+: .", lines[0]), lines
        assert "^" in lines[2], lines
        return
    try:
        verify(func)
    except smelt.SmeltError:
        return
    assert_structural_equal(parse(func.script()), func)
