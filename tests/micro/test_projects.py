"""Projects of every template: generated, built, and run where that can be."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import relay
from smelt.driver.tvmc.micro import run_project
from smelt.ir.types import tensor_type
from smelt.micro import (
    CSource,
    GeneratedProject,
    MicroTVMTemplateProjectNotFoundError,
    Session,
    TemplateProject,
    TemplateProjectError,
    compile_c,
    export_model_library_format,
    generate_project,
    generate_project_from_mlf,
    get_microtvm_template_projects,
    get_standalone_crt_dir,
    template_names,
)
from smelt.micro.project_api.server import ServerError
from smelt.relax.nodes import Function, Var, call, constant

from .test_c import OPTIONS, TINY
from .test_serial import at_a_port

Array = np.ndarray[Any, Any]
EXAMPLE = Path(__file__).parents[2] / "examples/micro/keyword_spotting/generate.py"
AVR = ("avr-gcc", "simavr")


def need(*programs: str) -> None:
    """Skip the test, naming what is missing."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing: make setup-edge")
    if "avr-gcc" in programs and not Path("/usr/share/arduino/hardware/arduino/avr").is_dir():
        pytest.skip("arduino-core-avr is missing: make setup-edge")


def need_arm() -> None:
    """The same for a compiler for Arm's microcontrollers."""
    if not (shutil.which("arm-none-eabi-gcc") or importlib.util.find_spec("ziglang")):
        pytest.skip("arm-none-eabi-gcc and ziglang are missing: make setup-edge")


def perceptron(*widths: int) -> smelt.IRModule:
    rng = np.random.default_rng(0)
    value: Any = relay.var("x", shape=(1, widths[0]), dtype="float32")
    for width, before in zip(widths[1:], widths, strict=False):
        w = rng.standard_normal((width, before)).astype("float32")
        value = relay.nn.relu(relay.nn.dense(value, relay.const(w)))
    return smelt.IRModule.from_expr(relay.nn.softmax(value))


@pytest.fixture(scope="module")
def net() -> CSource:
    return compile_c(perceptron(8, 6, 4), "c -mcpu=cortex-m4", name="net", options=OPTIONS)


@pytest.fixture(scope="module")
def exe() -> Any:
    return smelt.compile(perceptron(8, 6, 4), options=OPTIONS)


@pytest.fixture(scope="module")
def ramp(exe: Any) -> Array:
    """What example projects compute."""
    given = ((np.arange(8) % 17) / 7 - 1).astype("float32").reshape(1, 8)
    found: Array = exe(given).numpy()[0]
    return found


def served(project: GeneratedProject, exe: Any) -> None:
    """What a project's program computes is what this machine does, twice."""
    with Session(project.transport()) as session:
        assert [(t.dtype, t.shape) for t in session.inputs] == [("float32", (1, 8))]
        for seed in range(2):
            x = np.random.default_rng(seed).standard_normal((1, 8)).astype("float32")
            np.testing.assert_allclose(session.run(x)[0], exe(x).numpy(), rtol=1e-5, atol=1e-7)


def printed(project: GeneratedProject, end: bytes) -> list[list[str]]:
    """The lines that an example prints, until one begins with `end`: their words."""
    found, until = b"", time.monotonic() + 30
    with project.transport() as line:
        while b"\n" + end not in found and time.monotonic() < until:
            found += line.read(4096, 1.0)
    return [text.split() for text in found.decode().splitlines()]


@pytest.mark.parametrize(
    ("template", "board"),
    [("host", "host"), ("qemu", "mps2-an385"), ("qemu", "mps2-an386"), ("qemu", "mps3-an547")],
)
def test_programs_that_serve(
    template: str, board: str, net: CSource, exe: Any, tmp_path: Path
) -> None:
    if template == "qemu":
        need("qemu-system-arm")
        need_arm()
    project = generate_project(template, net, tmp_path / "project", {"board": board})
    with pytest.raises(ServerError, match="project: flash: project is not built yet; build"):
        project.flash()
    project.build()
    project.flash()
    served(project, exe)
    served(project, exe)  # the program starts again


@pytest.mark.parametrize("board", ["uno", "mega"])
def test_a_sketch_serves_on_an_avr(board: str, net: CSource, exe: Any, tmp_path: Path) -> None:
    need(*AVR)
    options = {"board": board, "project_type": "host_driven"}
    project = generate_project("arduino", net, tmp_path / "sketch", options)
    project.build()
    project.flash()
    served(project, exe)


