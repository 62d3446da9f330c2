"""Times builds for any image size beside builds for one size: `python -m benchmarks.symbolic`.

Height and width are symbolic, without likely values: every size runs the general code. Both builds
and onnxruntime, which gets the model with symbolic sizes, take turns.
"""

import statistics
from collections.abc import Callable, Collection

import onnx

from benchmarks.options import arguments, report
from benchmarks.peers import QUICKLY, REFERENCE, Pace, Side, beside
from benchmarks.real_models import model, written
from benchmarks.report import Results, table
from benchmarks.zoo import NOISY
from smelt.cli.resnet import resnet18
from tests.frontend.models import typed
from tests.models.net import Net, floats

THREADS = 2
PACE = Pace(2.0)  # at each size
QUICK = ("espcn",)
LARGEST = 1024  # pixels, of height and width
SIDES = ("symbolic", "static", REFERENCE)


def espcn(scale: int = 3) -> onnx.ModelProto:
    """Shi et al. 2016, figure 1: a picture `scale` times as high and as wide."""
    net = Net(30)
    x = net.op("Tanh", net.conv(net.input("x", [1, 1, 90, 160]), (1, 64), 5))
    x = net.op("Tanh", net.conv(x, (64, 32), 3))
    x = net.conv(x, (32, scale**2), 3)
    return typed(net.model(net.op("DepthToSpace", x, blocksize=scale)))


NETWORKS: dict[str, tuple[Callable[[], onnx.ModelProto], tuple[tuple[int, int], ...]]] = {
    "resnet18": (resnet18, ((224, 224), (192, 320), (333, 251))),
    "espcn": (espcn, ((90, 160), (180, 320), (123, 77))),
    "unet": (lambda: model("unet"), ((256, 256), (128, 192), (112, 304))),
}
"""How each is built, and the heights and widths of its images."""


def opened(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A model with one image as input, its height and width symbolic."""
    (image,) = proto.graph.input
    for dim, name in zip(image.type.tensor_type.shape.dim[2:], "hw", strict=True):
        dim.dim_param = name
    del proto.graph.value_info[:]
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    return proto


def sides(name: str, channels: int, height: int, width: int) -> list[Side]:
    """Both builds of a model whose input is `name`, and onnxruntime."""
    size = {"min": 1, "max": LARGEST}
    free = {"shapes": {name: [1, channels, "h", "w"]}, "sizes": {"h": size, "w": size}}
    fixed = {"shapes": {name: [1, channels, height, width]}}
    builds = [Side("symbolic", THREADS, sizes=free), Side("static", THREADS, sizes=fixed)]
    return [*builds, Side(REFERENCE, THREADS, REFERENCE)]


def time_sizes(name: str, quick: bool = False) -> list[Results]:
    """A row for each size of a network, or for the first one."""
    build, sizes = NETWORKS[name]
    proto = opened(build())
    (image,) = proto.graph.input
    channels = image.type.tensor_type.shape.dim[1].dim_value
    rows = []
    for height, width in sizes[:1] if quick else sizes:
        feeds = floats(image.name, 1, channels, height, width)
        both = sides(image.name, channels, height, width)
        with written(name, proto, feeds) as files, beside(both) as workers:
            workers.load(*files)
            times = workers.time(QUICKLY if quick else PACE)
            row = {"network": name, "size": [height, width], "errors": workers.failed}
        rows.append(row | times)
    return rows


def measure(
    names: Collection[str] = tuple(NETWORKS),
    quick: bool = False,
    say: Callable[[str], object] = print,
) -> Results:
    """Some networks, by default all."""
    rows = []
    for name in names:
        rows += time_sizes(name, quick)
        say(f"{name} done")
    return {"rows": rows}


def section(results: Results) -> str:
    """The results as markdown."""
    lines: list[list[str]] = []
    ratios: dict[str, list[float]] = {}
    errors: list[str] = []
    for r in results["rows"]:
        name = f"{r['network']}, {r['size'][0]} x {r['size'][1]}"
        ms = {side: r[side]["median_ms"] for side in SIDES if side in r}
        noise = " ~" if r["foreign_cores"] > NOISY else ""
        cells = [f"{ms[side]:.3f}" if side in ms else "–" for side in SIDES]
        for side in SIDES[1:]:
            known = side in ms and "symbolic" in ms
            cells.append(f"{ms['symbolic'] / ms[side]:.2f}{noise}" if known else "–")
        if "symbolic" in ms and "static" in ms:
            ratios.setdefault(r["network"], []).append(ms["symbolic"] / ms["static"])
        lines.append([name, *cells])
        errors += [f"{name}, {side}: {why}." for side, why in r["errors"].items()]
    for network, values in ratios.items():
        mean = f"**{statistics.geometric_mean(values):.2f}**"
        lines.append([f"{network}, geometric mean", "", "", "", mean, ""])
    heading = ["network, pixels", *[f"{side}, ms" for side in SIDES], "to static"]
    note = "No value of the sizes is likely. ~: other work disturbed the row."
    return "\n\n".join([table([*heading, f"to {REFERENCE}"], lines), note, *errors])


if __name__ == "__main__":
    asked = arguments(__doc__, tuple(NETWORKS))
    names = asked.only or (QUICK if asked.quick else tuple(NETWORKS))
    found = measure(names, asked.quick)
    report("symbolic", asked, found, section(found))
