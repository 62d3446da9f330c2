"""docker/: what can be checked of it without docker."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from smelt.exec import common, rpc_server, rpc_tracker

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docker"
MAINS = {"smelt.exec.rpc_server": rpc_server.main, "smelt.exec.rpc_tracker": rpc_tracker.main}


def instructions() -> list[list[str]]:
    """The Dockerfile's, in words."""
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    lines = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ").splitlines()
    return [line.split() for line in lines if line]


@pytest.fixture
def services() -> dict[str, dict[str, Any]]:
    """Those of compose.yaml."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is missing")
    made = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    found: dict[str, dict[str, Any]] = made["services"]
    return found


def parsed(command: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The options of a server or tracker that a command would start, and its address."""
    assert command[:2] == ["python", "-m"]
    seen: dict[str, Any] = {}

    def made(*addresses: object, **options: object) -> None:
        seen.update(options, addresses=addresses)

    def serve(name: str, what: str, host: str, make: Callable[[], object]) -> None:
        seen.update(name=name, host=host)
        make()

    monkeypatch.setattr(common, "serve", serve)
    monkeypatch.setattr(rpc_server, "Server", made)
    monkeypatch.setattr(rpc_tracker, "Tracker", made)
    monkeypatch.setattr(sys, "argv", command[2:])
    MAINS[command[2]]()
    return seen


def test_what_the_image_copies_is_there() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [source for word, *rest in instructions() if word == "COPY" for source in rest[:-1]]
    assert {"native", "src", "pyproject.toml", "setup.py"} <= set(copied)
    for source in copied:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, source


def test_the_image_does_not_run_as_root() -> None:
    words = [word for word, *_ in instructions()]
    users = [rest for word, *rest in instructions() if word == "USER"]
    assert users == [["smelt"]]
    assert words.index("USER") > max(n for n, w in enumerate(words) if w in ("RUN", "COPY"))


def test_the_image_has_extras_that_exist() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    (extras,) = re.findall(r'"\.\[([\w,]+)\]"', text)
    for extra in extras.split(","):
        assert re.search(rf"^{extra} = \[", project, re.M), extra


def test_the_services_find_each_other(
    services: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their commands are ones that the programs take; the names are those of services."""
    monkeypatch.setenv("SMELT_RPC_TOKEN", "a token")
    assert set(services) == {"tracker", "board", "work"}
    tracker = parsed(shlex.split(services["tracker"]["command"]), monkeypatch)
    board = parsed(shlex.split(services["board"]["command"]), monkeypatch)
    port = tracker["addresses"][1]
    assert board["tracker_addr"] == ("tracker", port)
    assert (board["key"], board["custom_addr"]) == ("board", "board")
    for seen in (tracker, board):
        assert seen["addresses"][0] == "0.0.0.0"
        assert seen["security"].token == "a token"
        seen["security"].check("0.0.0.0")
    given = services["work"]["environment"]
    assert (given["TVM_TRACKER_HOST"], given["TVM_TRACKER_PORT"]) == ("tracker", str(port))


def test_the_services_are_closed(services: dict[str, dict[str, Any]]) -> None:
    """Each has the token, without which compose stops; none can be reached from outside."""
    for service in services.values():
        assert service["environment"]["SMELT_RPC_TOKEN"].startswith("${SMELT_RPC_TOKEN:?")
        assert "ports" not in service
        assert set(service.get("depends_on", ())) <= set(services)
        context = FOLDER / service["build"]["context"]
        assert context.resolve() == ROOT
        assert (context / service["build"]["dockerfile"]).is_file()
    assert services["work"]["volumes"] == ["${SMELT_MODELS:-../build/models}:/models"]
