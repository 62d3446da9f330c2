"""How fast integer arithmetic is: expressions, proofs, maps, and what real kernels ask.

The last part records every question that scheduling and lowering a convolution of ResNet and a
matrix product of BERT ask the Analyzer, and asks them again. Times are processor time, medians.

Run as `python -m benchmarks.arith_speed`.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from smelt import te
from smelt.arith import (
    Analyzer,
    IndexMap,
    detect_iter_map,
    inverse_affine_iter_map,
    iter_map_simplify,
    subspace_divide,
)
from smelt.ir.build import all_of, ceildiv, equal, maximum, minimum
from smelt.ir.expr import Add, Expr, FloorDiv, Var, const
from smelt.pipeline import lower_program as lower
from smelt.rules.cpu import schedule
from smelt.target import Target, machine_of
from smelt.te import create_prim_func
from smelt.tir.nodes import Buffer, PrimFunc
from smelt.tir.rewrite import replace_buffers
from smelt.topi.registry import get_op

ROUNDS = 200
HARDWARE = machine_of(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver5"), cores=2)


def median(run: Callable[[], Any], count: int = 1, repeat: int = 9) -> float:
    """Microseconds of one of the `count` things that `run` does."""
    times = []
    for _ in range(repeat):
        start = time.process_time_ns()
        run()
        times.append((time.process_time_ns() - start) / 1e3 / count)
    return statistics.median(times)


def line(name: str, microseconds: float) -> None:
    """One row of the report."""
    print(f"  {name:44s} {microseconds:10.1f} us")


# --------------------------------------------------------------------------------- expressions

Question = Callable[[Analyzer, dict[str, Var]], object]

QUESTIONS: dict[str, Question] = {
    "fused // 16": lambda an, v: an.simplify(_fused(v) // 16),
    "fused % 16": lambda an, v: an.simplify(_fused(v) % 16),
    "fused // 64 * 64 + fused % 64": lambda an, v: an.simplify(
        _fused(v) // 64 * 64 + _fused(v) % 64
    ),
    "(fused * 4 + m) // 32": lambda an, v: an.simplify((_fused(v) * 4 + v["m"]) // 32),
    "fused < 8192": lambda an, v: an.simplify(_fused(v) < 8192),
    "fused < 100": lambda an, v: an.simplify(_fused(v) < 100),
    "1 <= i * 2 + m < 57": lambda an, v: an.simplify(
        all_of(v["i"] * 2 + v["m"] >= 1, v["i"] * 2 + v["m"] < 57)
    ),
    "min(i * 16 + 16, n) - i * 16": lambda an, v: an.simplify(
        minimum(v["i"] * 16 + 16, v["n"]) - v["i"] * 16
    ),
    "(i * n + k) % n": lambda an, v: an.simplify((v["i"] * v["n"] + v["k"]) % v["n"]),
    "(i - 1) * 56 + j * 4 + m - 1": lambda an, v: an.simplify(
        (v["i"] - 1) * 56 + v["j"] * 4 + v["m"] - 1
    ),
    "bounds of a sum": lambda an, v: an.bounds(_fused(v) * 4 + v["m"]),
    "modular set of a sum": lambda an, v: an.modular_set(v["i"] * 24 + v["j"] * 16 + 4),
    "proof: ceildiv(n, 16) * 16 >= n": lambda an, v: an.prove(ceildiv(v["n"], 16) * 16 >= v["n"]),
    "proof: x + 16 <= n under x < n // 16 * 16": lambda an, v: _assumed(an, v),
    "proof of equality": lambda an, v: an.prove(equal(_fused(v) // 128, v["i"])),
    "not to be proved": lambda an, v: an.prove(maximum(v["n"], v["i"]) * v["n"] > v["i"] * v["j"]),
    "interval over two loops": lambda an, v: an.interval(
        v["i"] * 2 + v["m"] - 1, {v["i"]: (v["k"] * 4, 4), v["m"]: (0, 3)}
    ),
    "solved for a loop": lambda an, v: an.solve_bounds(
        all_of(v["i"] * 4 + v["k"] >= 1, v["i"] * 4 + v["k"] < 57), v["i"]
    ),
}


def _fused(v: dict[str, Var]) -> Expr:
    return v["i"] * 128 + v["j"] * 16 + v["k"]


def _assumed(an: Analyzer, v: dict[str, Var]) -> object:
    with an.assume(v["i"] * 16 < v["n"] // 16 * 16):
        return an.prove(v["i"] * 16 + 16 <= v["n"])


def variables() -> tuple[Analyzer, dict[str, Var]]:
    """A fresh Analyzer and fresh variables."""
    v = {name: Var(name) for name in "ijkmn"}
    an = Analyzer({v["i"]: 64, v["j"]: 8, v["k"]: 16, v["m"]: 4})
    an.assume_positive(v["n"])
    return an, v


def expressions() -> None:
    """Each question to a fresh Analyzer, which has to derive everything."""
    print("questions, fresh analyzer and variables")
    for name, question in QUESTIONS.items():
        fresh = iter([variables() for _ in range(9 * ROUNDS)])
        run = [lambda ask=question, fresh=fresh: ask(*next(fresh))] * ROUNDS
        line(name, median(lambda run=run: [f() for f in run], ROUNDS))  # type: ignore[misc]
    an, v = variables()
    for question in QUESTIONS.values():
        question(an, v)
    known = list(QUESTIONS.values())
    line("all again, remembered", median(lambda: [q(an, v) for q in known], len(known)))


# ---------------------------------------------------------------------------------------- maps


def maps() -> None:
    """Detection, inverses and divisions of the maps that schedules make."""
    i, j, k, n = (Var(name) for name in "ijkn")
    tiles = {i: 7, j: 16, k: 64}
    fused = (i * 16 + j) * 64 + k
    bindings = [fused // 448, fused % 448 // 32, fused % 32]
    found = detect_iter_map(bindings, tiles, check_level="bijective").indices
    outputs = [Var(f"o{at}") for at in range(len(found))]
    blocked = IndexMap.from_func(lambda n, c, h, w: (n, c // 16, h, w, c % 16))
    reshaped = IndexMap.from_func(
        lambda a, b, c: (
            ((a * 12 + b) * 6 + c) % 8,
            ((a * 12 + b) * 6 + c) // 8 % 9,
            ((a * 12 + b) * 6 + c) // 72,
        )
    )
    print("maps")
    cases: dict[str, Callable[[], object]] = {
        "detect: loops themselves": lambda: detect_iter_map([i, j, k], tiles),
        "detect: a tile with a tail": lambda: detect_iter_map(
            [i * 16 + j, k], tiles, i * 16 + j < 100, "bijective"
        ),
        "detect: fused and split again": lambda: detect_iter_map(bindings, tiles),
        "detect: symbolic": lambda: detect_iter_map([i * n + j], {i: 4, j: n}),
        "detect: no map": lambda: detect_iter_map([i * j + k, j * 2 + k], tiles),
        "inverse of the detected map": lambda: inverse_affine_iter_map(found, outputs),
        "iter_map_simplify": lambda: iter_map_simplify(bindings, tiles),
        "subspace_divide": lambda: subspace_divide([fused // 64, fused % 64], tiles, [j, k]),
        "IndexMap.inverse of NCHW16c": lambda: blocked.inverse((8, 64, 56, 56)),
        "IndexMap.non_surjective_inverse": lambda: blocked.non_surjective_inverse((8, 50, 56, 56)),
        "IndexMap.inverse of a reshape": lambda: reshaped.inverse((10, 12, 6)),
    }
    for name, case in cases.items():
        line(name, median(lambda case=case: [case() for _ in range(50)], 50))  # type: ignore[misc]


def worst() -> None:
    """Deep and long expressions."""
    names = [Var(f"v{at}") for at in range(300)]
    long: Expr = const(0)
    deep: Expr = names[0]
    for at, v in enumerate(names):
        long = Add(long, v * (at + 1))
        deep = Add(FloorDiv(deep, const(3)), v)
    print("worst cases")
    domains = dict.fromkeys(names, 16)
    for name, e in (("a sum of 300 variables", long), ("300 nested quotients", deep)):
        line(name, median(lambda e=e: Analyzer(domains).simplify(e), 1, 5))  # type: ignore[misc]
        line(f"proof about {name}", median(lambda e=e: Analyzer(domains).prove(e > 9), 1, 5))  # type: ignore[misc]


# -------------------------------------------------------------------------------- real questions

Entry = tuple[str, int, Any]
_RECORDED: tuple[str, ...] = ("bind", "simplify", "bounds", "prove", "can_prove", "can_prove_equal")
_RECORDED += ("interval", "int_set", "linear", "solve_bounds", "assume_positive")


@contextmanager
def recorded(log: list[Entry]) -> Iterator[None]:
    """Writes down what is asked of Analyzers; not what they ask themselves."""
    inside = [False]
    numbers: dict[int, int] = {}
    kept: list[Analyzer] = []

    def number(an: Analyzer) -> int:
        if id(an) not in numbers:
            numbers[id(an)] = len(numbers)
            kept.append(an)  # so that no number is given twice
        return numbers[id(an)]

    def noted(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def method(self: Analyzer, *args: Any) -> Any:
            if inside[0]:
                return original(self, *args)
            inside[0] = True
            try:
                result = original(self, *args)
            finally:
                inside[0] = False
            log.append((name, number(self), (args, number(result) if name == "inside" else None)))
            return result

        return method

    @contextmanager
    def assume(self: Analyzer, condition: Any) -> Iterator[Analyzer]:
        log.append(("enter", number(self), condition))
        scope = originals["assume"](self, condition)
        inside[0] = True
        scope.__enter__()
        inside[0] = False
        try:
            yield self
        finally:
            scope.__exit__(None, None, None)
            log.append(("leave", number(self), None))

    originals = {name: getattr(Analyzer, name) for name in (*_RECORDED, "inside", "assume")}
    originals["__init__"] = Analyzer.__init__
    for name in (*_RECORDED, "inside", "__init__"):
        setattr(Analyzer, name, noted("new" if name == "__init__" else name, originals[name]))
    Analyzer.assume = assume  # type: ignore[method-assign]
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(Analyzer, name, original)


def replay(log: Sequence[Entry]) -> None:
    """Asks everything again, of new Analyzers."""
    analyzers: dict[int, Analyzer] = {}
    scopes: dict[int, list[Any]] = {}
    for name, number, what in log:
        if name == "new":
            analyzers[number] = Analyzer(*what[0])
        elif name == "enter":
            scope = analyzers[number].assume(what)
            scope.__enter__()
            scopes.setdefault(number, []).append(scope)
        elif name == "leave":
            scopes[number].pop().__exit__(None, None, None)
        else:
            args, result = what
            answer = getattr(analyzers[number], name)(*args)
            if name == "inside":
                analyzers[result] = answer


def convolution() -> tuple[PrimFunc, frozenset[str]]:
    """3x3, 64 channels, 56 x 56 pixels, with bias and relu, images channels-last."""
    x, w = te.placeholder((1, 64, 56, 56), name="x"), te.placeholder((64, 64, 3, 3), name="w")
    b = te.placeholder((64, 1, 1), name="b")
    y = get_op("conv2d")(x, w, strides=(1, 1), pads=(1,) * 4, dilations=(1, 1), groups=1)
    z = te.compute(
        y.shape, lambda n, c, i, j: te.maximum(y[n, c, i, j] + b[c, 0, 0], 0.0), name="z"
    )
    func = create_prim_func([x, w, b, z], name="kernel")
    new = {p: _channels_last(p) for p in func.buffers if p.name in ("x", "z")}
    params = tuple([new.get(p, p) if isinstance(p, Buffer) else p for p in func.params])
    body = replace_buffers(func.body, new)
    return func.replace(params=params, body=body), frozenset({"w"})


def _channels_last(b: Buffer) -> Buffer:
    _, c, h, w = b.shape
    return b.replace(strides=(c * h * w, const(1), c * w, c))


def product() -> tuple[PrimFunc, frozenset[str]]:
    """The first layer of a feed-forward block: 128 x 768 times 768 x 3072."""
    x, w = te.placeholder((128, 768), name="x"), te.placeholder((768, 3072), name="w")
    b = te.placeholder((3072,), name="b")
    y = get_op("matmul")(x, w)
    z = te.compute(y.shape, lambda i, j: te.maximum(y[i, j] + b[j], 0.0), name="z")
    return create_prim_func([x, w, b, z], name="kernel"), frozenset({"w"})


def kernels() -> None:
    """The questions of two kernels, and what share of their compilation they are."""
    for make in (convolution, product):
        func, constants = make()
        lower(schedule(func, HARDWARE, constants).func)  # imports and caches
        whole = median(lambda f=func, c=constants: lower(schedule(f, HARDWARE, c).func), 1, 5)  # type: ignore[misc]
        log: list[Entry] = []
        with recorded(log):
            lower(schedule(func, HARDWARE, constants).func)
        asked = median(lambda log=log: replay(log))  # type: ignore[misc]
        count = Counter(name for name, *_ in log)
        print(
            f"questions of the {make.__name__}: {', '.join(f'{v} {k}' for k, v in count.items())}"
        )
        line("scheduling and lowering", whole)
        line(f"its {len(log)} questions again", asked)


if __name__ == "__main__":
    expressions()
    maps()
    worst()
    kernels()
