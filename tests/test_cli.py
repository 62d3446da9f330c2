"""The command line: what it reads, what it prints, how it ends. Models are seldom compiled."""

import importlib.metadata
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest

import smelt
from smelt.cli import main as command_line
from smelt.cli.commands import COMMANDS
from smelt.cli.console import UsageError
from smelt.cli.inputs import given_inputs, random_inputs, read_inputs, write_outputs
from smelt.cli.peer import Peer
from smelt.cli.resnet import resnet18
from smelt.cli.results import largest_error
from smelt.cli.sizes import SizeOptions, read_shapes
from smelt.cli.timing import interleave, summary
from smelt.frontend.common import Input
from smelt.ir.errors import InternalError
from smelt.ir.sizes import Size
from smelt.runtime import MemoryInfo, TensorInfo
from smelt.runtime.errors import SmeltError
from smelt.runtime.limits import MachineLimits
from tests.updates import nets

Smelt = Callable[..., int]


@pytest.fixture(name="cli")
def fixture_cli(monkeypatch: pytest.MonkeyPatch) -> Smelt:
    """Runs the command line in this process; gives the exit code."""

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["smelt", *arguments])
        with pytest.raises(SystemExit) as done:
            command_line.main()
        return int(done.value.code or 0)

    return run


class Doubler:
    """Stands for a compiled model: one input, twice its value as output."""

    inputs: tuple[TensorInfo, ...] = (TensorInfo("x", "float32", (2, 3)),)
    outputs: tuple[TensorInfo, ...] = (TensorInfo("y", "float32", (2, 3)),)
    memory = MemoryInfo(weights=3_000_000, workspace=2_000_000, live=1_500_000)
    metadata: ClassVar[dict[str, Any]] = {}

    class Value:
        def __init__(self, value: Any) -> None:
            self.value = value

        def numpy(self) -> Any:
            return self.value

    def __call__(self, *inputs: Any) -> Any:
        return self.Value(2 * inputs[0])

    def export_library(self, path: str, cc: str | None = None, header: bool = False) -> None:
        Path(path).write_bytes(b"library")

    def profile(self, *inputs: Any) -> Any:
        raise NotImplementedError


def compiles_to(monkeypatch: pytest.MonkeyPatch, result: object) -> None:
    """Let `smelt.compile` give `result`, or raise it."""

    def compile_(model: Any, target: Any = None, **options: Any) -> Any:
        if isinstance(result, BaseException):
            raise result
        return result

    monkeypatch.setattr(smelt, "compile", compile_, raising=False)


def modules(*arguments: str) -> set[str]:
    """What a process of the command line has imported when it ends."""
    program = (
        "import atexit, sys; sys.argv = ['smelt', *sys.argv[1:]]; "
        "atexit.register(lambda: print('|', *sys.modules)); "
        "from smelt.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stdout.rpartition("|")[2].split())


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_nothing_of_the_compiler(option: str) -> None:
    loaded = modules(option)
    ours = {m for m in loaded if m.startswith("smelt")}
    ours.discard("smelt.version")
    assert ours == {
        "smelt", "smelt.interrupts", "smelt.cli", "smelt.cli.main", "smelt.cli.commands",
    }  # fmt: skip
    assert not {"numpy", "onnx", "llvmlite"} & loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_commands_say_of_themselves(name: str) -> None:
    module, function = COMMANDS[name][0].split(":")
    command = getattr(importlib.import_module(f"smelt.cli.{module}"), function)
    first = inspect.cleandoc(command.__doc__).partition("\n\n")[0]
    assert " ".join(first.split()) == COMMANDS[name][1]


START = """
import importlib, os, signal, sys
real = importlib.import_module
def interrupted(name, *more):
    os.kill(os.getpid(), signal.SIGINT)
    return real(name, *more)
importlib.import_module = interrupted
from smelt.cli.main import main
main()
"""


def test_ctrl_c_is_quiet_while_the_command_line_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_that_is_ignored_stays_so() -> None:
    ignored = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{START}"
    arguments = [sys.executable, "-c", ignored, "--version"]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_python_m_smelt_is_smelt() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "smelt", "--version"], capture_output=True, text=True
    )
    assert done.stdout == f"smelt {smelt.__version__}\n"
    assert smelt.__version__ == importlib.metadata.version("smelt")


