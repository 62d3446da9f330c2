"""The rules of the house: what a linter does not look at."""

import ast
import io
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "smelt"
FILES = sorted(
    path
    for folder in ("src/smelt", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
    if "__pycache__" not in path.parts
)
SOURCES = [path for path in FILES if PACKAGE in path.parents]
PUBLIC = frozenset(SOURCES)

FILE_LINES = 600
FUNCTION_LINES = 60
# "path" or "path::function" (relative to the root) and the reason why it may be longer.
LONGER: dict[str, str] = {}
# Third-party packages that a function may import where it needs them; each is optional, or so
# heavy that a process which never uses it should not pay for it.
LATE = {
    "PIL", "ai_edge_litert", "flatbuffers", "llvmlite", "onnx", "onnxruntime", "onnxscript",
    "sqlalchemy", "tflite", "torch", "transformers", "xgboost", "ziglang",
}  # fmt: skip
# Optional packages that one file only may import.
ONE_FILE = {
    "PIL", "ai_edge_litert", "flatbuffers", "llvmlite", "onnxruntime", "sqlalchemy", "tflite",
    "torch", "xgboost", "ziglang",
}  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def functions(module: ast.Module) -> Iterator[Function]:
    return (n for n in ast.walk(module) if isinstance(n, Function))


def imported(node: ast.AST) -> list[str]:
    """The modules that an import statement names; none for other nodes."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), level=0):
            return [module]
        case ast.ImportFrom():
            return ["." * node.level + (node.module or "")]
    return []


@cache
def modules(path: Path) -> tuple[str, ...]:
    """The modules that a file imports, anywhere."""
    return tuple([m for node in ast.walk(tree(path)) for m in imported(node)])


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_file(path: Path) -> None:
    """Files and functions are short, what is public is documented, and more: see below."""
    text = path.read_text(encoding="utf-8")
    module = ast.parse(text, filename=str(path))
    _short(name(path), text, module)
    _nothing_left_to_do(name(path), text)
    if path in PUBLIC:
        _late_imports(name(path), module)
        _documented(path, module)


def _short(file: str, text: str, module: ast.Module) -> None:
    lines = len(text.splitlines())
    assert lines <= FILE_LINES or file in LONGER, f"{file} has {lines} lines"
    for f in functions(module):
        length = (f.end_lineno or f.lineno) - f.lineno + 1
        where = f"{file}::{f.name}"
        assert length <= FUNCTION_LINES or where in LONGER, f"{where} has {length} lines"


def _late_imports(file: str, module: ast.Module) -> None:
    """Functions import optional packages only."""
    for f in functions(module):
        for node in ast.walk(f):
            late = [m for m in imported(node) if m.split(".")[0] not in LATE]
            assert not late, f"{file}::{f.name} imports {late[0]}: move it to the top"


def _documented(path: Path, module: ast.Module) -> None:
    if any(part.startswith("_") and part != "__init__.py" for part in path.parts[-2:]):
        return
    assert ast.get_docstring(module), f"{name(path)} has no docstring"
    for node in module.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{name(path)}::{node.name} has no docstring"


def _nothing_left_to_do(file: str, text: str) -> None:
    marks = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            found = [mark for mark in marks if mark in token.string]
            assert not found, f"{file}:{token.start[0]}: {token.string}"


def test_every_exception_from_the_lengths_is_needed() -> None:
    known = {name(path) for path in FILES}
    known |= {f"{name(path)}::{f.name}" for path in FILES for f in functions(tree(path))}
    assert not LONGER.keys() - known


@pytest.mark.parametrize("package", sorted(ONE_FILE))
def test_an_optional_package_is_imported_in_one_file(package: str) -> None:
    users = {name(p) for p in SOURCES if package in [m.split(".")[0] for m in modules(p)]}
    assert len(users) <= 1, f"{package} is imported in {', '.join(sorted(users))}"


def test_graph_programs_do_not_know_their_passes() -> None:
    """The part of the import contract that import-linter cannot say: a room and its own child."""
    relax = PACKAGE / "relax"
    rules = [p for p in SOURCES if PACKAGE / "rules" in p.parents]
    below = [p for p in SOURCES if relax in p.parents and relax / "transform" not in p.parents]
    for path in below + rules:
        if path != relax / "__init__.py":
            late = [m for m in modules(path) if m.startswith("smelt.relax.transform")]
            assert not late, name(path)


@pytest.mark.parametrize("module", ["smelt", "smelt.runtime"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    heavy = ("llvmlite", "onnx", "onnxruntime", "torch", "rich", "typer")
    program = f"import sys, {module}; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_the_runtime_needs_numpy_only() -> None:
    program = (
        "import sys, smelt.runtime; "
        "print(sorted(m for m in sys.modules if m.startswith('smelt.')"
        " and not m.startswith('smelt.runtime')), 'ml_dtypes' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[] False"
