"""Workloads and records, and processes that write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from smelt.search.database import Database
from smelt.search.json_database import JSONDatabase
from smelt.search.record import ErrorCode, Record, Workload
from smelt.search.sql_database import SQLDatabase

W = Workload("a" * 32, "fused_matmul", "def main():\n    pass", (False, True))
OTHER = Workload("b" * 32, "softmax", "def main():\n    ...")


def record(workload: Workload = W, machine: str = "m1", **fields: object) -> Record:
    """A record with some fields of its own."""
    given: dict[str, Any] = {"trace": "split('i', 8)", "seconds": (2e-5, 1e-5, 3e-5), **fields}
    return Record(workload.key, machine, "llvm", **given)


def writer(where: str, first: int, count: int, pipe: object = None) -> None:
    """Put records one by one, each with a number of its own; say each number afterwards."""
    opened = opens(where)
    for i in range(first, first + count):
        opened.put(W, [record(when=float(i), features=(i / 3,) * 300)])
        if pipe is not None:
            pipe.send(i)  # type: ignore[attr-defined]
    opened.close()


def opens(where: str) -> Database:
    """As `open_database` does, by the ending."""
    path = Path(where)
    return JSONDatabase(f"{path}.w", path) if path.suffix == ".json" else SQLDatabase(where)


finite = st.floats(allow_nan=False, allow_infinity=False)
times = st.floats(min_value=0, allow_infinity=False)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


@st.composite
def records(draw: st.DrawFn, workload: str) -> Record:
    """Any record that may be kept."""
    return Record(
        workload,
        machine=draw(texts),
        target=draw(texts),
        trace=draw(texts),
        body=draw(texts),
        decision=draw(texts),
        source=draw(texts),
        seconds=tuple(draw(st.lists(times, max_size=4))),
        relative=draw(st.none() | times),
        confirmed=draw(st.booleans()),
        predicted=draw(times),
        features=tuple(draw(st.lists(finite, max_size=4))),
        error=draw(st.sampled_from(ErrorCode)),
        message=draw(texts),
        version=draw(texts),
        when=draw(finite),
    )