def test_the_version(cli: Smelt, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli("--version") == 0
    assert capsys.readouterr().out.startswith("smelt 0.")


@pytest.mark.parametrize(
    "command", ["compile", "run", "check", "bench", "profile", "show", "tune", "targets", "demo"]
)
def test_every_command_has_help(
    cli: Smelt, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli(command, "--help") == 0
    assert "--help" in capsys.readouterr().out


def test_a_users_mistake_is_one_message(
    cli: Smelt, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiles_to(monkeypatch, SmeltError("m.onnx: node 'up' [bold]: no"))
    assert cli("compile", "m.onnx") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "smelt: error: m.onnx: node 'up' [bold]: no\n"


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (InternalError("pass fuse: no"), 70),
        (KeyboardInterrupt(), 130),
        (PermissionError(13, "Permission denied", "/m.onnx"), 2),
    ],
)
def test_the_exit_code_says_what_happened(
    cli: Smelt,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    raised: BaseException,
    code: int,
) -> None:
    compiles_to(monkeypatch, raised)
    assert cli("compile", "m.onnx") == code
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["bench", "m.onnx", "--threads", "0"], "--threads"),
        (["show", "m.onnx", "--stage", "assembly"], "unknown stage 'assembly'; stages: "),
        (["compile", "m.onnx", "--shape", "x"], "--shape 'x' is not of the form NAME=SIZE"),
        (["compile", "m.so"], "m.so is compiled already"),
        (["run", "m.so", "--threads", "1"], "m.so is compiled already"),
        (["run", "m.onnx", "--output", "y.txt"], "must end in .npy or .npz"),
        (["bench", "m.onnx", "--against", "paper"], "--against paper"),
        (["melt"], "melt"),
    ],
)
def test_bad_arguments(
    cli: Smelt, arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli(*arguments) == 2
    said = capsys.readouterr()
    assert text in said.err
    assert "Traceback" not in said.err


def test_compile_writes_a_library(
    cli: Smelt, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    compiles_to(monkeypatch, Doubler())
    library = tmp_path / "m.so"
    assert cli("compile", "m.onnx", "-o", str(library), "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["planned_bytes"] == 2_000_000
    assert library.read_bytes() == b"library"


def test_run_reads_and_writes_arrays(
    cli: Smelt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiles_to(monkeypatch, Doubler())
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", x)
    given, result = str(tmp_path / "x.npy"), str(tmp_path / "y.npz")
    assert cli("run", "m.onnx", "--input", given, "--output", result) == 0
    np.testing.assert_array_equal(np.load(result)["y"], 2 * x)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npy", "y.npz"]


def test_shapes() -> None:
    assert read_shapes(["a=1,3, 224", "s="]) == {"a": (1, 3, 224), "s": ()}
    with pytest.raises(UsageError, match="gives input 'a' twice"):
        read_shapes(["a=1", "a=2"])
    with pytest.raises(UsageError, match="not of the form"):
        read_shapes(["a=1,-2"])


def test_symbolic_sizes() -> None:
    sizes = SizeOptions(["x=n,3", "y=n + 1,2 * n"], ["n=..16"], ["n=1,8"])
    n = Size("n", min=1, max=16, likely=(1, 8))
    assert sizes.shapes(list) == {"x": (n, 3), "y": ("n + 1", "2 * n")}
    assert SizeOptions(["x=m,3"], ["m=0..4"]).shapes(list) == {"x": (Size("m", 0, 4), 3)}
    file = [Input("x", "float32", ("n", None, 3)), Input("y", "float32", ("m",))]
    assert SizeOptions(None, ["n=..16"], ["n=1,8"]).shapes(lambda: file) == {"x": (n, "x_1", 3)}
    for wrong, text in (
        (SizeOptions(["x=1,3"], ["k=1..2"]), "name the size 'k', which is no extent in --shape"),
        (SizeOptions([], ["mm=1..2"]), "no size of the file; nearest: m; sizes of the file: n, m"),
        (SizeOptions(["x=n"], ["n=1-2"]), "not of the form NAME=FROM..TO"),
        (SizeOptions(["x=n"], [], ["n=x"]), "--likely 'n=x' is not of the form"),
    ):
        with pytest.raises(UsageError, match=text):
            wrong.shapes(lambda: file)


def test_random_inputs_of_symbolic_sizes() -> None:
    tensors = (TensorInfo("x", "float32", ("n", 3)), TensorInfo("m", "int64", ("n + 1",)))
    x, m = random_inputs(tensors, {"n": 4})
    assert (x.shape, m.shape) == ((4, 3), (5,))


def test_random_sizes_leave_something_of_every_extent() -> None:
    valid = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        net (float[1, 1, n] x, float[1, 1, 3] w) => (float[1, 1, 1] r)
        { y = Conv (x, w) r = GlobalAveragePool (y) }""")
    exe = smelt.compile(valid, threads=1)
    assert given_inputs("net", exe, None, None)[0].shape == (1, 1, 4)
    assert given_inputs("net", exe, None, ["n=2"])[0].shape == (1, 1, 2)


def test_random_inputs_have_an_end() -> None:
    text = r"input 'x' of shape \[1, 2147483648\] has 8589\.93 MB: random inputs have at most"
    with pytest.raises(UsageError, match=text):
        random_inputs([TensorInfo("x", "float32", ("n", 1 << 31))], {"n": 1})


def test_inputs_have_to_fit_the_model(tmp_path: Path) -> None:
    tensors = Doubler.inputs
    np.savez(tmp_path / "z.npz", z=np.zeros(2))
    with pytest.raises(UsageError, match=r"holds z; the inputs are x"):
        read_inputs(str(tmp_path / "z.npz"), tensors)
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(UsageError, match=r"text.npy cannot be read as arrays: it holds no"):
        read_inputs(str(tmp_path / "text.npy"), tensors)
    with pytest.raises(UsageError, match="no such file"):
        read_inputs(str(tmp_path / "none.npy"), tensors)
    open_size = (TensorInfo("x", "float32", ("n", 3)),)
    with pytest.raises(UsageError, match=r"input 'x' has the shape \(n, 3\)"):
        random_inputs(open_size)


def test_nothing_is_left_half_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="2 outputs"):
        write_outputs(str(tmp_path / "y.npy"), ["a", "b"], [np.zeros(1), np.zeros(1)])
    assert not list(tmp_path.iterdir())


def test_the_error_of_a_result() -> None:
    a, b = np.array([1.0, 2.0]), np.array([1.0, 4.0])
    assert largest_error([a, a], [a, b]) == 0.5
    assert largest_error([a], [np.zeros(3)]) == float("inf")
    assert largest_error([a * np.nan], [a]) == float("inf")
    assert largest_error([a * np.nan], [a * np.nan]) == 0 == largest_error([], [])
    with np.errstate(divide="ignore"):
        assert largest_error([a / 0], [a / 0]) == 0
    assert largest_error([np.zeros(0)], [np.zeros(0)]) == 0


def test_interleaved_timing_counts_every_call() -> None:
    calls = [0, 0]

    def count(index: int) -> None:
        calls[index] += 1

    samples = interleave([lambda: count(0), lambda: count(1)], seconds=0.001, rounds=2)
    assert [len(taken) >= 6 for taken in samples] == [True, True]
    assert summary(samples[0])["calls"] == len(samples[0]) < calls[0]


def test_the_resnet_is_the_known_one() -> None:
    model = resnet18()
    onnx.checker.check_model(model, full_check=True)
    trained = [w for w in model.graph.initializer if not w.name.endswith(("mean", "var"))]
    assert sum(int(np.prod(w.dims)) for w in trained) == 11_689_512
    assert [node.op_type for node in model.graph.node].count("Conv") == 20


def test_the_resnet_is_the_same_every_time() -> None:
    small: dict[str, int] = {"image": 32, "width": 8, "classes": 10}
    one, two = resnet18(**small), resnet18(**small)
    assert one.SerializeToString() == two.SerializeToString()
    assert resnet18(**small, seed=1).SerializeToString() != one.SerializeToString()


def test_the_resnet_keeps_the_scale_of_its_activations() -> None:
    pytest.importorskip("onnxruntime")
    model = resnet18(batch="n", image=64, width=16, classes=50)
    x = np.random.default_rng(0).standard_normal((3, 3, 64, 64), np.float32)
    (y,) = Peer(model.SerializeToString(), 1)({"input": x})
    assert y.shape == (3, 50)
    assert 0.1 < y.std() < 10


def places() -> onnx.ModelProto:
    return onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 20]>
        agraph (float[n, 3] x, int64[1] axes) => (int64[2, m] places, float[k] sums)
        { places = NonZero (x)  sums = ReduceSum <keepdims = 0> (x, axes) }""")


def test_a_model_that_decides_while_it_runs(
    cli: Smelt, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, inputs, results = (str(tmp_path / n) for n in ("m.onnx", "i.npz", "o.npz"))
    onnx.save(places(), path)
    np.savez(inputs, x=np.array([[0, 2, 0], [1, 0, 0]], "float32"), axes=np.array([1]))
    assert cli("run", path, "--input", inputs, "--output", results) == 0
    with np.load(results) as found:
        assert found["places"].tolist() == [[0, 1], [1, 0]]
        assert found["sums"].tolist() == [2, 1]
    assert cli("check", path, "--operators") == 0
    assert "NonZero-13" in capsys.readouterr().out
    assert cli("profile", path, "--input", inputs) == 0
    assert "argwhere" in capsys.readouterr().out


def test_a_model_with_a_state(
    cli: Smelt, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, library, inputs = (str(tmp_path / n) for n in ("step.onnx", "step.so", "i.npz"))
    onnx.save(nets.step("scatter_elements"), path)
    states = ("--state", "past_k=present_k", "--state", "past_v=present_v")
    assert cli("compile", path, *states, "-o", library) == 0
    exe: Any = smelt.load(library)
    assert list(exe.state) == ["past_k", "past_v"]
    q, k, v, at = nets.step_inputs(3)
    np.savez(inputs, q=q, k=k, v=v, at=at)
    for command in ("run", "bench", "profile"):
        assert cli(command, library, "--input", inputs, *SHORT.get(command, ())) == 0
    assert cli("check", library, "--model", path) == 0, "beside onnxruntime, from random caches"
    assert cli("check", path, *states) == 0
    artifact = str(tmp_path / "step.o")
    assert cli("compile", path, *states, "-o", artifact) == 0
    header = (tmp_path / "step.h").read_text()
    assert "output 1 is the memory of input 4, which a run updates" in header
    assert "_TENSORS 9" in header
    capsys.readouterr()
    assert cli("bench", path, *states, "--against", "onnxruntime") == 2
    assert "it keeps no state; leave --state out" in capsys.readouterr().err
    assert cli("run", path, "--state", "past_k") == 2
    assert "--state past_k: an input and an output, once each" in capsys.readouterr().err
    assert cli("run", library, *states) == 2
    assert "is compiled already" in capsys.readouterr().err


SHORT = {"bench": ("--seconds", "0.05")}


def test_check_lists_what_does_not_work(
    cli: Smelt, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = places()
    model.graph.node[0].op_type = "Wander"
    path = str(tmp_path / "m.onnx")
    onnx.save(model, path)
    assert cli("check", path) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "Wander (not in ai.onnx 20) (places): no such operator here" in said
    assert cli("check", path, "--json") == 1
    made = json.loads(capsys.readouterr().out)
    assert not made["works"]
    assert [o["state"] for o in made["operators"]] == ["needs values", "not supported"]


def test_an_object_file_for_another_machine(
    cli: Smelt, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = tmp_path / "tiny.onnx", tmp_path / "tiny.o"
    onnx.save(resnet18(image=32, width=8, classes=10), model)
    target = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"
    assert cli("compile", str(model), "--target", target, "-o", str(out), "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["target"] == "aarch64-linux-gnu"
    assert said["header"] == str(tmp_path / "tiny.h")
    assert out.read_bytes()[18] == 183, "the machine of an ELF file: AArch64"


def test_a_profile_is_printed_and_written(
    cli: Smelt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []

    def limits(threads: int | None, between: Callable[[], object]) -> MachineLimits:
        calls.append(threads)
        between()
        between()
        return MachineLimits(1e6, 1e6, threads=1)

    monkeypatch.setattr(smelt, "machine_limits", limits, raising=False)
    model, page, trace = (tmp_path / n for n in ("tiny.onnx", "p.html", "p.json"))
    onnx.save(resnet18(image=32, width=8, classes=10), model)
    written = ("--html", str(page), "--trace", str(trace))
    assert cli("profile", str(model), "--threads", "1", *written) == 0
    said = capsys.readouterr().out
    assert "nodes" in said.splitlines()[0]
    assert "limits, measured on 1 thread: 1000000 GFLOP/s" in said
    assert page.read_text().startswith("<!DOCTYPE html>")
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(e.get("cat") == "run" for e in events) == 6
    assert cli("profile", str(model), "--threads", "1", "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert len(made["runs_ms"]) == 6
    assert {"model", "total_ms", "kernels", "limits", "busy", "notes"} <= made.keys()
    assert any(k["nodes"] for k in made["kernels"])
    assert calls == [1, 1]
    assert cli("profile", str(model), "--threads", "1", "--html", "/dev/null") == 0
    assert capsys.readouterr().out == ""


def test_a_profile_that_cannot_be_written_is_not_measured(
    cli: Smelt, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in ("--html", "--trace"):
        assert cli("profile", "no.onnx", option, str(tmp_path / "none" / "x")) == 2
        assert "does not exist" in capsys.readouterr().err
