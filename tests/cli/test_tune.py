"""`smelt tune`: what it prints and writes, how it ends, and that what it keeps is used."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import smelt
from smelt import tuning
from smelt.cli import main as command_line
from smelt.cli import tune as command
from smelt.cli.live_page import LivePage, served
from smelt.display.tuning import schedule_texts
from smelt.search.record import Record
from smelt.search.runner import LocalRunner, Runner
from smelt.search.stores import open_database
from tests.cli.sessions import ONE, MadeUp, network, save, session
from tests.display.dom import read

Smelt = Callable[..., int]


def records() -> list[Record]:
    """What a session has kept."""
    with open_database("net.smelt.db", make=False) as database:
        return database.records()


@pytest.fixture(name="cli")
def fixture_cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Smelt:
    """Runs the command line in the folder of net.onnx, with made-up times; gives the exit code."""
    monkeypatch.chdir(tmp_path)
    save(tmp_path)
    real = tuning.tune

    def run(*arguments: str, runner: Runner | None = None) -> int:
        used = runner or MadeUp()

        def tune(*given: Any, **more: Any) -> Any:
            return real(*given, **{**more, "runner": used})

        monkeypatch.setattr(tuning, "tune", tune)
        monkeypatch.setattr(sys, "argv", ["smelt", *arguments])
        with pytest.raises(SystemExit) as done:
            command_line.main()
        return int(done.value.code or 0)

    return run


def test_a_session_in_lines(cli: Smelt, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli("tune", "net.onnx", "--trials", "30", "--threads", "1") == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert sum("0 trials  fused_conv2d_add_relu  default" in line for line in lines) == 1
    assert any("x, confirmed)" in line for line in lines)
    (errors,) = [line for line in lines if line.endswith("(crash), most often: it <b>fell</b>")]
    assert int(errors.split()[0]) == sum(r.error != 0 for r in records())
    assert lines[-1] == (
        "kept in net.smelt.db; smelt compile net.onnx --database net.smelt.db uses it"
    )
    assert any(line.startswith("30 trials in ") for line in lines)
    assert said.err == ""


def test_a_session_as_json(cli: Smelt, capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--threads", "1", "--seed", "3", "--batch", "4", "--database", "other.db", "--json")
    assert cli("tune", "net.onnx", "--trials", "20", *more) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["database"] == "other.db"
    assert 0 < said["trials"] <= 20
    assert 0 < said["after_us"] < said["before_us"]
    assert sum(t["trials"] for t in said["tasks"]) == said["trials"]
    for t in said["tasks"]:
        assert t["confirmed_us"] <= t["default_us"]
        assert (t["winner"] is None) == (t["confirmed_us"] == t["default_us"])


def test_candidates_are_measured(cli: Smelt, capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--trials", "2", "--kernel", "mean", "--threads", "1", "--json")
    assert cli("tune", "net.onnx", *more, runner=LocalRunner()) == 0
    said = json.loads(capsys.readouterr().out)
    (task,) = said["tasks"]
    assert task["trials"] == said["trials"] > 0
    assert task["default_us"] > 0
    assert not said["errors"]


def test_one_kernel_alone(cli: Smelt, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = "fused_conv2d_add_relu"
    assert cli("tune", "net.onnx", "--trials", "5", "--kernel", kernel, "--json") == 0
    assert [t["name"] for t in json.loads(capsys.readouterr().out)["tasks"]] == [kernel]


def test_what_was_measured_is_not_measured_again(
    cli: Smelt, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for _ in range(2):
        assert cli("tune", "net.onnx", "--trials", "20", "--threads", "1", "--json") == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["trials"] == 20
    assert 0 < found[1]["trials"] <= 20
    assert found[1]["after_us"] <= found[0]["after_us"]
    decided = [i for i, r in enumerate(records()) if r.confirmed]
    assert decided
    tried = [
        (r.workload, r.decision)
        for i, r in enumerate(records())
        if r.source == "sketch" and i not in decided
    ]
    assert len(tried) == len(set(tried)) == found[0]["trials"] + found[1]["trials"]


def test_a_report_is_written(cli: Smelt, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli("tune", "--page", "report.html", "net.onnx", "--trials", "20") == 0
    assert "wrote report.html" in capsys.readouterr().out
    page = read(Path("report.html").read_text(encoding="utf-8"))
    assert page.find("h1")[0].text == "Tuning of net.onnx"
    assert not page.find("p", "hint")[0].attributes.get("data-refresh")


@pytest.mark.parametrize("arguments", [["--page", "net.onnx"], ["net.onnx", "--page"]])
def test_a_page_is_served_while_the_session_runs(
    arguments: list[str],
    cli: Smelt,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pages: list[LivePage] = []
    seen: list[str] = []

    @contextmanager
    def kept() -> Iterator[LivePage]:
        with served() as page:
            pages.append(page)
            yield page

    def look(count: int) -> None:
        if count in (0, 12):
            with urllib.request.urlopen(pages[0].url) as answer:
                seen.append(answer.read().decode())

    monkeypatch.setattr(command, "served", kept)
    monkeypatch.setattr(command, "_REFRESH", 1e-9)
    assert cli("tune", *arguments, "--trials", "20", runner=MadeUp(look)) == 0
    assert f"the session can be watched at {pages[0].url}\n" in capsys.readouterr().err
    empty, later = map(read, seen)
    assert not empty.find("details", "task")
    assert len(later.find("details", "task")) == len(tuning.extract_tasks(network()))
    assert later.find("p", "hint")[0].attributes["data-refresh"]
    assert "connect-src 'self'" in later.find("meta")[3].attributes["content"]
    assert Path("net.tuning.html").is_file()


def test_ctrl_c_loses_nothing(cli: Smelt, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(count: int) -> None:
        if count == 12:
            raise KeyboardInterrupt

    more = ("--trials", "100", "--batch", "4", "--page", "report.html")
    assert cli("tune", "net.onnx", *more, runner=MadeUp(stop)) == 130
    said = capsys.readouterr()
    assert "decisions scored; interrupted\n" in said.out
    assert "kept in net.smelt.db; the same command goes on" in said.out
    assert said.err == ""
    assert len(records()) == 12
    assert "Interrupted." in Path("report.html").read_text(encoding="utf-8")


def test_what_was_tuned_is_used(cli: Smelt, capsys: pytest.CaptureFixture[str]) -> None:
    (t,) = [t for t in session().tasks if t.name == "fused_conv2d_add_relu"]
    assert t.winner is not None
    trace, program = schedule_texts(t, t.winner)
    body = t.winner.choice[0].body  # the made-up times may have another algorithm win
    record = Record(t.space.workload.key, t.machine, str(t.space.target), trace, body,
                    seconds=(1e-6,), relative=0.5, confirmed=True)  # fmt: skip
    with open_database("net.smelt.db") as database:
        database.put(t.space.workload, [record])
    more = ("net.onnx", "--threads", "1", "--database", "net.smelt.db")
    kernels = len(smelt.compile(network(), options=ONE).metadata["kernels"])
    assert cli("bench", *more, "--seconds", "0.05") == 0
    told = f"1 of {kernels} kernels are scheduled as net.smelt.db has it"
    assert told in capsys.readouterr().out
    assert cli("bench", *more, "--seconds", "0.05", "--json") == 0
    assert json.loads(capsys.readouterr().out)["tuned"] == 1
    assert cli("show", *more, "--kernel", t.name) == 0
    assert capsys.readouterr().out.rstrip() == program.rstrip()
    assert cli("why", *more, "--json") == 0
    found = {k["name"]: k["tuned"] for k in json.loads(capsys.readouterr().out)}
    assert [name for name, tuned in found.items() if tuned] == [t.name]
    assert cli("why", *more, "softmax") == 0
    assert "tuned" not in capsys.readouterr().out
    for name in ("compile", "run", "check"):
        assert cli(name, *more) == 0
