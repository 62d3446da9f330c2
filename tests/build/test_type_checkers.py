"""Type checkers besides mypy, which `make check` runs: what pyright knows of a user's program."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

STRICT = {"include": ["."], "typeCheckingMode": "strict", "reportAny": "error"}
WRONG = 'import smelt\n\nsmelt.compile("model.onnx", thread=1)\nsmelt.compile("m.onnx").nam\nprint(eval("1"))\n'


def found_by_pyright(folder: Path) -> list[tuple[str, int, str]]:
    """File, line and rule of what pyright reports of a folder's programs."""
    (folder / "pyrightconfig.json").write_text(json.dumps(STRICT))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "-p", str(folder)]
    done = subprocess.run(
        [*command, "--pythonpath", sys.executable], capture_output=True, text=True, timeout=120
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 2
    return [
        (Path(d["file"]).name, d["range"]["start"]["line"] + 1, d["rule"])
        for d in report["generalDiagnostics"]
    ]


def test_pyright_knows_all_types_and_finds_what_is_wrong(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parent / "typed_program.py", tmp_path)
    (tmp_path / "wrong.py").write_text(WRONG)
    found = found_by_pyright(tmp_path)
    assert [d for d in found if d[0] == "typed_program.py"] == []
    assert ("wrong.py", 3, "reportCallIssue") in found
    assert ("wrong.py", 4, "reportAttributeAccessIssue") in found
    assert ("wrong.py", 5, "reportAny") in found
