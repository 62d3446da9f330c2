"""Packages for WebAssembly, run by node."""

from __future__ import annotations

import base64
import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.net import Array

HERE = Path(__file__).parent
PATIENCE = 120
"""Seconds for node to run a small model, on a machine that others use, too."""


def need_compiler() -> None:
    """Skips the test where packages cannot be written."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("the package ziglang is missing: make setup-edge")


def need_node() -> str:
    """The command of node; skips the test where there is none, or no compiler."""
    need_compiler()
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is missing: make setup-edge")
    return found


def run(
    package: Path, feeds: dict[str, Array], *, fixed: bool = False, threads: int | None = None
) -> dict[str, Any]:
    """What node prints of a package's results.

    fixed    whether inputs are given as arrays alone
    threads  for `load`; None: as many as it takes
    """
    given = {k: {"dtype": str(a.dtype), "data": base64.b64encode(a.tobytes()).decode(),
                 "dims": None if fixed else a.shape} for k, a in feeds.items()}  # fmt: skip
    file = package.parent / "feeds.json"
    file.write_text(json.dumps(given))
    words = [] if threads is None else [str(threads)]
    return dict(json.loads(node(HERE / "web_run.mjs", package, file, *words)))


def node(*words: str | Path) -> str:
    """What node prints; it has to end by itself."""
    done = subprocess.run([need_node(), *words], capture_output=True, text=True, check=False,
                          timeout=PATIENCE)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def script(code: str, *packages: Path) -> Any:
    """What a function of the loaders of some packages gives, as JSON: `async (load) => ...`."""
    urls = json.dumps([(p / "index.mjs").as_uri() for p in packages])
    text = (
        f"const loads = await Promise.all({urls}.map(async (u) => (await import(u)).load));\n"
        f"console.log(JSON.stringify(await ({code})(...loads)));"
    )
    return json.loads(node("--input-type=module", "-e", text))


def arrays(said: dict[str, Any]) -> list[Array]:
    """The results that `run` has read."""
    return [np.frombuffer(base64.b64decode(f["data"]), f["dtype"]).reshape(f["dims"])
            for f in said["found"]]  # fmt: skip
