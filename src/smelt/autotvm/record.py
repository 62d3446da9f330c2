"""Tuning logs: a line of JSON for each measurement, in version 0.2 of the classic form.

    {"input": [target, task, args, kwargs], "config": {"index": 3, "code_hash": null, "entity":
     [["tile_y", "sp", [-1, 32]]]}, "result": [costs, error, all_cost, timestamp], "version": 0.2,
     "tvm_version": "..."}

What a log says is data: nothing of it is executed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import smelt
from smelt.ir.errors import CompileError, ParseError, SmeltError
from smelt.pipeline import as_target

from .measure import MeasureErrorNo, MeasureInput, MeasureResult
from .space import ConfigEntity
from .templates import Task

AUTOTVM_LOG_VERSION = 0.2
FAILED = 1e9
"""Seconds that stand for a failure."""

Pair = tuple[MeasureInput, MeasureResult]


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """What tells measurements apart."""
    config = str(inp.config) if include_config else ""
    return f"{inp.target}{inp.task.name}{inp.task.args}{inp.task.kwargs}{config}"


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """A measurement as a line."""
    _check(protocol)
    costs = (FAILED,) if result.error_no else tuple(map(float, result.costs))
    return json.dumps({
        "input": (str(inp.target), inp.task.name, inp.task.args, inp.task.kwargs),
        "config": inp.config.to_json_dict(),
        "result": (costs, int(result.error_no), result.all_cost, result.timestamp),
        "version": AUTOTVM_LOG_VERSION,
        "tvm_version": smelt.__version__,
    })  # fmt: skip


def _check(protocol: str) -> None:
    if protocol != "json":
        raise CompileError(
            f"protocol {protocol!r}: reading it would execute what a log says; legal: 'json'"
        )


def decode(row: str, protocol: str = "json") -> Pair | None:
    """A measurement from a line; None for an empty one, or a comment.

    Raises ParseError, CompileError for a line that is none.
    """
    _check(protocol)
    if not row.strip() or row.startswith("#"):
        return None
    try:
        found = json.loads(row)
    except ValueError as e:
        raise ParseError(f"no JSON: {e}") from None
    if not isinstance(found, Mapping) or found.get("version") != AUTOTVM_LOG_VERSION:
        version = found.get("version") if isinstance(found, Mapping) else None
        raise ParseError(f"version {version!r}; legal: {AUTOTVM_LOG_VERSION}")
    try:
        target, name, args, kwargs = found["input"]
        costs, error, all_cost, timestamp = found["result"]
        result = MeasureResult(tuple(map(float, costs)), int(error), float(all_cost),
                               float(timestamp))  # fmt: skip
        task = Task(str(name), _tuples(args))
        task.kwargs = dict(kwargs)
        config = ConfigEntity.from_json_dict(found["config"])
        error_no = MeasureErrorNo(result.error_no)
    except (KeyError, TypeError, ValueError) as e:
        raise ParseError(
            f"{type(e).__name__}: {e}; legal: input = [target, task, args, kwargs], config, result "
            "= [costs, error, all_cost, timestamp]"
        ) from None
    task.target = as_target(target)
    return MeasureInput(task.target, task, config), result._replace(error_no=error_no)


def _tuples(x: Any) -> Any:
    return tuple(map(_tuples, x)) if isinstance(x, list) else x


def load_from_buffer(file: IO[str], name: str = "") -> Iterator[Pair]:
    """The measurements of an open log, in order.

    name  of the file, for messages. Raises ParseError with the line where one is none.
    """
    name = name or str(getattr(file, "name", "the log"))
    for number, line in enumerate(file, start=1):
        try:
            found = decode(line)
        except SmeltError as e:
            raise ParseError(f"{name}:{number}: {e}") from e
        if found is not None:
            yield found


def load_from_file(filepath: str | os.PathLike[str]) -> Iterator[Pair]:
    """The measurements of a log, in order. Raises ParseError with file and line, OSError."""
    path = Path(filepath)
    if not path.is_file():
        raise CompileError(f"{path}: there is no such log")
    with path.open(encoding="utf-8", errors="replace") as file:
        yield from load_from_buffer(file, str(path))


def fastest(pairs: Iterable[Pair]) -> dict[tuple[str, Any], Pair]:
    """Of each target and program the fastest measurement."""
    best: dict[tuple[str, Any], Pair] = {}
    for inp, result in pairs:
        key = str(inp.target), inp.task.workload
        if not result.error_no and (key not in best or result.mean < best[key][1].mean):
            best[key] = inp, result
    return best


def pick_best(in_file: str | os.PathLike[str] | Iterable[Pair], out_file: Any) -> None:
    """Keep of each target and program the fastest measurement.

    in_file  a log, or measurements; out_file: the path of a log, or an open one
    """
    pairs = load_from_file(in_file) if isinstance(in_file, str | os.PathLike) else in_file
    lines = [encode(*pair) + "\n" for pair in fastest(pairs).values()]
    if isinstance(out_file, str | os.PathLike):
        Path(out_file).write_text("".join(lines), encoding="utf-8")
    else:
        out_file.writelines(lines)


def split_workload(in_file: str | os.PathLike[str], clean: bool = True) -> list[Path]:
    """Write a log for each program: NAME.000.wkl, NAME.001.wkl, ... beside it; their paths.

    clean  leave out failures, and all but the first of equal measurements; the fastest come first
    """
    groups: dict[Any, list[Pair]] = {}
    for inp, result in load_from_file(in_file):
        groups.setdefault(inp.task.workload, []).append((inp, result))
    made = []
    for number, pairs in enumerate(groups.values()):
        if clean:
            good = {measure_str_key(i): (i, r) for i, r in reversed(pairs) if not r.error_no}
            pairs = sorted(good.values(), key=lambda p: p[1].mean)
        path = Path(f"{os.fspath(in_file)}.{number:03d}.wkl")
        path.write_text("".join([encode(*p) + "\n" for p in pairs]), encoding="utf-8")
        made.append(path)
    return made
