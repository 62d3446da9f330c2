"""What is chosen for every kernel of the zoo: `python -m benchmarks.choices [FOLDER]`.

The models as they are, with a symbolic batch, and, where their input is an image, with symbolic
sizes of it. A fallback is a contraction, or another reduction, that no sketch for it schedules.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import onnx

from benchmarks import models
from benchmarks.options import arguments, report
from benchmarks.report import Results, table
from smelt.artifact.kernel import planned
from smelt.codegen.llvm import resolve
from smelt.ir.options import Options
from smelt.rules.cpu.analysis import block_info
from smelt.rules.cpu.program import Part, is_contraction
from smelt.stages import kernels_of
from smelt.target import Target

TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4"
QUICK = ("mlp", "dscnn_kws")
KNOWN = {
    "contractions": ("contraction", "window"),
    "other reductions": ("contraction", "window", "lanes", "rows", "chunks", "serial"),
    "elementwise": ("elementwise", "rows"),
}
"""The sketches that are none's fallback."""
Shapes = dict[str, list[int | str]]


def variants(model: onnx.ModelProto) -> Iterator[tuple[str, Shapes | None]]:
    """A model as it is, and with symbolic sizes."""
    dims = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    yield "", None
    yield "any batch", {name: ["n", *shape[1:]] for name, shape in dims.items()}
    if len(dims) == 1:
        ((name, shape),) = dims.items()
        if len(shape) == 4:
            yield "any image", {name: [*shape[:2], "h", "w"]}


def kind(part: Part) -> str:
    """What a part computes, in the words of KNOWN."""
    info = block_info(part.site.schedule, part.site.anchor)
    if is_contraction(info):
        return "contractions"
    return "other reductions" if info.is_reduction else "elementwise"


def chosen(model: onnx.ModelProto, shapes: Shapes | None) -> Results:
    """Each kernel's choices as text, and how many parts of each kind there are."""
    specs = kernels_of(model, None, resolve(Target(TARGET)), shapes, Options(threads=2), "choices")
    counts, fallbacks, texts = Counter[str](), [], {}
    for name, spec in specs.items():
        plan = planned(spec)
        parts = [] if plan is None else plan.parts
        texts[name] = [str(p.choices[0]) if p.choices else "none" for p in parts]
        for p, text in zip(parts, texts[name], strict=True):
            counts[kind(p)] += 1
            if text.split("(")[0] not in KNOWN[kind(p)]:
                fallbacks.append(f"{name}: {text}")
    return {"kernels": texts, "counts": dict(counts), "fallbacks": fallbacks}


def measure(
    folder: Path, names: Sequence[str] = models.NAMES, say: Callable[[str], object] = print
) -> Results:
    """Some models of a folder."""
    rows = []
    for name in names:
        model = onnx.load(folder / f"{name}.onnx")
        for variant, shapes in variants(model):
            rows.append({"model": name, "variant": variant, **chosen(model, shapes)})
        say(f"{name} done")
    return {"target": TARGET, "rows": rows}


def section(results: Results) -> str:
    """The results as markdown."""
    rows = results["rows"]
    lines = [
        [", ".join([r["model"], *([r["variant"]] * bool(r["variant"]))]), len(r["kernels"]),
         *[r["counts"].get(k, 0) for k in KNOWN], len(r["fallbacks"])]
        for r in rows
    ]  # fmt: skip
    sums = [sum([int(line[n]) for line in lines]) for n in range(1, len(KNOWN) + 3)]
    lines.append(["**all**", *[f"**{n}**" for n in sums]])
    note = (
        "Parts of kernels by what they compute; a fallback is one that no sketch for it schedules."
    )
    wrong = [f"{r['model']}: {text}." for r in rows for text in r["fallbacks"]]
    return "\n\n".join([table(["model", "kernels", *KNOWN, "fallbacks"], lines), note, *wrong])


if __name__ == "__main__":
    asked = arguments(__doc__)
    names = asked.only or (QUICK if asked.quick else models.NAMES)
    folder = Path(asked.folder) if asked.folder else models.zoo(names=names)
    found = measure(folder, names)
    report("choices", asked, found, section(found))
