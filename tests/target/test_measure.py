"""`smelt targets`: the machine by the table, and as it was measured."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from smelt.artifact.graph import plan_graph
from smelt.artifact.model import kernel_specs
from smelt.cli import machine as command
from smelt.cli import main as command_line
from smelt.codegen.llvm import resolve
from smelt.codegen.peak import Measured
from smelt.ir.options import Options
from smelt.runtime.limits import Bandwidth, MachineLimits
from smelt.stages import stage_module
from smelt.target import Machine, Target, machine_of, machine_text

HASWELL = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where machines are kept; nothing is there yet."""
    monkeypatch.setenv("SMELT_CACHE", "1")
    monkeypatch.setenv("SMELT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "machines"


@pytest.fixture
def targets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Runs `smelt targets` and gives what it prints; what is measured is made up."""
    monkeypatch.setattr(command, "measure_machine", lambda report: half_as_fast())

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["smelt", "targets", *arguments])
        with pytest.raises(SystemExit) as done:
            command_line.main()
        assert not done.value.code
        return capsys.readouterr().out

    return run


def this_machine() -> Machine:
    return machine_of(resolve(Target("llvm -mcpu=native")), Options().cores)


def half_as_fast() -> Measured:
    """This machine, with half of what the table says."""
    m = this_machine()
    caches = tuple([c.replace(bytes_per_cycle=c.bytes_per_cycle / 2) for c in m.caches])
    halved = {"memory": m.memory / 2, "memory_all": m.memory_all / 2}
    found = m.replace(**halved, launch=2 * m.launch, caches=caches)

    def limits(cores: int, memory: float) -> MachineLimits:
        levels = [
            Bandwidth(c.name, c.size, cores * c.bytes_per_cycle * m.clock / 2e9) for c in m.caches
        ]
        levels.append(Bandwidth("memory", 1 << 30, memory / 2e9))
        return MachineLimits(cores * m.flops / 2e9, memory / 2e9, tuple(levels), threads=cores)

    return Measured(found, limits(1, m.memory), limits(m.cores, m.memory_all))


def test_the_machine_by_the_table(targets: Callable[..., str]) -> None:
    assert machine_text(this_machine()) in targets()
    assert Machine.from_json(json.loads(targets("--json"))["machine"]) is this_machine()


def test_measured_beside_the_table(targets: Callable[..., str], folder: Path) -> None:
    lines = targets("--measure").splitlines()
    rows = {cells[0]: cells[1:] for cells in map(cells_of, lines) if len(cells) == 5}
    m = this_machine()
    caches = [f"{c.name} read, {n}" for c in m.caches for n in ("one core", "all cores")]
    assert set(rows) == {
        "float32, one core", "float32, all cores", *caches, "memory read, one core",
        "memory read, all cores", "memory latency", "parallel loop",
    }  # fmt: skip
    assert rows["parallel loop"][2:] == ["2.00", "us"]
    assert rows["memory latency"][2:] == ["1.00", "ns"]
    others = set(rows) - {"parallel loop", "memory latency"}
    assert {rows[name][2] for name in others} == {"0.50"}


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_what_was_measured_is_kept_for_targets(targets: Callable[..., str], folder: Path) -> None:
    said = json.loads(targets("--measure", "--json"))
    m = this_machine()
    assert (said["machine"], said["file"]) == (m.to_json(), str(folder / f"{m.cpu}.json"))
    found = machine_of(resolve(Target("llvm -mcpu=native -measured")), m.cores)
    assert found is half_as_fast().machine
    assert found.to_json() == said["measured"]


def test_other_measurements_are_other_kernels(folder: Path) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [8]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    mod: Any = stage_module(model, stage="layout")

    def symbol(words: str) -> str:
        (spec,) = kernel_specs(plan_graph(mod), Target(words), Options(threads=1))
        assert spec is not None
        return spec.symbol

    def measure(clock: float) -> str:
        seen = machine_of(Target(HASWELL)).replace(clock=clock)
        (folder / "haswell.json").write_text(json.dumps(seen.to_json()))
        return symbol(f"{HASWELL} -measured")

    folder.mkdir(parents=True)
    slow, fast = measure(1e9), measure(4e9)
    assert len({slow, fast, symbol(HASWELL)}) == 3
    assert measure(1e9) == slow
