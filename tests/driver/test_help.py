"""The help, and the page that says of every option what it does."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

import smelt
from smelt.driver.tvmc.arguments import REFUSED
from smelt.driver.tvmc.main import parser

from .conftest import Command, typed

PAGE = (Path(__file__).parents[2] / "docs" / "tvmc.md").read_text(encoding="utf-8")
KINDS = re.compile(r"--(target|executor|runtime)-[\w-]+-[\w-]+")


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parsers of the commands."""
    found = [a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(found[0].choices)


def options(command: str) -> set[str]:
    """The long options of a command, without those of kinds."""
    named = [o for a in commands()[command]._actions for o in a.option_strings]
    return {o for o in named if o.startswith("--") and o != "--help" and not KINDS.fullmatch(o)}


def rows(heading: str) -> set[str]:
    """The options in the tables below a heading of the page."""
    text = PAGE.partition(f"\n### {heading}\n")[2].split("\n### ")[0].split("\n## ")[0]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    named = {o for cell in cells for o in re.findall(r"--[a-zA-Z-]+", cell)}
    return {o for o in named if not KINDS.fullmatch(o)}


def test_the_page_has_every_option() -> None:
    shared = rows("All commands") - {"--version"} | set(REFUSED)
    both = rows("Models and targets")
    for command in ("compile", "run", "tune"):
        about = rows(command) | shared | (set() if command == "run" else both)
        assert options(command) == about, command
    assert rows("Refused") == set(REFUSED)


def test_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command, groups in {
        "compile": ("target llvm:", "executor aot:", "runtime cpp:", "graph transformations:"),
        "tune": ("AutoTVM:", "AutoScheduler:", "target llvm:"),
        "run": ("positional arguments:",),
    }.items():
        assert typed(f"{command} --help") == 0
        said = capsys.readouterr().out
        assert said.startswith(f"usage: tvmc {command} [-h]")
        assert all(f"\n{group}\n" in said for group in groups)
        assert not [o for o in REFUSED if f"{o} " in said]


def test_without_a_command(tvmc: Command) -> None:
    assert typed("") == 1
    assert tvmc("--version") == f"{smelt.__version__}\n"


def test_the_module_is_a_program(folder: Path) -> None:
    words = [sys.executable, "-m", "smelt.driver.tvmc", "-v", "compile", "net.onnx", "-f", "tar"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "compiled" in done.stderr or "kernels" in done.stderr
    done = subprocess.run([*words[:3], "run", "module.tar", "--print-top", "1"],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("index")
