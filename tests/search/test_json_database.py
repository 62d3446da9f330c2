"""The classic pair of files: its form, torn and foreign lines."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from smelt.ir.errors import DatabaseError
from smelt.search.json_database import JSONDatabase
from smelt.search.record import ErrorCode
from tests.bad_input.conftest import message
from tests.search.samples import OTHER, W, record


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two programs with a record each."""
    pair = tmp_path / "w.json", tmp_path / "r.json"
    with JSONDatabase(*pair) as db:
        db.put(W, [record()])
        db.put(OTHER, [record(OTHER, error=ErrorCode.CRASH)])
    return pair


def test_the_form_is_the_classic_one(pair: tuple[Path, Path]) -> None:
    first, second = (json.loads(text) for text in pair[0].read_text().splitlines())
    assert first == [W.key, W.program, {"name": W.name, "constants": [False, True]}]
    assert second[:2] == [OTHER.key, OTHER.program]
    rows = [json.loads(text) for text in pair[1].read_text().splitlines()]
    assert [index for index, _ in rows] == [0, 1]
    assert rows[0][1][:4] == ["split('i', 8)", [2e-5, 1e-5, 3e-5], "llvm", None]
    assert rows[0][1][4]["machine"] == "m1"
    assert rows[1][1][4]["error"] == ErrorCode.CRASH


def test_lines_without_what_smelt_adds(pair: tuple[Path, Path]) -> None:
    pair[0].write_text('["key", "a program"]\n')
    pair[1].write_text('[0, ["split(1)", [0.5], "llvm", [["TENSOR", "float32", [4]]]]]')
    with JSONDatabase(*pair) as db:
        (w,) = db.workloads()
        assert (w.key, w.name, w.program, w.constants) == ("key", "", "a program", ())
        (r,) = db.records()
        assert (r.workload, r.machine, r.trace, r.seconds) == ("key", "", "split(1)", (0.5,))
        db.put(w, [r])  # behind a last line that lacked its end
        assert db.records() == [r, r]
    assert JSONDatabase(*pair).records() == [r, r]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("cut", [1, 7, 0])
def test_a_torn_last_line_is_cut_off(which: int, cut: int, pair: tuple[Path, Path]) -> None:
    path = pair[which]
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    torn = last[: cut or len(last) - 2]
    path.write_bytes(whole + torn)
    with pytest.warns(RuntimeWarning) as caught:
        db = JSONDatabase(*pair)
    (said,) = [w.message for w in caught if w.category is RuntimeWarning]
    assert str(said) == (
        f"{path}:3: the last line was torn, by a process that was killed while it wrote; its "
        f"{len(torn)} bytes are cut off"
    )
    assert path.read_bytes() == whole
    assert len(db.records()) == len(db.workloads()) == 2
    db.put(OTHER, [record(OTHER, when=5.0)])
    assert JSONDatabase(*pair).records()[-1].when == 5.0


def test_a_torn_line_beside_a_reader_is_mended(pair: tuple[Path, Path]) -> None:
    db = JSONDatabase(*pair)
    with pair[1].open("a") as file:
        file.write('[0,["spl')
    with pytest.warns(RuntimeWarning, match=r"r\.json:3: the last line was torn"):
        db.put(W, [record(when=1.0)])
    assert [r.when for r in db.records()] == [0.0, 0.0, 1.0]


LEGAL = "legal: [workload, [trace, run times, target, argument info, {...}]]"
ROWS: dict[bytes, str] = {
    b"": "not JSON: expecting value (column 1)",
    b"[0, ": "not JSON: expecting value (column 5)",
    b"{}": f"not a record; {LEGAL}",
    b"[0, []]": f"not a record; {LEGAL}",
    b'["0", ["", [1], "", null]]': f"not a record; {LEGAL}",
    b'[7, ["", [1], "", null]]': "workload 7; legal: 0 to 1, the lines of W",
    b'[-1, ["", [1], "", null]]': "workload -1; legal: 0 to 1, the lines of W",
    b'[true, ["", [1], "", null]]': "workload True; legal: 0 to 1, the lines of W",
    b'[0, [[["Split"]], [1], "", null]]': "trace is [['Split']]; legal: a text",
    b'[0, ["", ["a"], "", null]]': "seconds is 'a'; legal: a finite number",
    b'[0, ["", [1], "", null, 3]]': "the last value is an int; legal: an object",
    b'[0, ["", [1], "", null, {"when": -Infinity}]]': "not JSON: -Infinity is no number of JSON",
    b"\xff\xfe": "not UTF-8 text: invalid start byte",
    "[0]".encode("utf-16-le"): "not JSON: expecting value (column 2)",
}


