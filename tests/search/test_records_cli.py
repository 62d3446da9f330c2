"""The command `smelt records`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from smelt.cli import console
from smelt.cli import main as command_line
from smelt.search.record import ErrorCode
from smelt.search.stores import open_database
from tests.search.samples import OTHER, W, record

Smelt = Callable[..., tuple[int, str, str]]

GIVEN = [
    record(when=1.0),
    record(seconds=(5e-6,), relative=0.25, confirmed=True, decision="tile=[8]\x1b[31m"),
    record(seconds=(4e-6,), relative=0.2, decision="fast"),
    record(seconds=(), error=ErrorCode.CRASH),
]


@pytest.fixture(name="cli")
def fixture_cli(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Smelt:
    """Runs `smelt records ARGUMENTS` in the test's folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(console.out, "width", 100)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["smelt", "records", *arguments])
        with pytest.raises(SystemExit) as done:
            command_line.main()
        return int(done.value.code or 0), *capsys.readouterr()

    with open_database("t.db") as db:
        db.put(W, GIVEN)
        db.put(OTHER, [record(OTHER, "m2")])
    return run


def test_list(cli: Smelt) -> None:
    code, out, _ = cli("t.db", "list")
    assert code == 0
    rows = [[c.strip() for c in text.split("│")[1:-1]] for text in out.splitlines() if "│" in text]
    assert rows == [
        ["fused_matmul", "m1", "4", "1", "1", "4 us", "25.0 %"],
        ["softmax", "m2", "1", "0", "0", "20 us", ""],
    ]
    code, out, _ = cli("t.db", "list", "--json")
    (first, second) = json.loads(out)
    assert first == {
        "name": "fused_matmul", "workload": W.key, "machine": "m1", "target": "llvm", "records": 4,
        "failed": 1, "confirmed": 1, "seconds": 4e-6, "relative": 0.25,
    }  # fmt: skip
    assert (second["seconds"], second["relative"]) == (2e-5, None)


@pytest.mark.parametrize(
    "chosen", [("--workload", "fused"), ("--workload", "aaaa"), ("--machine", "m1")]
)
def test_some_records(chosen: tuple[str, str], cli: Smelt) -> None:
    found = json.loads(cli("t.db", "list", "--json", *chosen)[1])
    assert [r["workload"] for r in found] == [W.key]
    assert cli("t.db", "list", chosen[0], "x")[:2] == (0, "no such records\n")


def test_best(cli: Smelt) -> None:
    code, out, _ = cli("t.db", "best")
    assert code == 0
    assert "tile=[8]\N{REPLACEMENT CHARACTER}[31m" in out
    assert "\x1b" not in out
    assert "softmax" not in out
    (best,) = json.loads(cli("t.db", "best", "--json")[1])
    assert best["trace"] == "split('i', 8)"
    assert (best["name"], best["seconds"], best["relative"]) == ("fused_matmul", 5e-6, 0.25)
    both = json.loads(cli("t.db", "best", "--unconfirmed", "--json")[1])
    assert [r["decision"] for r in both] == ["fast", ""]


def test_records_travel(cli: Smelt, tmp_path: Path) -> None:
    assert cli("t.db", "export", "r.jsonl") == (0, "", "")
    assert cli("t.db", "export")[1] == (tmp_path / "r.jsonl").read_text()
    assert cli("u.json", "import", "r.jsonl", "r.jsonl")[1] == "5 records added to u.json\n"
    assert cli("v.db", "merge", "u.json", "t.db", "--json")[1] == '{\n  "added": 5\n}\n'
    with open_database("v.db") as db:
        assert db.records() == [*GIVEN, record(OTHER, "m2")]
        assert db.workloads() == [W, OTHER]
    assert cli("v.db", "export", "--machine", "m2", "part.jsonl")[0] == 0
    assert cli("w.db", "import", "part.jsonl")[1] == "1 record added to w.db\n"
    with open_database("w.db") as db:
        assert db.workloads() == [OTHER]


def test_prune(cli: Smelt) -> None:
    assert cli("t.db", "prune", "--keep", "1")[1] == "2 records removed from t.db\n"
    with open_database("t.db") as db:
        assert db.records(W.key) == [GIVEN[1], GIVEN[2]]


MISTAKES = {
    "t.db best more": "best: takes no files; given: more",
    "t.db export a b": "export: writes one file; given: a, b",
    "t.db merge": "merge: nothing to read from; give databases",
    "t.db list --keep 3": "list: has no use for --keep NUMBER",
    "t.db prune --keep 3 --machine m": "prune: has no use for --workload and --machine",
    "t.db list --unconfirmed": "list: has no use for --unconfirmed",
    "t.db export none/r.jsonl": "cannot write none/r.jsonl: the folder none does not exist",
    "t.db import none.jsonl": "none.jsonl: cannot be read: No such file or directory",
    "t.db import t.db": "t.db:1: not UTF-8 text: invalid start byte",
    "t.db merge none.db": "none.db: no such file",
    "none.json list": "none.workloads.json: no such file",
}


@pytest.mark.parametrize("arguments", MISTAKES)
def test_mistakes(arguments: str, cli: Smelt, tmp_path: Path) -> None:
    before = {p for p in tmp_path.iterdir() if not p.name.startswith("t.db-")}
    code, out, err = cli(*arguments.split())
    assert (code, out) == (2, "")
    assert err == f"smelt: error: {MISTAKES[arguments]}\n"
    assert {p for p in tmp_path.iterdir() if not p.name.startswith("t.db-")} == before
    with open_database("t.db") as db:
        assert len(db.records()) == 5
