"""docs/python.md is complete: names, options, environment variables, errors."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator

import pytest

import smelt
from smelt.ir import errors as in_compiler
from smelt.runtime import errors as in_runtime

from .pages import DOCS, DOCUMENTS, ROOT, Block, blocks

PAGE = (DOCS / "python.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "smelt"
FACE = (smelt.Executable, smelt.Results, smelt.NDArray, smelt.Options, smelt.Size)


def run_blocks(page: str) -> list[Block]:
    """The python blocks of a page that its test runs."""
    return [b for b in blocks(page) if b.language == "python" and b.note != "no-run"]


def used_names(code: str) -> set[str]:
    """The names that code takes from smelt: `smelt.show` and `from smelt import te`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Attribute(ast.Name("smelt"), name):
                found.add(name)
            case ast.ImportFrom(module="smelt"):
                found |= {a.name for a in node.names}
            case ast.ImportFrom(module=str(module)) if module.startswith("smelt."):
                found.add(module.split(".")[1])
    return found


def members(kind: type) -> set[str]:
    """The public methods, properties and fields that a class has by itself."""
    own = {n for n in vars(kind) if not n.startswith("_")}
    fields = {n for n in getattr(kind, "__annotations__", {}) if not n.startswith("_")}
    return own | fields


def column(page: str, heading: str, number: int = 0) -> list[str]:
    """The code in a column of the table below a heading."""
    text = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| `")]
    return [row[number].strip().strip("`") for row in rows]


def environment(tree: ast.Module) -> Iterator[str]:
    """The environment variables that a module reads; "" where that cannot be told."""
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name("os"), "environ" | "getenv"):
                above = parents[node]
                outer = parents[above]
                key: ast.expr | None = None
                match above, outer:
                    case ast.Call(ast.Name("dict")), _:
                        continue  # handed on to another process
                    case ast.Subscript(_, index), _:
                        key = index
                    case ast.Attribute(_, "get"), ast.Call(_, [first, *_]):
                        key = first
                    case ast.Call(_, [first, *_]), _:
                        key = first
                if isinstance(key, ast.Name):
                    yield str(constants.get(key.id, ""))
                else:
                    yield str(key.value) if isinstance(key, ast.Constant) else ""
            case ast.ImportFrom(module="os") if any(
                a.name in ("environ", "getenv") for a in node.names
            ):
                yield ""


def test_what_is_read_of_the_environment_is_found() -> None:
    code = "import os\nA = 'a'\nos.environ[A]\nos.environ.get('b', '')\nos.getenv('c')\n"
    code += "dict(os.environ)\nos.environ.copy()\nfrom os import environ\n"
    assert sorted(environment(ast.parse(code))) == ["", "", "a", "b", "c"]


def test_the_environment_variables_are_those_of_the_source() -> None:
    read = set()
    for file in SOURCE.rglob("*.py"):
        found = set(environment(ast.parse(file.read_text(encoding="utf-8"))))
        assert "" not in found, f"{file}: name the variable: os.environ.get('NAME')"
        read |= found
    for file in (ROOT / "native").rglob("*.[ch]"):
        read |= set(re.findall(r'getenv\("(\w+)"\)', file.read_text(encoding="utf-8")))
    assert sorted(column(PAGE, "Environment variables")) == sorted(read)


def test_the_options_are_the_fields_of_options() -> None:
    fields = dataclasses.fields(smelt.Options)
    assert column(PAGE, "Options") == [f.name for f in fields]
    assert column(PAGE, "Options", 1) == [repr(f.default) for f in fields]


def test_the_errors_are_all_errors() -> None:
    found = [
        f"{room}.{name}"
        for room, module in {"smelt.runtime": in_runtime, "smelt.ir.errors": in_compiler}.items()
        for name, thing in vars(module).items()
        if isinstance(thing, type)
        and issubclass(thing, Exception)
        and thing.__module__ == module.__name__
        and not name.startswith("_")
    ]
    assert sorted(column(PAGE, "Errors")) == sorted(set(found) - {"smelt.runtime.SmeltError"})


def test_public_names_are_described_and_used() -> None:
    used: set[str] = set()
    for document in DOCUMENTS:
        for block in run_blocks(document.read_text(encoding="utf-8")):
            used |= used_names(block.code)
    assert [n for n in smelt.__all__ if f"`smelt.{n}" not in PAGE and n not in used_here()] == []
    assert [n for n in smelt.__all__ if n not in used] == []


def used_here() -> set[str]:
    """The names of smelt in the code of the page."""
    return set().union(*[used_names(b.code) for b in run_blocks(PAGE)])


@pytest.mark.parametrize("kind", FACE, ids=lambda k: k.__name__)
def test_public_members_are_used(kind: type) -> None:
    """In code of the page, as attributes or as keywords."""
    used: set[str] = set()
    for block in run_blocks(PAGE):
        for node in ast.walk(ast.parse(block.code)):
            if isinstance(node, ast.Attribute):
                used.add(node.attr)
            elif isinstance(node, ast.keyword) and node.arg:
                used.add(node.arg)
    options = {f.name for f in dataclasses.fields(smelt.Options)}
    wanted = members(kind) - (options if kind is smelt.Options else set())
    assert sorted(wanted - used) == []