@pytest.mark.parametrize("row", ROWS)
def test_a_foreign_line_is_named_and_may_be_left_out(row: bytes, pair: tuple[Path, Path]) -> None:
    before, after = pair[1].read_bytes().splitlines(keepends=True)
    data = before + row + b"\n" + after
    pair[1].write_bytes(data)
    text = f"{pair[1]}:2: {ROWS[row].replace('of W', f'of {pair[0]}')}"
    assert message(DatabaseError, lambda: JSONDatabase(*pair)) == text
    with JSONDatabase(*pair, skip_broken=True) as db:
        assert [r.workload for r in db.records()] == [W.key, OTHER.key]
        db.put(W, [record(seconds=(1.0,))])
        assert len(db.records()) == 3
        assert db.prune(1) == 2
        assert db.records() == [record()]
    assert pair[1].read_bytes() == before + row + b"\n"  # what is not understood is not lost


def test_a_line_that_breaks_later(pair: tuple[Path, Path]) -> None:
    db = JSONDatabase(*pair)
    whole = pair[1].read_bytes()
    pair[1].write_bytes(whole + b"{}\n")
    for _ in range(2):
        with pytest.raises(DatabaseError, match=r"r\.json:3: not a record"):
            db.records()
    pair[1].write_bytes(whole)
    assert len(db.records()) == 2


def test_a_foreign_program(pair: tuple[Path, Path]) -> None:
    pair[0].write_bytes(b'{"format": 1}\n' + pair[0].read_bytes().splitlines(keepends=True)[1])
    text = f"{pair[0]}:1: not a workload; legal: [key, program, {{...}}]"
    assert message(DatabaseError, lambda: JSONDatabase(*pair)) == text
    with JSONDatabase(*pair, skip_broken=True) as db:
        assert db.workloads() == [OTHER]
        assert [r.workload for r in db.records()] == [OTHER.key]
        db.put(W, [record()])
        assert db.records(W.key) == [record()]


@pytest.mark.parametrize("data", [b"some notes", b'{"a": 1}', b"[draft] of something"])
def test_a_file_of_something_else_stays_as_it_is(data: bytes, tmp_path: Path) -> None:
    pair = tmp_path / "w.json", tmp_path / "r.json"
    pair[1].write_bytes(data)
    assert message(DatabaseError, lambda: JSONDatabase(*pair)) == (
        f"{pair[0]}: no such file; {pair[1]} has records of the programs in it"
    )
    pair[0].touch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DatabaseError, match=r"r\.json:1: not "):
            JSONDatabase(*pair)
    assert pair[1].read_bytes() == data
    with JSONDatabase(*pair, skip_broken=True) as db:
        db.put(W, [record()])
        assert db.records() == [record()]
    assert pair[1].read_bytes().startswith(data + b"\n[0,")


def test_others_see_what_was_pruned(pair: tuple[Path, Path]) -> None:
    with JSONDatabase(*pair) as one, JSONDatabase(*pair) as two:
        one.put(W, [record(seconds=(9.0,))])
        assert len(two.records()) == 3
        assert one.prune(1) == 2
        assert two.records() == [record()]
        two.put(OTHER, [record(OTHER)])
        assert one.records() == [record(), record(OTHER)]


def test_files_that_went_are_made_again(pair: tuple[Path, Path]) -> None:
    with JSONDatabase(*pair) as db:
        for path in pair:
            path.unlink()
        assert db.records() == []
        assert db.workloads() == []
        db.put(OTHER, [record(OTHER)])
    with JSONDatabase(*pair) as again:
        assert again.records() == [record(OTHER)]


def test_places_where_no_file_can_be(tmp_path: Path) -> None:
    def refused(workloads: Path, records: Path) -> str:
        return message(DatabaseError, lambda: JSONDatabase(workloads, records))

    file = tmp_path / "f.json"
    assert refused(file, tmp_path) == f"{tmp_path}: is a folder, not a file of records"
    assert refused(tmp_path, file) == f"{tmp_path}: is a folder, not a file of records"
    none = tmp_path / "no" / "w.json"
    assert refused(none, file) == f"{none}: the folder {tmp_path}/no does not exist"
    assert list(tmp_path.iterdir()) == []
