"""The Project API: servers that do what they should, and servers that do not."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from smelt.micro.project import GeneratedProject, TemplateProject, checked_options
from smelt.micro.project_api import client, server
from smelt.runtime.errors import SmeltError

GOOD = """
import sys
from pathlib import Path
import tvm
from tvm.micro.project_api import server

class Handler(server.ProjectAPIHandler):
    kept = b""

    def server_info_query(self, tvm_version):
        options = [*server.default_project_options(board={"choices": ("a", "b"), "default": "a"}),
                   server.ProjectOption("speed", None, 3, "int", optional=("build",), help="x")]
        return server.ServerInfo("echo", False, None, options)

    def generate_project(self, model_library_format_path, standalone_crt_dir, project_dir, options):
        raise ValueError(f"{type(model_library_format_path).__name__} {project_dir.name}")

    def build(self, options):
        print("to nobody")
        Path("built").write_text(repr(sorted(options.items())))

    def flash(self, options):
        raise tvm.SmeltError("the board is on fire")

    def open_transport(self, options):
        return server.TransportTimeouts(1.0, 2.0, 3.0)

    def close_transport(self):
        Path("closed").touch()

    def read_transport(self, n, timeout_sec):
        if not self.kept:
            raise server.IoTimeoutError()
        found, self.kept = self.kept[:n], self.kept[n:]
        return found

    def write_transport(self, data, timeout_sec):
        if data == b"end":
            raise server.TransportClosedError()
        self.kept += data

if __name__ == "__main__":
    server.main(Handler())
"""


def serve(folder: Path, text: str) -> client.ProjectAPIClient:
    (folder / client.SERVER_FILE).write_text(text)
    return client.instantiate_from_dir(folder)


def test_a_server_of_the_classic_stack(tmp_path: Path) -> None:
    """It names smelt tvm, and what it prints disturbs nothing."""
    api = serve(tmp_path, GOOD)
    info = api.server_info_query()
    assert (info["platform_name"], info["is_template"]) == ("echo", False)
    assert info["project_options"][-1] == server.ProjectOption(
        "speed", None, 3, "int", [], ["build"], "x"
    )
    project = GeneratedProject(api, {"board": "b"})
    project.build()
    assert "('board', 'b')" in (tmp_path / "built").read_text()
    assert "('speed', 3)" in (tmp_path / "built").read_text()
    with project.transport() as line:
        assert line.timeouts() == (1.0, 2.0, 3.0)
        assert line.read(9, 0.1) == b""
        data = bytes(range(256)) * 700
        line.write(data, 5.0)
        assert line.read(1000, 1.0) + line.read(1 << 20, 1.0) == data[:66536]
        with pytest.raises(server.TransportClosedError, match="write_transport: the transport is"):
            line.write(b"end", 1.0)
    with pytest.raises(server.TransportClosedError, match="the transport is not open"):
        line.read(1, 1.0)
    project.close()
    assert (tmp_path / "closed").exists()
    with pytest.raises(client.ConnectionShutdownError, match="build: the connection was ended"):
        project.build()


def test_errors_are_carried(tmp_path: Path) -> None:
    api = serve(tmp_path, GOOD)
    with pytest.raises(server.ServerError, match=r": flash: the board is on fire$") as e:
        api.flash()
    assert e.value.data["class"] == "SmeltError"
    assert "Traceback" in e.value.data["traceback"]
    with pytest.raises(server.ServerError, match="generate_project: ValueError: PosixPath folder"):
        api.generate_project("model.tar", "crt", "some/folder")
    with pytest.raises(server.JSONRPCError, match=r"no method 'explode'.*; methods: ") as odd:
        api._request("explode", {})
    assert odd.value.code == server.ErrorCode.METHOD_NOT_FOUND
    with pytest.raises(
        server.JSONRPCError, match="build: build: missing a required argument"
    ) as odd:
        api._request("build", {})
    assert odd.value.code == server.ErrorCode.INVALID_PARAMS
    assert isinstance(odd.value, SmeltError)


def test_the_server_ends_with_its_client(tmp_path: Path) -> None:
    api = serve(tmp_path, "import os\nopen('pid', 'w').write(str(os.getpid()))\n" + GOOD)
    api.server_info_query()
    pid = int((tmp_path / "pid").read_text())
    os.kill(pid, 0)
    del api
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


ANSWER = """
import json, sys, time
out = open(int(sys.argv[4]), "wb", buffering=0)
for line in open(int(sys.argv[2]), "rb"):
    asked = json.loads(line)
    def answer(**reply):
        out.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **reply}).encode() + b"\\n")
