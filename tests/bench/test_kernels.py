"""Cases of the single operators, their limits, and what the tables make of the results."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import smelt
from benchmarks import kernels, peak, report, shapes
from benchmarks.kernels import PARTS, Part
from benchmarks.shapes import Conv, MatMul
from smelt.cli.results import arrays
from smelt.codegen.llvm import resolve
from smelt.codegen.peak import Peak
from smelt.runtime import NativeExecutable
from smelt.target import Target, machine_of

SMALL = MatMul(2, 8, 16)


def test_random_cases_are_the_same_every_time() -> None:
    for group in ("random", "grouped"):
        assert shapes.cases(group) == shapes.cases(group)
    assert shapes.random_cases(2, 4) != shapes.random_cases(1, 4)


def test_cases_in_groups_cover_widths_and_filters() -> None:
    found = [case for case in shapes.grouped_cases() if isinstance(case, Conv)]
    widths = {case.i // case.groups for case in found}
    assert len(found) == shapes.GROUPED
    assert min(widths) >= 4
    assert max(widths) <= 64
    assert any(width % 2 for width in widths)
    assert {(case.side, case.stride) for case in found} == {(1, 1), (1, 2), (3, 1), (3, 2)}
    assert any(case.i == case.o for case in found)
    assert any(case.i != case.o for case in found)


def test_rows_are_one_to_sixteen() -> None:
    assert {case.m for case in shapes.few_rows() if isinstance(case, MatMul)} == {*range(1, 17)}


def test_a_case_knows_its_operations_and_bytes() -> None:
    assert (SMALL.flops, SMALL.weight_bytes, SMALL.bytes) == (512, 512, 4 * (32 + 128 + 16))
    assert MatMul(2, 8, 16, constant=False).weight_bytes == 0
    conv = Conv(8, 12, 5, 1, groups=4)
    assert (conv.flops, conv.weight_bytes) == (2 * 25 * 2 * 12, 4 * 12 * 2)
    assert conv.bytes == conv.weight_bytes + 4 * 25 * (8 + 12)


@pytest.mark.parametrize("case", [SMALL, Conv(6, 9, 5, 3, 2, 3)], ids=lambda case: case.label)
def test_a_model_has_the_inputs_and_weights_that_its_case_tells(case: shapes.Case) -> None:
    model = case.model()
    onnx.checker.check_model(model, full_check=True)
    (weights,) = model.graph.initializer
    assert np.prod(weights.dims) * shapes.FLOAT == case.weight_bytes
    given = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    assert given == {name: [*shape] for name, shape in case.inputs.items()}


def test_cold_weights_stand_at_many_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "far", lambda: 5 * SMALL.weight_bytes)
    exe = smelt.compile(SMALL.model(), options=smelt.Options(threads=1))
    assert isinstance(exe, NativeExecutable)
    found = kernels.copies(exe)
    assert exe.weights is not None
    assert 1 < len(found) <= 5
    assert len({one.weights.ctypes.data for one in found if one.weights is not None}) == len(found)
    x = shapes.normal(2, 16)
    for one in found:
        a, b = arrays((one(x), exe(x)))
        np.testing.assert_array_equal(a, b)


def test_the_nearer_limit_counts() -> None:
    assert kernels.allowed(SMALL, 704, gflops=1.0, gbytes=1.0) == 704e-9
    assert kernels.allowed(SMALL, 704, gflops=1.0, gbytes=100.0) == 512e-9


@pytest.mark.parametrize(
    "part", [Part("rows"), Part("rows", cold=True), Part("rows", cpu="x86-64")]
)
def test_a_case_is_measured(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "far", lambda: 2 * SMALL.weight_bytes)
    found = kernels.share(SMALL, part, 1, peak.probe(1, part.cpu), rounds=1)
    assert found["model"] > 0
    assert ("kernel" in found) != part.cold


def test_only_large_weights_are_measured_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    def share(case: shapes.Case, *_: object) -> report.Results:
        return {"model": float(case.weight_bytes)}

    monkeypatch.setattr(kernels, "share", share)
    monkeypatch.setattr(kernels, "far", lambda: kernels.COPIES << 20)
    rows = kernels.part_rows("matmul-cold", 1, quick=False)
    assert min(row["model"] for row in rows) == 1 << 20
    assert len(kernels.part_rows("matmul", 1, quick=False)) > len(rows)


def test_the_limit_without_fused_multiply_adds_is_that_of_two_instructions() -> None:
    """Peak calls fmaf there, once an element."""
    target = resolve(Target("llvm -mcpu=x86-64"))
    machine = machine_of(target)
    assert not machine.fma
    assert isinstance(peak.probe(1, "x86-64"), peak.Unfused)
    assert type(peak.probe(1, "x86-64-v3")) is Peak
    text = peak.unfused_text(machine)
    count = machine.vector_registers - 2
    assert text.count("fmul <4 x float>") == count
    assert "call" not in text


def rows(count: int, **more: float) -> list[report.Results]:
    return [{"case": f"c{n}", "kernel": n / 100, "model": n / 50, **more} for n in range(count)]


def test_many_random_cases_are_shown_by_tenths() -> None:
    entries = [{"group": "random", "threads": 1, "rows": rows(99)}]
    text = kernels.section({"groups": entries})
    assert "| tenth percentile | 9 % | 18 % |" in text
    assert "| median | 49 % | 98 % |" in text
    assert "c7" not in text


def test_disturbed_cases_are_marked() -> None:
    entry = {"group": "rows", "threads": 1, "rows": rows(1, foreign_cores=1.0) + rows(2)[1:]}
    text = kernels.section({"groups": [entry]})
    assert "| c0 ~ | 0 % | 0 % |\n| c1 | 1 % | 2 % |" in text


def test_cold_cases_have_no_kernel_column_and_failures_say_why() -> None:
    found = [{"case": "a", "model": 0.5}, {"case": "b", "error": "why"}]
    text = kernels.section({"groups": [{"group": "rows-cold", "threads": 2, "rows": found}]})
    assert "**MatMul, 1 to 16 rows, constant B, cold weights, 2 thread(s)**" in text
    assert "| case | whole call |\n|---|---:|\n| a | 50 % |\n| b | why |" in text


def test_the_worst_ratios_to_the_best_peer_are_named() -> None:
    found = [{"case": f"c{n}", "best_ratio": float(n), "best": "openvino"} for n in range(1, 40)]
    text = kernels.peer_table({"threads": 1, "rows": [*found, {"case": "d", "error": "why"}]})
    assert "| median | 20.00 |  |\n| ninetieth | 36.00 |  |\n| c39 | 39.00 | openvino |" in text
    assert text.endswith("| d | why |  |")
    assert "c34" not in text


def test_every_part_has_cases() -> None:
    assert all(shapes.cases(part.group) for part in PARTS.values())
    assert shapes.smallest(shapes.resnet(), 1)[0].flops == min(c.flops for c in shapes.resnet())
