"""Packages of WebAssembly in a browser: the example's page, and threads with their headers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import smelt

from .browser import need_browser, visit
from .test_cross import numbers
from .test_web_threads import CASES, CORES, ISOLATION
from .webbed import HERE, need_compiler

EXAMPLE = HERE.parents[1] / "examples" / "web"


@pytest.fixture(autouse=True)
def browser() -> None:
    """All tests need one, and packages."""
    need_compiler()
    need_browser()


def test_the_page_tells_digits(tmp_path: Path) -> None:
    """Drawn on its canvas after images of the data, with the round pen of the page."""
    site = tmp_path / "site"
    shutil.copytree(EXAMPLE, site, ignore=shutil.ignore_patterns("digits"))
    subprocess.run([sys.executable, site / "make.py", site / "digits"], check=True,
                   capture_output=True)  # fmt: skip
    shutil.copy(HERE / "draw.mjs", site)
    images, digits = load_digits(return_X_y=True)
    chosen = [int(np.flatnonzero(digits == d)[n]) for d in range(10) for n in range(2)]
    (site / "drawings.json").write_text(
        json.dumps((images[chosen].reshape(-1, 8, 8) / 16).tolist())
    )
    page = (site / "index.html").read_text()
    assert page.count("</html>") == 1
    more = '<script type="module" src="./draw.mjs"></script></html>'
    (site / "drawn.html").write_text(page.replace("</html>", more))
    said = visit(site / "drawn.html", tmp_path / "profile")
    assert all(s["odds"].endswith(" %") and int(s["odds"][:-2]) <= 100 for s in said)
    right = [int(s["digit"]) == digits[n] for s, n in zip(said, chosen, strict=True)]
    assert sum(right) >= 0.8 * len(chosen), [s["digit"] for s in said]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page that runs a package with threads."""
    need_compiler()
    need_browser()
    folder = tmp_path_factory.mktemp("browser") / "site"
    folder.mkdir()
    model, shapes = CASES["network"]
    smelt.compile_artifact(model(), CORES).export_package(folder / "net")
    shutil.copy(HERE / "threads.mjs", folder)
    (folder / "feeds.json").write_text(json.dumps(numbers(shapes)["x"].reshape(-1).tolist()))
    (folder / "page.html").write_text(
        '<!doctype html><title>Threads</title><script type="module" src="./threads.mjs"></script>'
    )
    return folder


def check_runs(runs: list[dict[str, Any]]) -> None:
    """Results of a package are those of this machine."""
    model, shapes = CASES["network"]
    wanted = smelt.compile(model(), threads=1)(**numbers(shapes)).numpy().reshape(-1)
    for run in runs:
        np.testing.assert_allclose(run["data"], wanted, rtol=1e-5, atol=1e-6)


def test_threads_in_an_isolated_page(site: Path, tmp_path: Path) -> None:
    """Of the page, whose own thread may not wait, and of a worker in it."""
    said = visit(site / "page.html", tmp_path / "profile", isolated=True)
    for place in (said, said["worker"]):
        assert place["isolated"]
        usual, *others = place["runs"]
        assert [run.get("threads") for run in others] == [1, 2, 4], place
        assert 1 <= usual["threads"] <= 4
        check_runs(place["runs"])


def test_threads_in_a_page_without_the_headers(site: Path, tmp_path: Path) -> None:
    """An error that names them, but for one thread."""
    said = visit(site / "page.html", tmp_path / "profile")
    for place in (said, said["worker"]):
        assert not place["isolated"]
        usual, one, *several = place["runs"]
        assert [run["error"] for run in several] == 2 * [f"net: {ISOLATION}"]
        assert one["threads"] == 1
        # where there is one processor, one thread is usual
        check_runs([one, *([usual] if usual.get("threads") == 1 else [])])
        assert usual.get("threads") == 1 or usual["error"] == f"net: {ISOLATION}"
