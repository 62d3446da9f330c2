"""The documentation runs: every python block of the README and of docs/ is executed.

The blocks of a file run in order, in one namespace and an empty working directory. Comments in
front of a block say more about it:

    <!-- no-run: reason -->       it is left out
    <!-- needs: torch -->         it is left out where one of these packages is not there
    <!-- with: resnet18.onnx -->  it finds this file: a ResNet-18 with few channels, or a decoder
    <!-- output -->               a text block that the python block before it prints
"""

from __future__ import annotations

import importlib.util
import runpy
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

from smelt.cli.resnet import resnet18
from smelt.relax.op.entry import CORE_NAMES
from smelt.relax.op.registry import BUILDERS
from smelt.relay.dialect import RELAY, SAME

from .pages import PAGES, ROOT, Block, blocks, name

DOCUMENTS = runpy.run_path(str(ROOT / "scripts" / "try_documents.py"))
FILES: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet18.onnx": lambda: resnet18(width=4),
    "decoder.onnx": lambda: onnx.parser.parse_model(DOCUMENTS["DECODER"]),
}


def test_blocks_are_found() -> None:
    page = (
        "text\n```python\na = 1\n```\n```sh\nls\n```\n<!-- no-run: long -->\n\n```python\n!\n```\n"
    )
    page += "- item\n  ```python\n  b = a\n  ```\n"
    assert blocks(page) == [
        Block("python", 3, "a = 1"),
        Block("sh", 6, "ls"),
        Block("python", 11, "!", "no-run", "long"),
        Block("python", 15, "b = a"),
    ]


def is_run(block: Block) -> bool:
    """Whether a block is code to be run here."""
    if block.language != "python" or block.note == "no-run":
        return False
    needed = block.text.split() if block.note == "needs" else []
    return all(importlib.util.find_spec(package) for package in needed)


@pytest.fixture
def names_of_faces() -> Iterator[None]:
    """What a page enters into the faces is for that page alone."""
    tables: list[dict[str, Any]] = [RELAY.ops, SAME, BUILDERS, CORE_NAMES]
    before = [dict(table) for table in tables]
    yield
    for table, was in zip(tables, before, strict=True):
        for entered in table.keys() - was.keys():
            del table[entered]


@pytest.mark.usefixtures("names_of_faces")
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "__page__"}
    printed = ""
    for block in blocks(page.read_text(encoding="utf-8")):
        if is_run(block):
            if block.note == "with":
                onnx.save(FILES[block.text](), block.text)
            # Empty lines in front give an error the line numbers of the page.
            code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
            exec(code, scope)
            printed = capsys.readouterr().out
        elif block.note == "output":
            shown = [textwrap.indent(block.code, indent) for indent in ("", "    ")]
            assert any(text in printed for text in shown), f"{name(page)}:{block.line}: {printed}"