def test_functions_that_the_library_of_avrs_lacks(tmp_path: Path) -> None:
    need(*AVR)
    x = Var("x", tensor_type((1, 8), "float32"))
    one = [call(f, x) for f in ("round", "exp2", "erf", "softplus", "elu")]
    above = call("add", call("abs", x), constant(np.array(0.1, "float32")))
    made = call("concat", *one, call("log2", above), axis=1)
    mod = smelt.IRModule({"main": Function((x,), made)})
    source = compile_c(mod, "c", name="net", options=OPTIONS)
    options = {"board": "uno", "project_type": "host_driven"}
    project = generate_project("arduino", source, tmp_path / "sketch", options)
    project.build()
    project.flash()
    exe = smelt.compile(mod, options=OPTIONS)
    with Session(project.transport()) as session:
        for scale in (1e-4, 0.3, 1.0, 3.0):
            given = (scale * np.linspace(-1.1, 1.3, 8)).astype("float32").reshape(1, 8)
            np.testing.assert_allclose(session.run(given)[0], exe(given).numpy(), 3e-6, 3e-7)


def test_a_double_of_four_bytes_is_an_error(tmp_path: Path) -> None:
    need(*AVR)
    x = Var("x", tensor_type((1, 8), "float64"))
    mod = smelt.IRModule({"main": Function((x,), call("multiply", x, x))})
    source = compile_c(mod, "c", name="net", options=OPTIONS)
    project = generate_project("arduino", source, tmp_path / "sketch", {"board": "uno"})
    with pytest.raises(ServerError, match="computes in float64, and a double has fewer than 8"):
        project.build()


def test_a_sketch_prints_on_an_avr(net: CSource, ramp: Array, tmp_path: Path) -> None:
    need(*AVR)
    project = generate_project("arduino", net, tmp_path / "sketch", {"board": "uno"})
    project.build()
    project.flash()
    words = printed(project, b"microseconds")[0]
    assert words[:2] == ["output", "0"]
    np.testing.assert_allclose([float(w) for w in words[2:6]], ramp, atol=2e-6)
    assert words[6:] == ["largest", str(ramp.argmax())]


def test_a_sketch_that_does_not_fit(tmp_path: Path, golden: Callable[[str], None]) -> None:
    need(*AVR)
    large = compile_c(perceptron(8, 64, 4), "c", name="net", options=OPTIONS)
    project = generate_project("arduino", large, tmp_path / "sketch", {"board": "uno"})
    with pytest.raises(ServerError) as e:
        project.build()
    text = str(e.value)
    assert "bytes of RAM, and its board has 2,048" in text
    golden(text.replace(text.partition("it needs ")[2].partition(" ")[0], "N"))
    assert not (tmp_path / "sketch" / "build").exists()


@pytest.mark.parametrize("kind", ["example_project", "host_driven"])
@pytest.mark.parametrize(
    ("template", "board"),
    [("arduino", "nano33ble"), ("arduino", "due"), ("zephyr", "nucleo_f746zg"),
     ("zephyr", "mps3_an547")],
)  # fmt: skip
def test_sources_compile_without_a_warning(
    template: str, board: str, kind: str, net: CSource, tmp_path: Path
) -> None:
    need_arm()
    folder = tmp_path / "project"
    options = {"board": board, "project_type": kind, "compile_definitions": "-Werror"}
    project = generate_project(template, net, folder, options)
    project.build()
    objects = {p.name for p in (folder / "build").glob("*.o")}
    assert {"net.o", "example.o" if kind == "example_project" else "served.o"} <= objects
    assert "show that these compile" in (folder / "build" / "README.md").read_text()
    with pytest.raises(ServerError, match=r"cannot be (talked to|put on)"):
        project.transport().open()


