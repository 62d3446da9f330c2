"""What is chosen for every kernel of known models, as text: another choice is a visible change.

`pytest --update-golden tests/rules/test_ledger.py` writes the ledger anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from smelt.artifact.kernel import KernelSpec, scheduled
from smelt.codegen.llvm import resolve
from smelt.ir.options import Options
from smelt.stages import kernels_of
from smelt.target import Target
from tests.models.light import NAMES, light
from tests.models.test_networks import NETWORKS

FOLDER = Path(__file__).parent / "ledger"
TARGETS = {
    "znver4": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4",
    "x86-64-v3": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3",
    "cortex-a72": "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=cortex-a72",
}


def image_sizes(model: onnx.ModelProto) -> dict[str, list[int | str]]:
    """The shape of a model's one image, its height and width symbolic."""
    (image,) = model.graph.input
    dims = image.type.tensor_type.shape.dim
    return {image.name: [dims[0].dim_value, dims[1].dim_value, "h", "w"]}


def models() -> Iterator[tuple[str, Any, Any]]:
    """Names, models and shapes: fixed, with a symbolic batch, with symbolic images."""
    for name in NAMES:
        yield name, light(name), None
    for name, (build, *_) in NETWORKS.items():
        yield f"tests {name}", build(2), None
        yield f"tests {name}, any batch", build("n"), None
    for name in ("resnet18", "mobilenet", "squeezenet", "shufflenet"):
        model = NETWORKS[name][0](1)
        yield f"tests {name}, any image", model, image_sizes(model)


def line(name: str, spec: KernelSpec) -> str:
    """One kernel's choices."""
    made = scheduled(spec)
    assert not made.failed, made.failed
    return f"  {name}: {'; '.join(made.chosen)}"


def ledger(target: str, only: slice) -> str:
    """The choices for all models."""
    resolved, lines = resolve(Target(target)), []
    for name, model, shapes in list(models())[only]:
        lines.append(name)
        specs = kernels_of(model, None, resolved, shapes, Options(threads=2), "the ledger")
        lines += [line(n, s) for n, s in specs.items()]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", TARGETS)
def test_choices_are_those_of_the_ledger(name: str, request: pytest.FixtureRequest) -> None:
    # all models for one processor, those with small images for the others
    found = ledger(TARGETS[name], slice(0 if name == "znver4" else len(NAMES), None))
    file = FOLDER / f"{name}.txt"
    if request.config.getoption("--update-golden", False):
        FOLDER.mkdir(exist_ok=True)
        file.write_text(found)
    assert file.exists(), f"{file} is missing; run pytest --update-golden"
    assert found == file.read_text()


def test_no_contraction_ends_in_a_fallback() -> None:
    """Kernels of convolutions and products have a sketch that knows them."""
    known = ("contraction", "window", "lanes", "rows", "chunks", "serial")
    heavy = ("conv2d", "matmul", "dense", "attention")
    for file in FOLDER.glob("*.txt"):
        for text in file.read_text().splitlines():
            if text.startswith("  ") and any(word in text.split(":")[0] for word in heavy):
                assert any(k in text for k in known), f"{file.name}: {text}"
                assert "plain" not in text, f"{file.name}: {text}"
