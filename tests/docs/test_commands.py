"""The commands in the documents exist: subcommands and options, modules, targets, files."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from .pages import DOCUMENTS, ROOT, blocks, name

PAGES = [*DOCUMENTS, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
SHELLS = ("sh", "console")
OURS = ("smelt", "tests", "benchmarks")
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][a-z-]*")

LOUD = {"-v", "-vv", "--verbose"}  # in front of a command and behind it


def commands(page: Path) -> list[tuple[int, list[str]]]:
    """The commands in a page's shell blocks, with their lines."""
    found = []
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language not in SHELLS:
            continue
        for number, line in enumerate(block.code.splitlines(), start=block.line):
            text = line.removeprefix("$ ") if block.language == "console" else line
            for part in re.split(r" && ", text):
                if words := shlex.split(part, comments=True):
                    found.append((number, words))
    return found


@cache
def options(*command: str) -> frozenset[str]:
    """The words in the help of a command of smelt that may be options."""
    env = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    program = [sys.executable, "-m", "smelt.cli.main", *command, "--help"]
    done = subprocess.run(program, capture_output=True, text=True, env=env)
    assert done.returncode == 0, f"smelt {' '.join(command)}: {done.stderr}"
    return frozenset(OPTION.findall(done.stdout))


def wrong(words: list[str]) -> str:
    """What of a command does not exist; "" where all does."""
    program, *rest = words
    given = [w for w in rest if w.startswith("-")]
    match Path(program).name:
        case "smelt":
            command = [w for w in rest if not w.startswith("-")][:1]
            known = options(*command) | LOUD
            return " ".join([o for o in given if o.partition("=")[0] not in known])
        case "make":
            folder = ROOT / rest[rest.index("-C") + 1] if "-C" in rest else ROOT
            folder = ROOT if folder.name == "smelt" else folder
            text = (folder / "Makefile").read_text(encoding="utf-8")
            values = [rest[i + 1] for i, w in enumerate(rest) if w == "-C"]
            goals = [w for w in rest if not w.startswith("-") and "=" not in w and w not in values]
            return " ".join([g for g in goals if not re.search(rf"^{g}:", text, re.M)])
        case "python" if rest[:1] == ["-m"]:
            ours = rest[1].split(".")[0] in OURS
            return "" if not ours or importlib.util.find_spec(rest[1]) else rest[1]
        case "python":
            return "" if (ROOT / rest[0]).exists() else rest[0]
    return ""


def test_what_does_not_exist_is_found() -> None:
    assert wrong(["smelt", "compile", "a.onnx", "--targt", "llvm", "-o", "a.so"]) == "--targt"
    assert wrong(["make", "demo"]) == wrong(["make", "-C", "smelt", "demo"]) == ""
    assert wrong(["make", "coffee", "JOBS=2"]) == "coffee"
    assert wrong(["python", "-m", "tests.nothing"]) == "tests.nothing"
    assert wrong(["python", "examples/nothing.py"]) == "examples/nothing.py"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_commands_of_the_page_exist(page: Path) -> None:
    for line, words in commands(page):
        assert wrong(words) == "", f"{name(page)}:{line}"
