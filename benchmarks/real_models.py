"""Times smelt beside other runtimes on models beside the zoo's: `python -m benchmarks.real_models`.

The builders are those of tests/models, here with the sizes of the originals. `--only` chooses some
models; their results are then only printed.
"""

import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx

from benchmarks import zoo
from benchmarks.options import arguments, report
from benchmarks.peers import QUICKLY, Pace, versions
from benchmarks.report import Results
from tests.frontend.models import typed
from tests.models import detector, image_nets, language_nets, signal_nets
from tests.models.net import Dim, Feeds, floats, merged, words

THREADS = 2
PACE = Pace(2.5)
QUICK = ("gru",)

IMAGE = floats("x", 1, 3, 224, 224)
ROOMS = (image_nets, detector, signal_nets, language_nets)
SIZES = {name: sizes for room in ROOMS for name, sizes in room.FULL.items()}
FEEDS: dict[str, Callable[[], Feeds]] = {
    "efficientnet": lambda: IMAGE,
    "convnext": lambda: IMAGE,
    "resnext": lambda: IMAGE,
    "deeplab": lambda: floats("x", 1, 3, 257, 257),
    "unet": lambda: floats("x", 1, 3, 256, 256),
    "swin": lambda: IMAGE,
    "yolo": lambda: floats("images", 1, 3, 640, 640),
    "wavenet": lambda: floats("x", 1, 1, 4096),
    "audio": lambda: floats("x", 1, 1, 16000),
    "r3d": lambda: floats("x", 1, 3, 8, 112, 112),
    "whisper": lambda: floats("mel", 1, 80, 3000),
    "lstm": lambda: words("input_ids", 10000, 1, 64),
    "gru": lambda: words("input_ids", 10000, 1, 64),
    "t5": lambda: merged(
        words("input_ids", 32128, 1, 64), words("decoder_input_ids", 32128, 1, 32)
    ),
    "clip": lambda: merged(
        floats("pixel_values", 1, 3, 224, 224), words("input_ids", 49408, 4, 77)
    ),
}


def model(name: str, batch: Dim = 1) -> onnx.ModelProto:
    """A model in full size."""
    (build,) = (getattr(room, name) for room in ROOMS if name in room.FULL)
    made: onnx.ModelProto = typed(build(batch, **SIZES[name]))
    return made


@contextmanager
def written(name: str, proto: onnx.ModelProto, feeds: Feeds) -> Iterator[tuple[Path, Path]]:
    """The files of a model and of its inputs, for as long as they are needed."""
    with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
        path, inputs = Path(folder, f"{name}.onnx"), Path(folder, f"{name}.inputs.npz")
        onnx.save(proto, path)
        np.savez(inputs, allow_pickle=False, **feeds)
        yield path, inputs


def measure(
    names: Collection[str] = tuple(FEEDS), pace: Pace = PACE, say: Callable[[str], object] = print
) -> Results:
    """Some models, by default all."""
    rows = []
    for name in names:
        with written(name, model(name), FEEDS[name]()) as (path, inputs):
            row = zoo.compare(path, inputs, THREADS, pace)
        rows.append({"model": name, "threads": THREADS, **row})
        say(f"{name}: {zoo.said(row)}")
    return {"peers": versions(), "rows": rows}


def section(results: Results) -> str:
    """The results as markdown."""
    return zoo.section(results)


if __name__ == "__main__":
    asked = arguments(__doc__, tuple(FEEDS))
    names = asked.only or (QUICK if asked.quick else tuple(FEEDS))
    found = measure(names, QUICKLY if asked.quick else PACE)
    report("real_models", asked, found, section(found))