def test_a_board_without_its_tools(
    net: CSource, tmp_path: Path, golden: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZEPHYR_BASE", raising=False)
    texts = []
    for template in ("arduino", "zephyr"):
        project = generate_project(template, net, tmp_path / template)
        with pytest.raises(ServerError) as e:
            project.flash()
        texts.append(str(e.value))
    golden("\n\n".join(texts))


def tool(folder: Path, name: str) -> Path:
    """A program that keeps its arguments."""
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "$(basename $0) $ZEPHYR_BASE $@" >> {folder}/calls\n')
    path.chmod(0o755)
    return path


def calls(folder: Path, project: Path) -> list[str]:
    text = (folder / "calls").read_text().replace(str(project), "PROJECT")
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize(("template", "board"), [("arduino", "nano33ble"), ("arduino", "uno"),
                                                 ("zephyr", "nucleo_f746zg")])  # fmt: skip
def test_boards_at_a_port(
    net: CSource, exe: Any, template: str, board: str, tmp_path: Path
) -> None:
    """The host's program stands in for the board's, which serves the model in the same way."""
    pytest.importorskip("serial")
    host = generate_project("host", net, tmp_path / "host", {"board": "host"})
    host.build()
    options = {"board": board, "project_type": "host_driven"}
    folder = tmp_path / "project"
    project = generate_project(template, net, folder, options)
    with pytest.raises(ServerError, match=r"cannot be talked to: the option port|not built"):
        project.transport().open()
    x = np.random.default_rng(0).random((1, 8)).astype("float32")
    with at_a_port([tmp_path / "host" / "build" / "program"]) as port:
        found = run_project(folder, {"x": x}, options=[f"port={port}"])
    np.testing.assert_allclose(found.get_output("output_0"), exe(x), rtol=1e-5)


def test_arduino_cli(net: CSource, tmp_path: Path) -> None:
    """Where there is one, it builds and uploads."""
    folder, cli = tmp_path / "sketch", tool(tmp_path, "arduino-cli")
    project = generate_project("arduino", net, folder, {"arduino_cli_cmd": str(cli)})
    project.build()
    with pytest.raises(ServerError, match=r"the option port is missing; `.*arduino-cli board list"):
        project.flash()
    GeneratedProject.from_directory(folder, {"port": "/dev/ttyACM0"}).flash()
    built, uploaded = calls(tmp_path, folder)
    fqbn = "--fqbn arduino:mbed_nano:nano33ble"
    assert built.startswith(f"arduino-cli compile {fqbn} --output-dir ")
    assert uploaded == (f"arduino-cli upload {fqbn} --port /dev/ttyACM0 --input-dir PROJECT/build "
                        "PROJECT")  # fmt: skip


def test_west(net: CSource, tmp_path: Path) -> None:
    folder, west = tmp_path / "app", tool(tmp_path, "west")
    options = {"west_cmd": str(west), "zephyr_base": "/zephyr", "board": "nucleo_l4r5zi"}
    project = generate_project("zephyr", net, folder, options)
    project.build()
    project.flash()
    assert calls(tmp_path, folder) == ["west /zephyr build -b nucleo_l4r5zi -d west . -- "
                                       "-DEXTRA_CFLAGS=", "west /zephyr flash -d west"]  # fmt: skip


def test_cmake(net: CSource, ramp: Array, tmp_path: Path) -> None:
    need("cmake")
    flags = {"compile_definitions": "-Wall -Wextra -Werror"}
    project = generate_project("cmake", net, tmp_path / "project", flags)
    project.build()
    assert (tmp_path / "project" / "build" / "libnet.a").exists()
    with project.transport() as line:
        words = line.read(4096, 10.0).split()
    np.testing.assert_allclose([float(w) for w in words[2:]], ramp, atol=2e-6)


# ------------------------------------------------------------------------------ whole or not at all


def left(folder: Path) -> Sequence[str]:
    return sorted(p.name for p in folder.iterdir())


def test_folders_are_whole_or_not_there(net: CSource, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").touch()
    with pytest.raises(ServerError, match="full is there already; legal: a folder that is not, or"):
        generate_project("host", net, full)
    (tmp_path / "empty").mkdir()
    generate_project("host", net, tmp_path / "empty")
    (tmp_path / "bad.tar").write_text("bad")
    with pytest.raises(ServerError, match=r"host: generate_project: .*bad\.tar: it is no whole"):
        generate_project_from_mlf("host", tmp_path / "made", tmp_path / "bad.tar")
    with pytest.raises(ServerError, match=r"cannot write .*: No such file or directory"):
        generate_project("host", net, tmp_path / "no" / "folder")
    assert left(tmp_path) == ["bad.tar", "empty", "full"]
    assert left(full) == ["mine"]


def test_a_build_that_fails_keeps_the_last_one(net: CSource, exe: Any, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    project = generate_project("host", net, folder)
    project.build()
    source = folder / "src" / "net.c"
    good = source.read_text()
    source.write_text(good + "\nint broken = ;\n")
    with pytest.raises(ServerError, match="cannot be compiled; the C compiler says"):
        project.build()
    served(project, exe)
    source.write_text(good)
    project.build()
    assert left(folder) == ["build", "microtvm_api_server.py", "model.tar", "project.json", "src"]


def test_a_project_keeps_its_board(net: CSource, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    generate_project("qemu", net, folder, {"board": "mps2-an500"})
    again = GeneratedProject.from_directory(folder)
    assert again.options["board"] == "mps2-an500"
    assert again.info()["model_library_format_path"] == str(folder / "model.tar")
    with pytest.raises(TemplateProjectError, match="'board' is 'mps2-an386'; legal: mps2-an500"):
        GeneratedProject.from_directory(folder, {"board": "mps2-an386"})


def test_programs_end(net: CSource, tmp_path: Path) -> None:
    """One that ends is an error that says how; one that runs ends with its project."""
    folder = tmp_path / "project"
    project = generate_project("host", net, folder)
    project.build()
    line = project.transport()
    Session(line).close()
    with pytest.raises(ServerError, match="the transport is not open"):
        line.read(1, 1.0)
    main = folder / "src" / "main.c"
    main.write_text("int main(void) { return 3; }\n")
    project.build()
    with project.transport() as line, pytest.raises(ServerError, match="ended with exit code 3"):
        line.read(1, 5.0)
    main.write_text("#include <unistd.h>\nint main(void) { return (int)sleep(600); }\n")
    project.build()
    project.flash()
    running: list[Path] = []
    until = time.monotonic() + 20
    while not running and time.monotonic() < until:
        programs = [p for p in Path("/proc").glob("[0-9]*/exe") if os.access(p, os.R_OK)]
        running = [p for p in programs if str(p.resolve()).startswith(str(folder))]
    assert len(running) == 1
    line.close()
    project.close()
    assert not running[0].parent.exists()


def test_verbose(net: CSource, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The commands of a project are shown where that is asked for."""
    for verbose in (False, True):
        project = generate_project("cmake", net, tmp_path / str(verbose), {"verbose": verbose})
        if shutil.which("cmake") is None:
            pytest.skip("cmake is missing")
        project.build()
        assert ("cmake --build" in capfd.readouterr().err) == verbose


def test_templates_are_found(net: CSource, tmp_path: Path) -> None:
    assert template_names() == ["arduino", "cmake", "host", "qemu", "zephyr"]
    assert get_microtvm_template_projects("crt") == get_microtvm_template_projects("host")
    assert "smelt_serial.h" in os.listdir(get_standalone_crt_dir())
    with pytest.raises(MicroTVMTemplateProjectNotFoundError, match="no template 'arduin'; nearest"):
        generate_project("arduin", net, tmp_path / "project")
    with pytest.raises(TemplateProjectError, match="generate_project: template_project_dir is mis"):
        generate_project(module=net, generated_project_dir=tmp_path / "project")
    with pytest.raises(TemplateProjectError, match="'project_type' is 'x'; legal: example_project"):
        generate_project("zephyr", net, tmp_path / "project", {"project_type": "x"})
    template = TemplateProject.from_directory(get_microtvm_template_projects("qemu"))
    assert template.info()["project_options"][2].choices[0] == "mps2-an385"
    path = export_model_library_format(net, tmp_path / "model.tar")
    made = template.generate_project_from_mlf(path, tmp_path / "project")
    assert made.info()["platform_name"] == "qemu"


def test_the_example_runs(tmp_path: Path) -> None:
    model = TINY / "kws_int8.tflite"
    if not model.exists():
        pytest.skip(f"no trained models in {TINY} (SMELT_MODELS)")
    need_arm()
    command = [sys.executable, str(EXAMPLE), str(model.resolve()), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\d+ bytes of workspace, \d+ of constants", done.stdout.splitlines()[0])
    assert left(tmp_path) == ["keywords.tar", "keywords_arduino", "keywords_zephyr"]
    assert (tmp_path / "keywords_arduino" / "keywords_arduino.ino").exists()
    assert (tmp_path / "keywords_zephyr" / "build" / "net.o").exists()
