"""Measuring: what is found, and how it ends where candidates misbehave."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from smelt.codegen.frames import pack
from smelt.codegen.llvm import link_in_process, object_code
from smelt.codegen.llvm_text import entry_text
from smelt.codegen.worker_process import WorkerProcess
from smelt.pipeline import LOWER
from smelt.runtime import native
from smelt.search.build import BuildJob, BuiltCandidate, Operand, build_candidate
from smelt.search.record import ErrorCode
from smelt.search.runner import Attempt, LocalRunner
from smelt.search.space import Candidate, RuleSpace
from smelt.search.timer import Here, _Memory, pattern
from smelt.search.timing import Protocol, ratio_interval

from .programs import HERE, spec

OPERANDS = (Operand("input", "float32", 64), Operand("output", "float32", 64))
QUICK = Protocol(seconds=0.005)


def by_hand(body: str, digest: str) -> Attempt:
    """A candidate whose function is written in LLVM's words."""
    text = f"define i32 @candidate(ptr %host, ptr %a, ptr %b) {{\n{body}\n}}\n"
    text += entry_text("candidate", ["ptr", "ptr"])
    code = object_code(HERE, text, "candidate")
    built = BuiltCandidate(code, OPERANDS, (), "", "", digest, True, OPERANDS)
    return Attempt(Candidate(digest, 1.0, np.zeros(1), None), built)


COPY = "%x = load float, ptr %a\nstore float %x, ptr %b\nret i32 0"


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalRunner]:
    with LocalRunner(timeout=2.0) as made:
        yield made


def test_what_is_found(runner: Any) -> None:
    found = runner.run(by_hand(COPY, "copy"), by_hand(COPY, "other"), QUICK)
    assert found.error == ErrorCode.OK
    assert len(found.timed.seconds) == len(found.timed.reference) >= QUICK.least
    assert found.timed.difference == 0.0
    assert all(t > 0 for t in (*found.timed.seconds, *found.timed.reference))


@pytest.mark.parametrize(
    ("body", "error", "said"),
    [
        ("store i32 0, ptr null\nret i32 0", ErrorCode.CRASH, "died of SIGSEGV"),
        ("br label %again\nagain:\nbr label %again", ErrorCode.TIMEOUT, "was stopped"),
        ("ret i32 7", ErrorCode.RUNTIME, "status 7"),
        ("store float 9.0, ptr %b\nret i32 0", ErrorCode.WRONG, "apart from the default's"),
        ("store float 0x7FF8000000000000, ptr %b\nret i32 0", ErrorCode.WRONG, "apart"),
    ],
)
def test_how_it_ends(runner: Any, body: Any, error: Any, said: Any) -> None:
    reference = by_hand(COPY, "copy")
    found = runner.run(reference, by_hand(body, f"ends {error}"), QUICK)
    assert found.error == error
    assert said in found.message
    assert runner.run(reference, by_hand(COPY, "other"), QUICK).error == ErrorCode.OK


