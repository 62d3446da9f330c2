"""Reads what the command line is given: shapes, models, input files."""

import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import smelt
from smelt.cli.console import UsageError, progress
from smelt.cli.results import Array
from smelt.ir.dtype import to_numpy
from smelt.ir.sizes import Size
from smelt.runtime import Executable, TensorInfo
from smelt.runtime.errors import LoadError
from smelt.runtime.expression import evaluate
from smelt.runtime.files import check_target, is_special, write_file
from smelt.runtime.signature import ANY_RANK

Shapes = dict[str, tuple[int | str | Size, ...]]


@dataclass(frozen=True)
class Sizes:
    """What the command line says of sizes.

    shape   NAME=SIZE,SIZE,…: numbers, names of symbolic sizes, expressions over them
    range   NAME=FROM..TO: the values that a symbolic size may have
    likely  NAME=VALUE,VALUE,…: values that get code of their own
    """

    shape: Sequence[str] = ()
    range: Sequence[str] = ()
    likely: Sequence[str] = ()

    @property
    def given(self) -> bool:
        """Whether anything is said."""
        return bool(self.shape or self.range or self.likely)

    def shapes(self) -> Shapes:
        """The shapes for `smelt.compile`."""
        shapes = read_shapes(self.shape)
        sizes = self._declared()
        used = {e for shape in shapes.values() for e in shape}
        for name in sizes:
            if name not in used:
                raise UsageError(
                    f"--range and --likely name the size {name!r}, which is no extent in --shape; "
                    f"an example: --shape input={name},3,224,224"
                )
        return {
            k: tuple([sizes.get(e, e) if isinstance(e, str) else e for e in shape])
            for k, shape in shapes.items()
        }

    def _declared(self) -> dict[str, Size]:
        ranges = dict(_range(text) for text in self.range)
        likely = read_numbers("--likely", self.likely)
        sizes = {}
        for name in {**ranges, **likely}:
            low, high = ranges.get(name, (1, None))
            sizes[name] = Size(name, low, high, likely.get(name, ()))
        return sizes


_EXTENT = re.compile(r"\d+|(\d+ *\*)?[ (]*[A-Za-z_][\w +*/%()-]*", re.ASCII)
"""A number, or what may be an expression over names."""


def _range(text: str) -> tuple[str, tuple[int, int | None]]:
    """`"n=1..16"` as ("n", (1, 16)); an end may be left out."""
    found = re.fullmatch(r"(\w+)=(\d*)\.\.(\d*)", text.replace(" ", ""))
    if found is None:
        raise UsageError(f"--range {text!r} is not of the form NAME=FROM..TO, such as n=1..16")
    name, low, high = found.groups()
    return name, (int(low or 1), int(high) if high else None)


def read_numbers(option: str, texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """`["n=1,8"]` as `{"n": (1, 8)}`."""
    found: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, equals, values = text.rpartition("=")
        parts = [part.strip() for part in values.split(",")]
        if not equals or not name or not all(part.isdecimal() for part in parts):
            raise UsageError(
                f"{option} {text!r} is not of the form NAME=NUMBER,NUMBER,…; "
                f"an example: {option} n=8"
            )
        found[name.strip()] = tuple(int(part) for part in parts)
    return found


def read_shapes(texts: Sequence[str]) -> Shapes:
    """`["x=n,3,224,224"]` as `{"x": ("n", 3, 224, 224)}`."""
    shapes: Shapes = {}
    for text in texts:
        name, equals, sizes = text.rpartition("=")
        parts = [part.strip() for part in sizes.split(",")] if sizes.strip() else []
        if not equals or not name or not all(_EXTENT.fullmatch(part) for part in parts):
            raise UsageError(
                f"--shape {text!r} is not of the form NAME=SIZE,SIZE,…; "
                "an example: --shape input=1,3,224,224"
            )
        if name in shapes:
            raise UsageError(f"--shape gives input {name!r} twice")
        shapes[name] = tuple(int(part) if part.isdecimal() else part for part in parts)
    return shapes


def load(
    model: str, target: str | None, sizes: Sizes | None = None, threads: int | None = None
) -> Executable:
    """A compiled model: what was compiled before is loaded, anything else is compiled."""
    sizes = sizes or Sizes()
    if is_compiled(model):
        if target is not None or sizes.given or threads is not None:
            raise UsageError(
                f"{model} is compiled already: --target, --shape, --range, --likely and --threads "
                "cannot change it"
            )
        return smelt.load(model)
    options = smelt.Options() if threads is None else smelt.Options(threads=threads)
    with progress() as report:
        return smelt.compile(
            model, target, shapes=sizes.shapes() or None, options=options, progress=report
        )


def is_compiled(model: str) -> bool:
    """Whether a file is what `smelt compile` wrote, by its ending."""
    return model.endswith((".so", ".tar", ".vm"))


def input_infos(model: str, exe: Executable) -> Sequence[TensorInfo]:
    """The inputs, which have to be tensors of a known rank."""
    for i in exe.inputs:
        if i.kind != "tensor" or i.dtype in ("", "string") or i.shape == ANY_RANK:
            raise UsageError(
                f"{model}: the input {i.name!r} is a {i.kind} of {i.dtype or 'unknown type'}; the "
                "command line gives tensors of numbers only: use smelt.compile in Python"
            )
    return exe.inputs


def output_names(exe: Executable) -> list[str]:
    """The names of the results."""
    return [o.name for o in exe.outputs]


def random_inputs(
    tensors: Sequence[TensorInfo], sizes: Mapping[str, int] | None = None, seed: int = 0
) -> list[Array]:
    """Reproducible inputs: normal floats; 0 or 1 as integers, which masks and tables allow.

    sizes  values of symbolic sizes
    """
    random = np.random.default_rng(seed)
    made = []
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
        dtype = to_numpy(tensor.dtype)
        if dtype.kind in "iub":
            made.append(random.integers(0, 2, shape).astype(dtype))
        else:
            made.append(random.standard_normal(shape, np.float32).astype(dtype))
    return made


def read_inputs(
    path: str | None, tensors: Sequence[TensorInfo], sizes: Mapping[str, int] | None = None
) -> list[Array]:
    """The inputs out of a .npy or .npz file, in the model's order; random without a file.

    sizes  values of symbolic sizes for random inputs
    """
    if path is None:
        return random_inputs(tensors, sizes)
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
