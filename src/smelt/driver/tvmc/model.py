"""What the commands hand on: a model that was read, what was compiled of it, what a run gave."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from smelt import relay
from smelt.frontend.torch import as_onnx, load_program
from smelt.ir.errors import SmeltError
from smelt.ir.module import IRModule
from smelt.relay.build_module import bind_params
from smelt.runtime.errors import unknown
from smelt.runtime.files import check_target, write_file
from smelt.runtime.report import TimeEvaluation

PathLike = str | os.PathLike[str]

SUFFIXES = {".onnx": "onnx", ".tflite": "tflite", ".pt2": "pytorch", ".relay": "relay"}
ABSENT = {"keras": "from_keras", "pb": "from_tensorflow", "paddle": "from_paddle"}
"""Formats that are not read, and the classic importers for them, which say how they become ONNX."""


class TVMCException(SmeltError):
    """What a command cannot carry out."""


class TVMCModel:
    """A model as a Relay module.

    mod, params  the module, and arrays for parameters of "main", by name
    """

    def __init__(
        self, mod: IRModule | None = None, params: Mapping[str, Any] | None = None,
        model_path: PathLike | None = None,
    ) -> None:  # fmt: skip
        """mod and params as importers give them; or model_path, a file that `save` wrote."""
        if mod is None and model_path is None:
            raise TVMCException("TVMCModel: give mod and params, or the model_path of a saved one")
        self.mod, self.params = mod or IRModule({}), dict(params or {})
        self._folder = tempfile.TemporaryDirectory(prefix="smelt-tvmc-")
        if model_path is not None:
            self.load(model_path)

    def save(self, model_path: PathLike) -> None:
        """Write the module as text, with its constants and parameters (.relay)."""
        text = bind_params(self.mod, self.params).astext()
        write_file(model_path, lambda file: file.write(text.encode()))

    def load(self, model_path: PathLike) -> None:
        """Read what `save` wrote. Raises ParseError, OSError."""
        self.mod, self.params = relay.fromtext(Path(model_path).read_text(encoding="utf-8")), {}

    def default_tuning_records_path(self) -> str:
        """A file that is there as long as this object is."""
        return os.path.join(self._folder.name, "tuning_records.json")

    def default_package_path(self) -> str:
        """The same for a package."""
        return os.path.join(self._folder.name, "module.tar")

    def summary(self, file: TextIO | None = None) -> None:
        """Print the module, without its constants."""
        print(self.mod.astext(show_meta_data=False), file=file)


def load_model(
    path: PathLike,
    model_format: str | None = None,
    shape_dict: Mapping[str, Sequence[int | str]] | None = None,
    **kwargs: Any,
) -> TVMCModel:
    """A model file as a module.

    model_format  onnx, tflite, pytorch (what torch.export.save wrote) or relay (a module's text);
                  None: as the name ends
    shape_dict    input -> extents that replace those of the file: numbers or names
    kwargs        further arguments of the importer, relay.frontend.from_onnx and the like

    Raises TVMCException, ImportFailure, Unsupported.
    """
    name, shapes = os.fspath(path), {n: tuple(s) for n, s in (shape_dict or {}).items()} or None
    match model_format or SUFFIXES.get(Path(path).suffix):
        case "onnx":
            return TVMCModel(*relay.frontend.from_onnx(name, shapes, **kwargs))
        case "pytorch":
            return TVMCModel(
                *relay.frontend.from_onnx(as_onnx(load_program(name)), shapes, **kwargs)
            )
        case "tflite":
            return TVMCModel(*relay.frontend.from_tflite(name, shapes, **kwargs))
        case "relay" if shapes is None:
            return TVMCModel(model_path=path)
        case "relay":
            raise TVMCException(
                f"{path}: a module has its shapes already; leave --input-shapes out"
            )
        case str(kind) if kind in ABSENT:
            getattr(relay.frontend, ABSENT[kind])  # raises
    raise TVMCException(f"{path}: its name ends as that of no model ({', '.join(SUFFIXES)}); "
                        "--model-format says what it is: onnx, tflite, pytorch, relay")  # fmt: skip


class TVMCPackage:
    """A compiled model: a file that `tvmc.run`, `smelt.load` and `smelt run` take."""

    def __init__(self, package_path: PathLike, *, model: TVMCModel | None = None) -> None:
        """model: in whose folder the file is. Raises TVMCException where it is missing."""
        if not Path(package_path).is_file():
            raise TVMCException(
                f"{package_path}: there is no such package; tvmc compile writes one"
            )
        self.package_path, self._model = os.fspath(package_path), model


class TVMCResult:
    """What a run gave.

    outputs  arrays by name: output_0, output_1, ... in the model's order
    times    seconds of a run; None where nothing was timed
    """

    def __init__(self, outputs: Mapping[str, Any], times: TimeEvaluation | None = None) -> None:
        """Keep both."""
        self.outputs, self.times = dict(outputs), times

    def format_times(self) -> str:
        """The times as a table, in ms."""
        return (
            "Nothing was timed." if self.times is None else f"Execution time summary:\n{self.times}"
        )

    def get_output(self, name: str) -> Any:
        """An output by name. Raises TVMCException."""
        if name not in self.outputs:
            raise TVMCException(f"the run has {unknown('output', name, self.outputs)}")
        return self.outputs[name]

    def save(self, output_path: PathLike) -> None:
        """Write the outputs to a .npz file."""
        check_target(output_path, (".npz",), "outputs.npz")
        for name, a in self.outputs.items():
            if not isinstance(a, np.ndarray) or a.dtype.hasobject:
                raise TVMCException(
                    f"{output_path}: {name} is no array of numbers, and cannot be in it"
                )
        write_file(output_path, lambda f: np.savez(f, allow_pickle=False, **self.outputs))

    def __str__(self) -> str:
        return f"{self.format_times()}\n\nOutput Names:\n {list(self.outputs)}"
