"""The figures in the README are those that were measured: benchmarks/RESULTS.md."""

import re

from .pages import ROOT, blocks

README = (ROOT / "README.md").read_text(encoding="utf-8")
MEASURED = README.partition("## How fast\n")[2].partition("\n## ")[0]
RESULTS = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"(?<![\w.-])\d+(?:\.\d+)*(?:e[+-]\d+)?(?![\w-]|\.\d)")


def table(heading: str) -> dict[str, list[str]]:
    """The first table under a heading of the results: the cells behind each row's name."""
    text = RESULTS.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in text.splitlines()]
    return {row[0]: row[1:] for row in rows if len(row) > 1}


def expected() -> list[str]:
    """The rows that the README has to show."""
    zoo, compiled = table("Models, against other runtimes"), table("Compile time, import and call")
    rows = [
        f"| {model} | {zoo[f'{model}, 1'][2]} | {zoo[f'{model}, 2'][2]} | {compiled[model][0]} |"
        for model in sorted({key.partition(",")[0] for key in zoo if key.endswith(", 1")})
        if model in compiled
    ]
    (mean,) = {key[:-3] for key in zoo if key.startswith("geometric mean")}
    return [*rows, f"| {mean} | {zoo[f'{mean}, 1'][2]} | {zoo[f'{mean}, 2'][2]} | |"]


def test_the_table_is_that_of_the_results() -> None:
    rows = [line for line in MEASURED.splitlines() if line.startswith("|")][2:]
    assert rows == expected(), "write into README.md:\n" + "\n".join(expected())


def test_every_figure_stands_in_the_results() -> None:
    found = set(NUMBER.findall(MEASURED))
    assert len(found) > 30
    missing = found - set(NUMBER.findall(RESULTS)) - {"1", "2", "8"}
    assert not missing, f"not in benchmarks/RESULTS.md: {sorted(missing)}"


def test_no_figure_stands_elsewhere() -> None:
    """Speeds and sizes are in the section that names the machine."""
    rest = README.replace(MEASURED, "")
    for block in blocks(rest):
        rest = rest.replace(block.code, "")
    assert not re.findall(r"\d+(?:\.\d+)? (?:%|ms|us|µs|s|MB|times)\b", rest)
