"""`make docs`: the site is complete, and loads nothing from elsewhere."""

from __future__ import annotations

import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import DOCUMENTS, ROOT

CHECK = runpy.run_path(str(ROOT / "scripts" / "check_site.py"))


def test_what_is_loaded_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<link href="a.css"><script src="https://cdn.test/x.js"></script><img src="//b.test/y.png">'
        '<a href="https://c.test">a link</a><style>p { background: url(http://d.test/z) }</style>'
        '<p style="background: url(own.png)"></p><pre class="mermaid"></pre>'
    )
    (tmp_path / "a.css").write_text('@import "https://fonts.test/f.css"; p { src: url(f.woff2) }')
    assert CHECK["foreign"](tmp_path) == [
        "a.css: https://fonts.test/f.css",
        "index.html: https://cdn.test/x.js",
        "index.html: //b.test/y.png",
        "index.html: http://d.test/z",
        'index.html: // for class="mermaid"',
    ]


@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="needs mkdocs-material")
def test_the_site_is_complete(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert CHECK["foreign"](tmp_path) == []
    assert all((tmp_path / p.with_suffix(".html").name).exists() for p in DOCUMENTS)
    assert (tmp_path / "search" / "search_index.js").exists()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a clone knows what belongs to it")
def test_a_source_distribution_has_every_folder() -> None:
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    grafted = re.findall(r"^graft (\S+)$", (ROOT / "MANIFEST.in").read_text(), re.MULTILINE)
    folders = {line.split("/")[0] for line in listed.splitlines() if "/" in line}
    assert folders - {".ci"} == {"src", *grafted}