"""
WRONG: dict[str, tuple[str, str]] = {
    "dies": ("ConnectionShutdownError", "sys.exit('out of coffee')"),
    "hangs": ("ConnectionShutdownError", "time.sleep(60)"),
    "trickles": ("ConnectionShutdownError",
                 "while True: out.write(b'x'); time.sleep(0.05)"),
    "garbage": ("MalformedReplyError", "out.write(b'hello\\n')"),
    "no_object": ("MalformedReplyError", "out.write(b'[1, 2]\\n')"),
    "both": ("MalformedReplyError", "answer(result=1, error=2)"),
    "neither": ("MalformedReplyError", "answer()"),
    "error_of_nothing": ("MalformedReplyError", "answer(error='bad')"),
    "no_version": ("MalformedReplyError", "answer(result={})"),
    "other_id": ("MismatchedIdError", "answer(id=77, result={})"),
    "other_version": ("UnsupportedProtocolVersionError", "answer(result={'protocol_version': 9})"),
    "no_options": ("MalformedReplyError",
                   "answer(result={'protocol_version': 1, 'platform_name': 'x',"
                   " 'is_template': True, 'project_options': [3]})"),
    "nested": ("MalformedReplyError", "out.write(b'[' * 100000 + b'\\n')"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_servers_that_do_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Callable[[str], None]
) -> None:
    monkeypatch.setattr(client, "_OTHERS", 1.5)
    monkeypatch.setattr(client, "_GRACE", 0.1)
    kind, text = WRONG[name]
    folder = tmp_path / "board"
    folder.mkdir()
    api = serve(folder, ANSWER + "    " + text)
    start = time.monotonic()
    with pytest.raises(client.ProjectAPIErrorBase) as e:
        api.server_info_query()
    assert type(e.value).__name__ == kind
    assert time.monotonic() - start < 10
    assert api.is_shutdown
    golden(str(e.value))


def test_a_message_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_BYTES", 1 << 20)
    api = serve(tmp_path, ANSWER + "    out.write(b'x' * (1 << 22))")
    with pytest.raises(client.MalformedReplyError, match="an answer that cannot be read"):
        api.server_info_query()


def test_a_server_survives_bad_requests(tmp_path: Path) -> None:
    api = serve(tmp_path, GOOD)
    for bad in (b"hello\n", b"[]\n", b'{"jsonrpc": "2.0", "id": 1, "method": "build"}\n'):
        api._write.write(bad)
        reply: Any = json.loads(api._line(time.monotonic() + 20))
        assert reply["error"]["code"] in (-32700, -32600)
    assert api.server_info_query()["platform_name"] == "echo"


def test_folders_without_a_server(tmp_path: Path) -> None:
    with pytest.raises(client.ProjectAPIServerNotFoundError, match=r"no microtvm_api_server\.py"):
        client.instantiate_from_dir(tmp_path)
    (tmp_path / client.SERVER_FILE).write_text(GOOD)
    with pytest.raises(SmeltError, match=r"it is a project; GeneratedProject\.from_directory"):
        TemplateProject.from_directory(tmp_path)


def test_options() -> None:
    known = [
        server.ProjectOption("board", ("uno", "mega"), "uno", "str", help="The board."),
        server.ProjectOption("fast", None, False, "bool"),
        server.ProjectOption("count", None, None, "int"),
        server.ProjectOption("key", ("x",), None, "str", ("build",), help="A key."),
    ]
    found = checked_options({"fast": "true", "count": "7", "key": "x"}, known, "build")
    assert found == {"board": "uno", "fast": True, "count": 7, "key": "x"}
    for given, said in (
        ({"bord": 1}, "build has no option 'bord'; nearest: board; options: board, fast, count, "),
        ({"board": "due"}, "option 'board' is 'due'; legal: uno, mega"),
        ({"fast": 3}, "option 'fast' is 3; legal: True, False"),
        ({"count": "many"}, "option 'count' is 'many'; legal: whole numbers"),
        ({}, r"build needs the option 'key': A key\.; legal: x"),
    ):
        with pytest.raises(SmeltError, match=said):
            checked_options(given, known, "build")
