"""The cases of the installed onnx package's backend suite: `kind/name`, model, data.

Two kinds are our own: `opset`, older versions of operators, which the suite no longer has; and
`converted`, models of the suite that onnx's version converter moved to another operator set.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TypeProto, numpy_helper, version_converter
from onnx.backend.test.loader import DATA_DIR, load_model_tests

from .opsets import OLDEST, expected, older

__all__ = ["KINDS", "OWN", "Case", "DataSet", "load"]

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
OWN = ("opset", "converted")
CONVERTED = 2  # models for each operator set

DataSet = tuple[list[Any], list[Any]]


@dataclass(frozen=True)
class Case:
    """One model with its data, which come from one of four places.

    rtol, atol  tolerances, the suite's own
    made        what onnx's generator gave
    folder      files of model, inputs and results; `opset`: the model is converted to it
    light       a model's file; its inputs are made, its results lie beside it
    inputs      a model with inputs; another runtime says what its results are
    """

    name: str
    rtol: float
    atol: float
    made: tuple[ModelProto, Sequence[tuple[Sequence[Any], Sequence[Any]]]] | None = None
    folder: Path | None = None
    opset: int | None = None
    light: Path | None = None
    inputs: tuple[ModelProto, Sequence[Any]] | None = None

    def read(self) -> tuple[ModelProto, Iterator[DataSet]]:
        """The model, and inputs and results wanted of each of its runs."""
        if self.made is not None:
            model, made = self.made
            return model, ((plain(i), plain(o)) for i, o in made)
        if self.light is not None:
            model = onnx.load(self.light)
            return model, iter([(ramps(model), light_results(self.light, model))])
        if self.inputs is not None:
            model, given = self.inputs
            return model, iter([(plain(given), expected(model, plain(given)))])
        assert self.folder is not None
        model = onnx.load(self.folder / "model.onnx")
        if self.opset is not None:
            model = version_converter.convert_version(model, self.opset)
        sets = (read_set(f, model) for f in sorted(self.folder.glob("test_data_set*")))
        return model, sets


def load() -> dict[str, Case]:
    """Every case that needs no network, by `kind/name`, sorted. Takes seconds: data are made."""
    found = {}
    generated = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the generators divide by zero on purpose
        for kind in KINDS:
            for t in load_model_tests(kind=kind):
                name = f"{kind}/{t.name.removeprefix('test_')}"
                if t.model is not None and t.data_sets is not None:
                    found[name] = Case(name, t.rtol, t.atol, made=(t.model, t.data_sets))
                    generated.append((t.model, t.data_sets[0][0]))
                elif t.model_dir is not None:
                    found[name] = Case(name, t.rtol, t.atol, folder=Path(t.model_dir))
                elif (light := Path(DATA_DIR, "light", Path(t.url or "").name)).is_file():
                    found[name] = Case(name, t.rtol, t.atol, light=light)
    for m in older(generated):
        name = f"opset/{m.name}"
        found[name] = Case(name, 1e-3, 1e-6, inputs=(m.proto, m.inputs))
    found |= converted([c for name, c in sorted(found.items()) if name.startswith("pytorch")])
    return dict(sorted(found.items()))


def converted(cases: Sequence[Case]) -> dict[str, Case]:
    """Different models for every operator set, spread over all of them."""
    sets = [*range(OLDEST, onnx.defs.onnx_opset_version() + 1)] * CONVERTED
    found = {}
    for n, opset in enumerate(sets):
        case = cases[n * len(cases) // len(sets)]
        name = f"converted/{case.name.split('/')[1]}-{opset}"
        found[name] = replace(case, name=name, opset=opset)
    return found


def plain(values: Sequence[Any]) -> list[Any]:
    """Operands as smelt takes them: protobuf tensors become arrays."""
    return [numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for v in values]


def read_set(folder: Path, model: ModelProto) -> DataSet:
    """The files of one run."""
    read = []
    for what, infos in (("input", model.graph.input), ("output", model.graph.output)):
        count = len(list(folder.glob(f"{what}_*.pb")))
        read.append([read_value(folder / f"{what}_{n}.pb", infos[n].type) for n in range(count)])
    return read[0], read[1]


def read_value(path: Path, declared: TypeProto) -> Any:
    """A tensor, sequence or optional of a file."""
    data = path.read_bytes()
    match declared.WhichOneof("value"):
        case "sequence_type":
            return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
        case "optional_type":
            return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
        case _:
            return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def ramps(model: ModelProto) -> list[Any]:
    """The inputs of a model that comes without data: 0 to 1 in even steps, as onnx's runner."""
    known = {i.name for i in model.graph.initializer}
    shapes = [
        tuple(d.dim_value or 1 for d in i.type.tensor_type.shape.dim)
        for i in model.graph.input
        if i.name not in known
    ]
    return [(np.arange(n := np.prod(s)).reshape(s) / n).astype(np.float32) for s in shapes]


def light_results(path: Path, model: ModelProto) -> list[Any]:
    """The results of a model without weights of its own, which lie beside it."""
    return [
        read_value(path.with_name(f"{path.stem}_output_{n}.pb"), output.type)
        for n, output in enumerate(model.graph.output)
    ]
