"""docs/walk.md shows the stages of a convolution as they are today."""

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "walk_convolution.py"


def test_the_document_shows_the_stages_of_today() -> None:
    module = runpy.run_path(str(SCRIPT))
    page = (ROOT / "docs" / "walk.md").read_text()
    fresh = module["refreshed"](page, module["stages"]())
    assert page.count("<!-- stage:") == len(module["BLOCK"].findall(page))
    assert fresh == page, "run: python examples/walk_convolution.py --update"
