"""Runs the documents as a new user would: their blocks in order, with an installed smelt.

    python scripts/try_documents.py [PAGE ...]

Every page begins in an empty folder with the files of FILES. Blocks of Python run in one program;
of shell blocks, the lines that call smelt or tvmc are run as they are written. Stops at the first
failure.
"""

import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser

from smelt.cli.resnet import resnet18

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"(?P<note><!--[^\n]*-->\n\n?)?^```(?P<language>python|sh)\n(?P<code>.*?)^```$", re.M | re.S
)


DECODER = """<ir_version: 9, opset_import: ["" : 18]>
    step (float[1, 8] x, int64[1, 1] at, float[64, 8] past) => (float[1, 8] y, float[64, 8] present)
    {
        present = ScatterND (past, at, x)
        axes = Constant <value = int64[1] {0}> ()
        y = ReduceMax (present, axes)
    }"""
"""A model with a cache, of which each call changes a row."""


def image() -> None:
    """What the README speaks of: a ResNet-18, pictures for it, a model with a cache."""
    onnx.save(resnet18(), "resnet18.onnx")
    onnx.save(onnx.parser.parse_model(DECODER), "decoder.onnx")
    np.save("x.npy", np.random.default_rng(0).random((1, 3, 224, 224), np.float32))
    noise = np.random.default_rng(0).standard_normal((8, 1, 3, 224, 224)) / 9
    np.savez("samples.npz", input=np.cumsum(noise, axis=-1).astype("float32"))


def pictures() -> None:
    """The same, and a model with one product instead of the cache."""
    layer()
    image()
    os.replace("tiny.onnx", "decoder.onnx")


def rows() -> None:
    """A picture of five rows for the model of the first steps."""
    np.save("x.npy", np.ones((5, 8), np.float32))


def layer() -> None:
    """A layer whose kernel is called as the documents call it, and rows for it."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        net (float[n, 64] x) => (float[n, 10] y) { a = MatMul(x, w)  y = Add(a, b) }""")
    random = np.random.default_rng(0)
    for name, shape in (("w", (64, 10)), ("b", (10,))):
        value = random.standard_normal(shape).astype("float32")
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    onnx.save(model, "model.onnx")
    onnx.save(model, "tiny.onnx")
    np.save("x.npy", np.ones((5, 64), np.float32))
    np.savez("samples.npz", x=random.standard_normal((16, 64)).astype("float32"))


FILES = {
    "README.md": image,
    "docs/start.md": rows,
    "docs/dynamic.md": layer,
    "docs/looking.md": layer,
    "docs/artifacts.md": layer,
    "docs/onnx.md": layer,
    "docs/cli.md": layer,
    "docs/tvmc.md": image,
    "docs/quantization.md": pictures,
}
"""The pages that are tried, and what a reader of each has already."""


def spectrum() -> None:
    """A PyTorch model with a Fourier transform, exported, checked and run; where torch is."""
    if importlib.util.find_spec("torch") is None:
        print("PyTorch model: skipped, torch is not installed")
        return
    torch = importlib.import_module("torch")

    class Spectrum(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("window", torch.hann_window(256))
            self.head = torch.nn.Linear(129, 10)

        def forward(self, x):
            found = torch.stft(x, 256, 128, window=self.window, return_complex=True)
            return self.head(found.abs().clamp(min=1e-5).log().transpose(1, 2).mean(1))

    given = (torch.randn(2, 4000),)
    torch.onnx.export(Spectrum().eval(), given, "spectrum.onnx", dynamo=True, verbose=False)
    shell("PyTorch model", "smelt check spectrum.onnx")
    shell("PyTorch model", "smelt compile spectrum.onnx -o spectrum.so")
    shell("PyTorch model", "smelt run spectrum.so")


def run(page: str) -> None:
    """Run a page's blocks, in the current folder."""
    scope: dict[str, object] = {"__name__": "__page__"}
    text = (ROOT / page).read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        if "no-run" in (found["note"] or ""):
            continue
        line = text.count("\n", 0, found.start("code"))
        if found["language"] == "python":
            exec(compile("\n" * line + found["code"], page, "exec"), scope)
            continue
        for command in found["code"].splitlines():
            if command.startswith(("smelt ", "python -m smelt.driver.tvmc ")):
                shell(f"{page}:{line + 1}", command)


def shell(where: str, command: str) -> None:
    """Run a command with this interpreter's programs; what it says is shown where it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, shell=True, text=True, capture_output=True,
        env={**os.environ, "PATH": path, "SMELT_DEVICES": "devices.json"},
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{where}: {command}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")


def main() -> None:
    """Run the pages that are named, or all."""
    for page in sys.argv[1:] or [*FILES, ""]:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            if page:
                FILES[page]()
                run(page)
            else:
                spectrum()
            os.chdir(ROOT)
        print(f"{page or 'PyTorch model'}: {time.perf_counter() - start:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
