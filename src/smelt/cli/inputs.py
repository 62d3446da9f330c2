"""Reads and writes the arrays that the command line is given."""

import math
import zipfile
from collections.abc import Mapping, Sequence

import numpy as np

from smelt.cli.console import UsageError, megabytes, notice
from smelt.cli.results import Array
from smelt.cli.sizes import read_numbers
from smelt.ir.dtype import to_numpy
from smelt.runtime import Executable, TensorInfo
from smelt.runtime.errors import LoadError, nearest
from smelt.runtime.expression import evaluate
from smelt.runtime.files import check_target, is_special, write_file
from smelt.runtime.signature import ANY_RANK
from smelt.runtime.typical import likely_sizes, random_arrays, typical_sizes

MOST_BYTES = 1 << 30
"""A random input that is larger was hardly meant."""


def given_inputs(
    model: str, exe: Executable, path: str | None, at: Sequence[str] | None
) -> list[Array]:
    """The inputs of a run: those of a file, else random ones, symbolic sizes as --at says."""
    infos = input_infos(model, exe)
    known, chosen = _sizes(exe, infos, at)
    if path is not None:
        return read_inputs(path, infos)
    if chosen:
        shown = ", ".join([f"{n} = {v}" for n, v in chosen.items()])
        notice(f"sizes of the random inputs: {shown}; --at {next(iter(chosen))}=… takes another")
    return random_inputs(infos, {**known, **chosen})


def _sizes(
    exe: Executable, infos: Sequence[TensorInfo], at: Sequence[str] | None
) -> tuple[dict[str, int], dict[str, int]]:
    """The symbolic sizes of random inputs: given or likely ones; of the others the least, or
    the least power of two, that leave something of every extent."""
    likely = likely_sizes(exe)[0]
    given = read_numbers("--at", at or ())
    symbols = dict.fromkeys([e for i in infos for e in i.shape if isinstance(e, str)])
    for name, values in given.items():
        if name not in symbols or len(values) != 1:
            near = nearest(name, symbols) if name not in symbols else ""
            raise UsageError(
                f"--at {name}={','.join(map(str, values))}: one value for one of the sizes{near}; "
                f"sizes: {', '.join(symbols) or 'none'}"
            )
    known_sizes = {**likely, **{name: values[0] for name, values in given.items()}}
    return known_sizes, typical_sizes(exe, known_sizes)


def input_infos(model: str, exe: Executable) -> Sequence[TensorInfo]:
    """The inputs, which have to be tensors of a known rank."""
    for i in exe.inputs:
        if i.kind != "tensor" or i.dtype in ("", "string") or i.shape == ANY_RANK:
            raise UsageError(
                f"{model}: the input {i.name!r} is a {i.kind} of {i.dtype or 'unknown type'}; the "
                "command line gives tensors of numbers only: use smelt.compile in Python"
            )
    return exe.inputs


def random_inputs(
    tensors: Sequence[TensorInfo], sizes: Mapping[str, int] | None = None, seed: int = 0
) -> list[Array]:
    """Inputs as of random_arrays; UsageError where sizes are open, or too large.

    sizes  values of symbolic sizes
    """
    for tensor in tensors:
        try:
            shape = [evaluate(size, sizes or {}) for size in tensor.shape]
        except LoadError:
            open_ = ", ".join(str(size) for size in tensor.shape)
            raise UsageError(
                f"input {tensor.name!r} has the shape ({open_}), which leaves sizes open: "
                f"give them with --shape {tensor.name}=…, for this run with --at NAME=NUMBER, "
                "or give the input with --input"
            ) from None
        if (size := math.prod(shape) * to_numpy(tensor.dtype).itemsize) > MOST_BYTES:
            raise UsageError(
                f"input {tensor.name!r} of shape {list(shape)} has {megabytes(size)}: random "
                f"inputs have at most {megabytes(MOST_BYTES)}; give it with --input, or smaller "
                f"with --shape {tensor.name}=…"
            )
    return random_arrays(tensors, sizes or {}, seed)


def read_inputs(path: str, tensors: Sequence[TensorInfo]) -> list[Array]:
    """The inputs out of a .npy or .npz file, in the model's order."""
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
        reason = "it holds no arrays of numbers" if "pickle" in str(error) else error
        if path.endswith((".npy", ".npz")):
            raise UsageError(f"{path} cannot be read as arrays: {reason}") from None
        raise UsageError(
            f"{path} is neither a .npy nor a .npz file; numpy.save writes one"
        ) from None
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
    if not path.endswith((".npy", ".npz")) and not is_special(path):
        raise UsageError(f"--output {path}: the name must end in .npy or .npz")
    check_target(path)
    if outputs != 1 and path.endswith(".npy"):
        raise UsageError(f"--output {path}: the model has {outputs} outputs, which need a .npz")


def write_outputs(path: str, names: Sequence[str], values: Sequence[Array]) -> None:
    """Write one output as .npy, several as .npz; nothing is left half written."""
    check_output_name(path, outputs=len(values))
    if path.endswith(".npy") or (len(values) == 1 and not path.endswith(".npz")):
        write_file(path, lambda file: np.save(file, values[0]))
        return
    named = dict(zip(names, values, strict=True))
    write_file(path, lambda file: np.savez(file, allow_pickle=False, **named))
