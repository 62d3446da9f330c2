"""The texts of errors: each names the template, what is wrong with it, and what would be legal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from smelt import autotvm
from smelt.ir.errors import SmeltError

from . import templates

OPTION = autotvm.measure_option("local", "local")
LINE = (
    '{"input": ["llvm", "test/faulty", [16, "x"], {}], "config": {"index": 1, "code_hash": null, '
    '"entity": [["tile", "sp", [-1, 2]]]}, "result": [[0.1], 0, 0.1, 1], "version": 0.2}'
)


def made(how: str) -> Any:
    return autotvm.task.create("test/faulty", (16, how), "llvm")


def tuned(how: str) -> None:
    autotvm.tuner.XGBTuner(made(how), seed=0).tune(3, OPTION)


CASES: dict[str, Callable[[], Any]] = {
    **{how: partial(made, how)
       for how in ("raises", "returns", "knob", "axis", "twice", "policy", "order", "annotation",
                   "empty", "no_axis", "outputs", "candidate")},
    "no_valid_point": lambda: tuned("refuses"),
    "argument": lambda: autotvm.task.create("test/faulty", (16, object), "llvm"),
    "by_name": lambda: templates.matmul_template(n=16),
    "config_index": lambda: made("").config_space.get(99),
    "no_option": lambda: autotvm.tuner.XGBTuner(made("")).tune(3, None),
    "runner": lambda: autotvm.measure_option("local", "remote"),
    "builder": lambda: autotvm.measure_option(None, "local"),
    "build_func": lambda: autotvm.LocalBuilder(build_func="ndk"),
    "rpc": lambda: autotvm.RPCRunner("rpi", "0.0.0.0", 9190, repeat=0),
    "range": lambda: autotvm.tuner.RandomTuner(made(""), range_idx=(3, 99)),
    "tuner_option": lambda: autotvm.tuner.GATuner(made(""), popsize=3),
    "loss": lambda: autotvm.tuner.XGBTuner(made(""), loss_type="rnak"),
    "pickle": lambda: autotvm.record.decode(LINE, protocol="pickle"),
    "version": lambda: autotvm.record.decode('{"version": 0.1}'),
    "row": lambda: autotvm.record.decode('{"version": 0.2}'),
    "config": lambda: autotvm.record.decode(LINE.replace("entity", "entities")),
    "absent": lambda: autotvm.graph_tuner,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_error(name: str, golden: Callable[[str], None]) -> None:
    with pytest.raises(SmeltError) as caught:
        CASES[name]()
    golden(f"{type(caught.value).__name__}: {caught.value}")


def test_a_corrupt_line_says_file_and_line(tmp_path: Path) -> None:
    log = tmp_path / "tune.log"
    log.write_text(f'{LINE}\n# a comment\n\n{{"input": \n')
    with pytest.raises(SmeltError, match=r"tune\.log:4: no JSON"):
        autotvm.apply_history_best(log)
    with pytest.raises(SmeltError, match="there is no such log"):
        autotvm.apply_history_best(tmp_path / "none.log")
    with pytest.raises(SmeltError, match="records is a int"):
        autotvm.apply_history_best(3)


def test_an_unknown_template_is_named() -> None:
    with pytest.raises(SmeltError, match="no template 'test/fault'; nearest: test/faulty"):
        autotvm.task.create("test/fault", (), "llvm")


def test_an_axis_of_another_schedule_is_refused() -> None:
    with pytest.raises(SmeltError, match="j is no axis of B"):
        made("axis")
