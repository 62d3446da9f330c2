"""`smelt memory`, and `smelt compile --target c`."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner

from smelt.artifact.placing import Lifetime, place
from smelt.cli.commands import app
from smelt.ir.config import MEMORY_ALGORITHMS
from tests.models import conv_nets


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "net.onnx"
    onnx.save(conv_nets.dscnn(1), path)
    return str(path)


def said(*arguments: str | Path, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    if code:
        return str(done.exception)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def test_it_says_what_is_needed(model: str, tmp_path: Path) -> None:
    page = tmp_path / "memory.html"
    found = json.loads(said("memory", model, "--json", "--page", page))
    assert found["workspace"] >= found["least"] > 0
    assert max(s["live"] for s in found["steps"]) == found["least"]
    for b in found["blocks"]:
        assert 0 <= b["offset"] <= found["workspace"] - b["size"]
    text = page.read_text()
    assert text.count("<rect") == len(found["blocks"])
    assert f"{found['workspace']:,} bytes" in text
    assert f"workspace {found['workspace']:,} bytes" in said("memory", model)


def test_what_does_not_fit_is_an_error(model: str) -> None:
    text = said("memory", model, "--ram", "1000", code=1)
    assert "bytes of RAM" in text
    assert "more than the 1,000 given" in text
    assert "most of it in step" in text
    text = said("memory", model, "--flash", "10", code=1)
    assert "more than the 10 bytes of flash given" in text
    assert "--target llvm" in said("memory", model, "--target", "llvm", code=1)


def test_c_is_written_whole_or_not_at_all(model: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    found = json.loads(said("compile", model, "--target", "c", "-o", out / "net.c", "--json"))
    assert sorted(p.name for p in out.iterdir()) == ["net.c", "net.h"]
    assert found["header"] == str(out / "net.h")
    assert found["workspace_bytes"] > 0
    wrong: list[tuple[list[str | Path], str]] = [
        (["-o", out / "net.so"], ".so files cannot be written; legal: C, model.c"),
        (["--cc", "gcc", "-o", out / "a.c"], "--cc: C is a source and a header beside it"),
        (["--threads", "2", "-o", out / "a.c"], "--threads 2: C runs on one core"),
        (["-o", out / "none" / "a.c"], "does not exist"),
    ]
    for more, words in wrong:
        assert words in said("compile", model, "--target", "c", *more, code=1)
    assert "; legal: cortex-m0, cortex-m0plus, cortex-m1" in said(
        "compile", model, "--target", "c -mcpu=m4", code=1
    )
    assert sorted(p.name for p in out.iterdir()) == ["net.c", "net.h"]


def test_the_plan_by_pool(model: str, tmp_path: Path) -> None:
    page = tmp_path / "memory.html"
    pools = ["--pool", "dtcm=2K", "--pool", "sram", "--constant-pool", "flash=1M"]
    found = json.loads(said("memory", model, "--json", "--page", page, *pools))
    used = {p["name"]: p for p in found["pools"]}
    assert [(p["size"], p["constants"]) for p in used.values()] == [
        (2048, False), (None, False), (1 << 20, True)
    ]  # fmt: skip
    assert {b["pool"] for b in found["blocks"]} == {"dtcm", "sram"}
    text = page.read_text()
    assert text.count("<svg") == 2
    assert text.count("<rect") == len(found["blocks"])
    assert f"dtcm: {used['dtcm']['used']:,} bytes of 2,048</h2>" in text
    shown = said("memory", model, *pools)
    assert f"sram: {used['sram']['used']:,} bytes\n" in shown
    assert f"flash: {found['constants']:,} bytes of constants of 1,048,576\n" in shown
    text = said("memory", model, "--pool", "a=1K", "--pool", "b=2K", code=1)
    assert "memory pools are too small: " in text
    assert "a has 1,024 bytes: " in text
    for wrong in ("sram=", "sram=4k", "a b=4"):
        assert "legal: sram, sram=65536" in said("memory", model, "--pool", wrong, code=1)


@pytest.mark.parametrize("algorithm", MEMORY_ALGORITHMS)
def test_seven_blocks_take_three(algorithm: str) -> None:
    """The document's example: 112 KB become 48."""
    times = [(0, 1), (1, 2), (2, 3), (2, 5), (5, 6), (6, 7), (7, 8)]
    blocks = [Lifetime(16384, first, last) for first, last in times]
    placed = place(blocks, algorithm)
    assert placed.total == placed.live == 49152
    for a, p in zip(blocks, placed.offsets, strict=True):
        for b, q in zip(blocks, placed.offsets, strict=True):
            assert a is b or not a.meets(b) or p + a.size <= q or q + b.size <= p
