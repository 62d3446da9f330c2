"""Files and objects of other tools: what they are, and what leads from them to an ONNX model.

Files are told by their first bytes, else by how their name ends; nothing in them is run.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class _Format(NamedTuple):
    """What files are, what to do with them, how names end, how such a file begins."""

    what: str
    cure: str
    endings: tuple[str, ...]
    begins: bytes | None = None


_EXPORT = "torch.onnx.export(model, inputs, 'model.onnx')"
_RELAY = "smelt.relay.frontend.from_pytorch(model, [('x', (1, 3, 224, 224))])"
_TORCH = f"export the model in Python: {_EXPORT}, or {_RELAY}"
_KERAS = "tf2onnx.convert.from_keras(model, output_path='model.onnx')"
_TF = "python -m tf2onnx.convert"

# fmt: off
_FORMATS = (
    _Format("a PyTorch file", f"smelt runs no pickled code; {_TORCH}",
            (".pt", ".pth", ".ckpt", ".pkl"), rb"PK.{,200}data\.pkl|\x80[\x02-\x05]"),
    _Format("a program of torch.export",
            "in Python, smelt.compile(torch.export.load(path)) takes it", (".pt2",)),
    _Format("a TensorFlow Lite model", "smelt.compile takes it, and from_tflite", (".tflite",),
            rb".{4}TFL3"),
    _Format("a Keras model", _KERAS, (".keras", ".h5", ".hdf5"), rb"\x89HDF"),
    _Format("a TensorFlow graph", f"{_TF} --saved-model FOLDER --output model.onnx", (".pb",)),
    _Format("weights without a model", f"load them into their model and export it: {_EXPORT}",
            (".safetensors",), rb'.{4}\0{4}\{"'),
    _Format("weights without a graph", f"export the model that they were taken of: {_EXPORT}",
            (".gguf",), rb"GGUF"),
    _Format("an ONNX model's external data", "give the .onnx file beside it",
            (".onnx.data", ".onnx_data", ".data")),
    _Format("onnxruntime's own format", "give the .onnx file that it was made of", (".ort",),
            rb".{4}ORTM"),
    _Format("a TensorRT engine", "give the .onnx file that it was made of",
            (".engine", ".plan", ".trt"), rb"ftrt"),
    _Format("a Core ML model", "export the model that it was made of", (".mlmodel",)),
    _Format("an array", "it may be an input of a model", (".npy", ".npz"), rb"\x93NUMPY"),
    _Format("a Git LFS pointer", "git lfs pull fetches the file", (), rb"version https://git-lfs"),
    _Format("a web page", "fetch the file itself", (".html",), rb"\s*<(?i:!doctype|html)"),
    _Format("a library of another system", "smelt loads those of Linux", (".dll", ".dylib"),
            rb"MZ|\xcf\xfa\xed\xfe"),
    _Format("a text file", "smelt takes .onnx and .tflite files",
            (".json", ".txt", ".md", ".py", ".xml", ".yaml", ".yml")),
)
# fmt: on

_OBJECTS = {
    "torch": f"smelt.compile takes torch.export.export(model.eval(), (x,)); {_RELAY} makes a graph "
    "for relay.build",
    "onnxruntime": "give the model that the session was made of",
    "keras": f"{_KERAS} makes one of it",
    "tensorflow": f"{_KERAS} makes one of it",
    "numpy": "an array is an input: smelt.compile('model.onnx')(x)",
    "smelt": "is it compiled already? call it",
    "io": "give the file's path, or what read() gives",
    "_io": "give the file's path, or what read() gives",
}
"""The room of a class, or of one that it inherits from, and what to do with an object of it."""


def foreign_file(name: str, data: bytes) -> tuple[str, str] | None:
    """What a file is and what to do with it, by its first bytes or its name; None: not known."""
    for f in _FORMATS:
        if f.begins is not None and re.match(f.begins, data[:256], re.DOTALL):
            return f.what, f.cure
    for f in _FORMATS:
        if name.lower().endswith(f.endings):
            return f.what, f.cure
    return None


def foreign_object(thing: object) -> str:
    """What to do with an object of another library: "; ..." as the end of a message, or ""."""
    rooms = [str(c.__module__).partition(".")[0] for c in type(thing).__mro__]
    return next((f"; {_OBJECTS[r]}" for r in rooms if r in _OBJECTS), "")
