"""Where results are written: endings, devices and pipes, nothing half written."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

from smelt.cli.inputs import write_outputs
from smelt.runtime import Executable
from smelt.runtime.errors import ExportError
from smelt.runtime.files import write_file
from tests.bad_input.conftest import message

LEGAL = "legal: a shared library, e.g. model.so, or model.tar"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.xyz", f".xyz files cannot be written; {LEGAL}"),
        ("m.zip", f".zip files cannot be written; {LEGAL}"),
        ("m", f"files without an ending cannot be written; {LEGAL}"),
        ("none/m.so", "the folder none does not exist"),
        ("folder.so", "it is a folder"),
    ],
)
def test_an_ending_that_means_nothing_is_refused(
    name: str, text: str, exe: Executable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.so").mkdir()
    assert message(ExportError, lambda: exe.export_library(name)) == f"cannot write {name}: {text}"
    assert os.listdir() == ["folder.so"]


def test_a_device_is_written_to(exe: Executable) -> None:
    before = os.stat(os.devnull)
    exe.export_library(os.devnull)
    write_outputs(os.devnull, ["y"], [np.zeros(3)])
    after = os.stat(os.devnull)
    assert stat.S_ISCHR(after.st_mode)
    assert (before.st_ino, before.st_rdev) == (after.st_ino, after.st_rdev)


def test_a_full_device_is_an_error(exe: Executable) -> None:
    text = message(ExportError, lambda: exe.export_library("/dev/full"))
    assert text == "cannot write /dev/full: No space left on device"


def test_a_pipe_gets_the_bytes_and_stays(exe: Executable, tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    exe.export_library(pipe)
    reader.join()
    exe.export_library(tmp_path / "m.so")
    assert got == [(tmp_path / "m.so").read_bytes()]
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(file: object) -> None:
        raise OSError(28, "No space left on device")

    text = message(ExportError, lambda: write_file(path, fail))
    assert text == f"cannot write {path}: No space left on device"
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", lambda file: file.write(b"new"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
