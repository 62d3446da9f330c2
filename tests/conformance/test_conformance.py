"""The ONNX backend suite against the ratchet, and the machinery behind it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from . import ratchet
from .compare import Mismatch, check
from .ratchet import Ratchet, complaints
from .report import PAGE, grouped, page
from .run import Result, Worker

SHARDS = 8


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.close()


@pytest.fixture(scope="module")
def known() -> Ratchet:
    return ratchet.read()


@pytest.mark.parametrize("shard", range(SHARDS))
def test_what_passed_passes_and_what_failed_is_listed(
    shard: int, worker: Worker, known: Ratchet
) -> None:
    names = [n for n in worker.names if n in known.known]
    wrong = complaints(known, [worker.run(n) for n in names[shard::SHARDS]])
    assert not wrong, "\n".join(wrong)


def test_the_lists_hold_every_case_of_this_onnx(worker: Worker, known: Ratchet) -> None:
    if known.version != onnx.__version__:
        pytest.skip(
            f"the lists are of onnx {known.version}, and this is {onnx.__version__}: cases that "
            f"they do not know are not run; {ratchet.UPDATE} writes them anew"
        )
    assert set(worker.names) == known.known, f"{ratchet.UPDATE} writes the lists anew"
    assert not known.passing & known.failing.keys()


def test_the_page_says_what_the_lists_say(known: Ratchet) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(known), f"{ratchet.UPDATE} writes the page"


def test_a_crash_is_the_failure_of_one_case(worker: Worker) -> None:
    os.kill(worker._child, signal.SIGSEGV)
    assert worker.run("node/abs") == Result("node/abs", "the process died: SIGSEGV")
    assert worker.run("node/abs").error is None


def test_a_hang_is_the_failure_of_one_case(worker: Worker) -> None:
    os.kill(worker._child, signal.SIGSTOP)
    assert worker.run("node/abs", 0.2) == Result("node/abs", "no result after 0.2 seconds")
    assert worker.run("node/abs").error is None


def f32(values: object) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (f32([1, 2]), f32([1, 2.001])),
        (f32([np.nan]), f32([np.nan])),
        (np.array(["a"], object), np.array(["a"], object)),
        ([f32([1]), f32([2, 3])], [f32([1]), f32([2, 3])]),
        ([], []),
        (None, None),
        (ml_dtypes.bfloat16(1.0), ml_dtypes.bfloat16(1.0078125)),
        (f32(3), f32(3)),
    ],
)
def test_equal_results_pass(got: object, want: object) -> None:
    check([got], [want], 1e-3, 1e-7)


@pytest.mark.parametrize(
    ("got", "want", "message"),
    [
        (f32([1, 2]), f32([1, 2.5]), "result 0: 1 of 2 elements differ; at (1,): 2.0, wanted 2.5"),
        (f32([1]), np.array([1.0]), "dtype float32, wanted float64"),
        (f32([1]), f32([[1]]), "shape (1,), wanted (1, 1)"),
        (f32([1]), f32([np.nan]), "1 of 1 elements differ; at (0,): 1.0, wanted nan"),
        (np.array(["a"], object), np.array(["b"], object), "['a'], wanted ['b']"),
        ([f32([1])], [f32([2])], "result 0, element 0: 1 of 1 elements differ"),
        ([f32([1])], [], "a sequence of 1, wanted a sequence of 0"),
        (f32([1]), [f32([1])], "a tensor float32[1], wanted a sequence of 1"),
        (None, f32([1]), "None, wanted a tensor float32[1]"),
        (np.array(1, ml_dtypes.float8_e5m2), np.array(1.25, ml_dtypes.float8_e5m2), "wanted 1.25"),
    ],
)
def test_different_results_are_told(got: object, want: object, message: str) -> None:
    with pytest.raises(Mismatch) as caught:
        check([got], [want], 1e-3, 1e-7)
    assert message in str(caught.value)


def test_the_number_of_results_counts() -> None:
    with pytest.raises(Mismatch, match="1 results, wanted 2"):
        check([f32(1)], [f32(1), f32(1)], 1e-3, 1e-7)


def test_the_ratchet_complains_both_ways(tmp_path: Path) -> None:
    first = ratchet.updated(None, [Result("node/a", None), Result("node/b", "E: no\n  way")])
    ratchet.write(first, tmp_path)
    again = ratchet.read(tmp_path)
    assert again == first
    assert again.failing == {"node/b": "E: no way"}
    assert complaints(again, [Result("node/a", None), Result("node/b", "E")]) == []
    lost, won = complaints(again, [Result("node/a", "E: wrong"), Result("node/b", None)])
    assert lost == "node/a fails: E: wrong"
    assert won.endswith(": node/b")
    assert ratchet.UPDATE in won
    better = ratchet.updated(again, [Result("node/b", None)])
    assert better.passing == {"node/a", "node/b"}
    assert not better.failing


def test_reasons_do_not_depend_on_names_and_numbers() -> None:
    errors = [
        "Unsupported: m: node 'x' (Foo-13): axis 3",
        "Unsupported: n: node 'y' (Foo-13): axis 4",
    ]
    assert list(grouped(dict(zip("ab", errors, strict=True))).values()) == [["a", "b"]]
