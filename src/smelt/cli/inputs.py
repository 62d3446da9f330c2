"""Reads what the command line is given: shapes, models, input files."""

import os
import zipfile
from collections.abc import Sequence

import numpy as np

import smelt
from smelt.cli.console import UsageError, progress
from smelt.cli.results import Array
from smelt.ir.dtype import to_numpy
from smelt.runtime import Executable, TensorInfo

Shapes = dict[str, tuple[int, ...]]


def read_shapes(texts: Sequence[str]) -> Shapes:
    """`["x=1,3,224,224"]` as `{"x": (1, 3, 224, 224)}`."""
    shapes: Shapes = {}
    for text in texts:
        name, equals, sizes = text.rpartition("=")
        parts = [part.strip() for part in sizes.split(",")] if sizes.strip() else []
        if not equals or not name or not all(part.isdecimal() for part in parts):
            raise UsageError(
                f"--shape {text!r} is not of the form NAME=SIZE,SIZE,…; "
                "an example: --shape input=1,3,224,224"
            )
        if name in shapes:
            raise UsageError(f"--shape gives input {name!r} twice")
        shapes[name] = tuple(int(part) for part in parts)
    return shapes


def load(
    model: str, target: str | None, shapes: Sequence[str] = (), threads: int | None = None
) -> Executable:
    """A compiled model: a library is loaded, anything else is compiled."""
    if model.endswith(".so"):
        if target is not None or shapes or threads is not None:
            raise UsageError(
                f"{model} is compiled already: --target, --shape and --threads cannot change it"
            )
        loaded = smelt.runtime.load_module(model)
        if not isinstance(loaded, Executable):
            raise UsageError(f"{model} holds a tensor program, not a model: {loaded}")
        return loaded
    options = smelt.Options() if threads is None else smelt.Options(threads=threads)
    with progress() as report:
        made = smelt.compile(
            model, target, shapes=read_shapes(shapes) or None, options=options, progress=report
        )
    if not isinstance(made, Executable):
        raise UsageError(
            f"{model} decides while it runs, or its form depends on its inputs; the command line "
            "runs models of one form so far: use smelt.compile in Python"
        )
    return made


def random_inputs(tensors: Sequence[TensorInfo], seed: int = 0) -> list[Array]:
    """Reproducible inputs: normal floats; 0 or 1 as integers, which masks and tables allow."""
    random = np.random.default_rng(seed)
    made = []
    for tensor in tensors:
        shape = [size for size in tensor.shape if isinstance(size, int)]
        if len(shape) != len(tensor.shape):
            sizes = ", ".join(str(size) for size in tensor.shape)
            raise UsageError(
                f"input {tensor.name!r} has the shape ({sizes}), which leaves sizes open: "
                f"give them with --shape {tensor.name}=… or give the input with --input"
            )
        dtype = to_numpy(tensor.dtype)
        if dtype.kind in "iub":
            made.append(random.integers(0, 2, shape).astype(dtype))
        else:
            made.append(random.standard_normal(shape, np.float32).astype(dtype))
    return made


def read_inputs(path: str | None, tensors: Sequence[TensorInfo]) -> list[Array]:
    """The inputs out of a .npy or .npz file, in the model's order; random without a file."""
    if path is None:
        return random_inputs(tensors)
    names = [tensor.name for tensor in tensors]
    try:
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            given = {names[0]: content} if len(names) == 1 else {}
        else:
            with content:
                given = {name: content[name] for name in content.files}
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} is neither a .npy nor a .npz file: {error}") from None
    if isinstance(content, np.ndarray) and len(names) != 1:
        raise UsageError(
            f"{path} holds one array, the model has {len(names)} inputs ({', '.join(names)}): "
            "give a .npz file with an array of each name"
        )
    if given.keys() != set(names):
        raise UsageError(
            f"{path} holds {', '.join(given) or 'nothing'}; the inputs are {', '.join(names)}"
        )
    return [given[name] for name in names]


def check_output_name(path: str, *, outputs: int = 1) -> None:
    """Refuse a file name that cannot hold so many arrays."""
    if not path.endswith((".npy", ".npz")):
        raise UsageError(f"--output {path}: the name must end in .npy or .npz")
    if outputs != 1 and path.endswith(".npy"):
        raise UsageError(f"--output {path}: the model has {outputs} outputs, which need a .npz")


def write_outputs(path: str, tensors: Sequence[TensorInfo], values: Sequence[Array]) -> None:
    """Write one output as .npy, several as .npz; nothing is left half written."""
    check_output_name(path, outputs=len(values))
    partial = f"{path}.{os.getpid()}.partial"
    try:
        with open(partial, "wb") as file:
            if path.endswith(".npz"):
                named = {t.name: value for t, value in zip(tensors, values, strict=True)}
                np.savez(file, allow_pickle=False, **named)
            else:
                np.save(file, values[0])
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)
