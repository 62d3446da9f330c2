"""Times several ways to do the same work, so that a disturbance meets all of them alike."""

import statistics
import time
from collections.abc import Callable, Sequence

Call = Callable[[], object]


def interleave(calls: Sequence[Call], seconds: float = 2.0, rounds: int = 7) -> list[list[float]]:
    """Milliseconds of single calls, one list for each of `calls`, in batches A B A B …

    In front of every batch the process rests for a moment, so that spinning threads of the one
    before have gone to sleep, and the call warms up again.
    """
    share = seconds / (rounds * len(calls))
    samples: list[list[float]] = [[] for _ in calls]
    for turn in range(rounds + 1):
        for call, kept in zip(calls, samples, strict=True):
            time.sleep(0.02)
            call()
            batch = _batch(call, share)
            if turn:  # the first round is the warm-up
                kept.extend(batch)
    return samples


def _batch(call: Call, seconds: float) -> list[float]:
    """Milliseconds of each call made in `seconds`; at least three."""
    taken: list[float] = []
    start = last = time.perf_counter()
    while last - start < seconds or len(taken) < 3:
        call()
        now = time.perf_counter()
        taken.append((now - last) * 1e3)
        last = now
    return taken


def summary(samples: Sequence[float]) -> dict[str, float]:
    """The figures of a list of milliseconds."""
    return {
        "median_ms": statistics.median(samples),
        "mean_ms": statistics.fmean(samples),
        "std_ms": statistics.pstdev(samples),
        "min_ms": min(samples),
        "max_ms": max(samples),
        "calls": len(samples),
    }
