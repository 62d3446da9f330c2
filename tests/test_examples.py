"""The examples run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


FILES = [*sorted((ROOT / "examples").glob("*.py")), ROOT / "examples" / "byoc" / "run.py"]


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_the_example_runs(file: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(file)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
