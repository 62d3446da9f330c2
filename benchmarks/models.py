"""The model zoo of the benchmarks: ten f32 networks as ONNX, with deterministic weights.

    python -m benchmarks.models [FOLDER]

Each NAME.onnx has NAME.inputs.npz beside it. Nothing is downloaded; writing needs the `bench`
extra, and takes about two minutes. What is there already is kept.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = (
    "mlp",
    "dscnn_kws",
    "squeezenet1_1",
    "mobilenet_v2",
    "resnet18",
    "resnet50",
    "vit_base",
    "bert_base",
    "gpt2_64",
    "llama_s_64",
)


DYNAMIC = ("resnet18_dynamic", "bert_base_dynamic")
"""With a symbolic batch, and symbolic numbers of tokens."""


def zoo(folder: Path = ROOT / "build" / "zoo", names: Sequence[str] = NAMES) -> Path:
    """The folder, with every model of the zoo in it. A process writes each: torch stays out."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if not (folder / f"{name}.inputs.npz").exists():
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.networks", name]
            subprocess.run([*command, str(folder.resolve())], cwd=ROOT, check=True)
    return folder


if __name__ == "__main__":
    print(zoo(Path(sys.argv[1])) if sys.argv[1:] else zoo())
