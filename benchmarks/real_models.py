"""Times smelt beside onnxruntime on models beside the zoo's: `python -m benchmarks.real_models`.

The builders are those of tests/models, here with the sizes of the originals. Names as arguments
choose some models; their results are then only printed. Every model has a process of its own, in
which both run in turns, neither's threads busy while the other runs.
"""

import sys
import time
from collections.abc import Callable, Collection

import onnx

import smelt
from benchmarks import zoo
from benchmarks.processes import give_back, worker
from benchmarks.report import Results, write
from smelt.cli.peer import Peer
from tests.frontend.models import typed
from tests.models import detector, image_nets, language_nets, signal_nets
from tests.models.net import Feeds, floats, merged, words

THREADS = 2
SECONDS = 5.0  # for both together

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


def model(name: str) -> onnx.ModelProto:
    """A model in full size, batch 1."""
    (build,) = (getattr(room, name) for room in ROOMS if name in room.FULL)
    made: onnx.ModelProto = typed(build(1, **SIZES[name]))
    return made


def time_model(name: str) -> Results:
    """Both medians, their ratio, and how far the results agree."""
    proto = model(name)
    start = time.perf_counter()
    exe = smelt.compile(proto, options=smelt.Options(threads=THREADS))
    compile_s = time.perf_counter() - start
    peer = Peer(proto.SerializeToString(), THREADS, spins=False)
    return {"compile_s": compile_s, **zoo.beside(exe, peer, FEEDS[name](), SECONDS)}


def measure(names: Collection[str] = tuple(FEEDS), say: Callable[[str], object] = print) -> Results:
    """Some models, by default all."""
    rows = []
    for name in names:
        row = worker("benchmarks.real_models", name, threads=THREADS)
        rows.append({"model": name, "threads": THREADS, **row})
        say(f"{name}: {row.get('error') if len(row) == 1 else row['ratio']}")
    return {"rows": rows}


def section(results: Results) -> str:
    """The results as markdown."""
    return zoo.section(results)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        give_back(time_model(sys.argv[2]))
    else:
        found = measure(sys.argv[1:] or tuple(FEEDS))
        if not sys.argv[1:]:
            write("real_models", found)
        print(section(found))