def test_operands_of_candidates_may_have_other_sizes(runner: Any) -> None:
    """Memory that the default points to stays where it is."""
    space = RuleSpace(spec(constants=(False, True, False)))
    pool = space.pool(np.random.default_rng(0), [], lambda prior, _: prior)
    first = space.default()
    every = [first, *[pool.candidate(n) for n in range(0, len(pool), max(1, len(pool) // 6))]]
    for compare in (False, True, False):
        built = [build_candidate(BuildJob(space.source(c), HERE, tuple(LOWER), 1, compare))
                 for c in every]  # fmt: skip
        reference = Attempt(first, built[0])
        for c, b in zip(every, built, strict=True):
            found = runner.run(reference, Attempt(c, b), QUICK)
            assert found.error == ErrorCode.OK, found.message
            apart = found.timed.difference
            assert apart is None if not compare or b.digest == built[0].digest else apart < 1e-5


def test_candidates_run_on_as_many_threads_as_they_may(runner: LocalRunner) -> None:
    """Processes of their own have as many threads as the protocol says, whatever the others."""
    for cores in (1, 2, 1):
        attempt = by_hand(COPY, "copy")
        assert runner.run(attempt, attempt, replace(QUICK, cores=cores)).error == ErrorCode.OK
        assert runner.threads == cores
    process = WorkerProcess(2)
    process.send(1, pack(("smelt.runtime.native:num_threads", (), "threads")))
    assert pickle.loads(process.receive(60)) == ("ok", 2)
    process.kill()
    process.bury()


def test_constants_of_both_sides_lie_apart() -> None:
    """Of two candidates in turns the second must not find in the caches what the first has read;
    together the copies are what a model reads between two calls."""
    operands = (Operand("input", "float32", 400), Operand("constant", "float32", 1000),
                Operand("output", "float32", 400))  # fmt: skip
    memory = _Memory(Here())
    one, other = [memory.places(operands, 10_000, side) for side in (0, 1)]
    assert [p.memory is q.memory for p, q in zip(one, other, strict=True)] == [True, False, True]
    for p in (one[1], other[1]):
        assert (p.bytes, p.stride, p.copies, p.memory.size) == (1000, 1024, 5, 5 * 1024)
    assert [p.copies for p in (one[0], one[2])] == [1, 1]
    assert [p.touched for p in one] == [3, 0, 2]
    again = memory.places(operands, 10_000, 1)
    assert all(p.memory is q.memory for p, q in zip(again, other, strict=True))
    assert memory.places(operands, 0, 0)[1].copies == 1


def test_indices_are_where_they_may_be() -> None:
    below = pattern("int64", 8 * 1000, 0, 7).view(np.int64)
    assert {*below} == {*range(7)}
    assert not pattern("int64", 80, 0).any()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_touched_memory_holds_what_it_held(threads: int) -> None:
    """Calls take copies in turns; what is touched before them is not changed."""
    text = """define i32 @candidate(ptr %host, ptr %count, ptr %other) {
    %old = load i64, ptr %count
    %new = add i64 %old, 1
    store i64 %new, ptr %count
    ret i32 0 }"""
    code = object_code(HERE, text + entry_text("candidate", ["ptr", "ptr"]), "candidate")
    addresses, alive = link_in_process([code], ["smelt_entry"])
    for size in (8, 63, 4096, 100_001):
        counts = np.zeros(3 * 16, np.int64)
        memory = np.random.default_rng(size).integers(0, 255, size).astype(np.uint8)
        before = memory.copy()
        operands = [native.Operand(counts.ctypes.data, 8, 128, 3, 1),
                    native.Operand(memory.ctypes.data, size, 0, 1, 2)]  # fmt: skip
        seconds = native.time_entry(addresses["smelt_entry"], operands, (), 1, 7, threads)
        assert seconds > 0
        assert [*counts[::16]] == [2, 3, 2]
        assert np.array_equal(memory, before)
    del alive


def test_the_interval_of_a_ratio() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.uniform(0.98, 1.02, 40), rng.uniform(0.98, 1.02, 40)
    low, high = ratio_interval(list(0.9 * one), list(other))
    assert low < 0.9 < high < 0.93
    low, high = ratio_interval(list(one), list(other))
    assert low < 1.0 < high
    other[::7] *= 10  # somebody else's work
    low, high = ratio_interval(list(0.9 * one), list(other))
    assert high < 0.95
    assert ratio_interval([1.0, 1.0], [1.0, 1.0]) == (0.0, float("inf"))


@pytest.mark.parametrize("seed", range(20))
def test_intervals_of_equal_times_hold_one(seed: Any) -> None:
    """At 95 % it may be one of the twenty that does not; none of these seeds is."""
    rng = np.random.default_rng(seed)
    one, other = np.exp(rng.normal(0, 0.1, 30)), np.exp(rng.normal(0, 0.1, 30))
    low, high = ratio_interval(list(one), list(other))
    assert low < 1.0 < high
