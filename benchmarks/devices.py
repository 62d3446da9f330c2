"""Other machines: RPC on this one, packages of WebAssembly beside onnxruntime-web in node, sizes:
`python -m benchmarks.devices [FOLDER] --only PART`.

    rpc    round trips, uploads
    web    a model in node; onnxruntime-web is installed by npm
    sizes  of what is written for other machines
"""

import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np

import smelt
from benchmarks import models
from benchmarks.options import arguments, report
from benchmarks.report import Results, table
from smelt import rpc
from smelt.runtime.linking import export_runner

HERE = Path(__file__).resolve().parent
NPM = HERE.parent / "build" / "peers" / "web"
WEB = ("mobilenet_v2", "resnet18", "dscnn_kws")
WEB_THREADS = (1, 2)
ROUNDS, LARGE = 2000, 100 << 20


def median_of(run: Callable[[], object], rounds: int) -> float:
    """Seconds of a call."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def rpc_rows() -> list[Results]:
    """What a session takes on loopback."""
    data = np.random.default_rng(0).bytes(LARGE)
    with (
        tempfile.TemporaryDirectory(prefix="smelt-rpc-") as folder,
        rpc.Server(port=0) as server,
        rpc.connect("127.0.0.1", server.port) as session,
    ):
        x = smelt.relay.var("x", shape=(1, 16), dtype="float32")
        library = Path(folder, "relu.so")
        smelt.compile(smelt.IRModule.from_expr(smelt.relay.nn.relu(x))).export_library(library)
        session.upload(library)
        made = session.load_module("relu.so")
        given = np.ones((1, 16), "float32")
        made(given)
        rows = [
            {"what": "a round trip to the server, ms", "wanted": "0.2",
             "found": 1e3 * median_of(session.listdir, ROUNDS)},
            {"what": "a call of a library there, arrays of 64 bytes, ms", "wanted": "–",
             "found": 1e3 * median_of(lambda: made(given), ROUNDS)},
        ]  # fmt: skip
        for name, run in (("upload", lambda: session.upload(data, "large")),
                          ("download", lambda: session.download("large"))):  # fmt: skip
            wanted = "500" if name == "upload" else "–"
            rows.append({"what": f"{name} of 100 MB, MB/s", "wanted": wanted,
                         "found": LARGE / 1e6 / median_of(run, 5)})  # fmt: skip
    return rows


def web_rows(folder: Path) -> list[Results]:
    """Models in node, in turns with onnxruntime-web; the same number of threads each, with SIMD."""
    if not (NPM / "node_modules" / "onnxruntime-web").is_dir():
        NPM.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["npm", "install", "--silent", "--prefix", NPM, "onnxruntime-web"], check=True
        )
    shutil.copy(HERE / "web_speed.mjs", NPM / "web_speed.mjs")
    rows = []
    for name, threads in product(WEB, WEB_THREADS):
        found = web_row((folder / f"{name}.onnx").resolve(), threads)
        rows.append({"model": name, "threads": threads, "found": found})
        print(name, threads, "done", flush=True)
    return rows


def web_row(model: Path, threads: int) -> Results:
    """Milliseconds of both, and the bytes of the package beside its constants."""
    with tempfile.TemporaryDirectory(prefix="smelt-web-") as made:
        package, given = Path(made, "net"), Path(made, "feeds.json")
        target = "wasm" if threads == 1 else f"wasm -num-cores={threads}"
        smelt.compile_artifact(str(model), target).export_package(package)
        size = sum([f.stat().st_size for f in package.iterdir() if f.name != "model.bin"])
        with np.load(model.with_suffix(".inputs.npz")) as inputs:
            feeds = {n: {"data": v.reshape(-1).tolist(), "dims": v.shape}
                     for n, v in inputs.items()}  # fmt: skip
        given.write_text(json.dumps(feeds))
        said = subprocess.run(
            ["node", "web_speed.mjs", package, model, given, str(threads)], cwd=NPM, check=True,
            capture_output=True, text=True,
        ).stdout  # fmt: skip
    return {**json.loads(said), "bytes": size}


def size_rows() -> list[Results]:
    """Files for machines, in KB."""
    rows = []
    x = smelt.relay.var("x", shape=(1, 16), dtype="float32")
    mod = smelt.IRModule.from_expr(smelt.relay.nn.relu(x))
    for triple in ("aarch64-linux-gnu", "armv7-linux-gnueabihf", "riscv64-linux-gnu"):
        with tempfile.TemporaryDirectory(prefix="smelt-size-") as folder:
            export_runner(Path(folder, "smelt-run"), triple)
            artifact = smelt.compile_artifact(mod, f"llvm -mtriple={triple}")
            artifact.export_library(Path(folder, "net.so"))
            size = shutil.which("size") or "size"
            said = subprocess.run([size, Path(folder, "net.so")], capture_output=True, text=True,
                                  check=True).stdout  # fmt: skip
            rows.append({"machine": triple, "text": int(said.splitlines()[1].split()[0]),
                         "runner": Path(folder, "smelt-run").stat().st_size})  # fmt: skip
    return rows


PARTS = ("rpc", "web", "sizes")


def measure(folder: Path | None, only: Sequence[str] = ()) -> Results:
    """Some parts, by default all."""
    run: dict[str, Callable[[], list[Results]]] = {
        "rpc": rpc_rows,
        "web": lambda: web_rows(folder or models.zoo(names=WEB)),
        "sizes": size_rows,
    }
    return {name: run[name]() for name in PARTS if not only or name in only}


def section(results: Results) -> str:
    """The results as markdown."""
    parts = []
    if rows := results.get("rpc"):
        lines = [[r["what"], f"{r['found']:.3g}", r["wanted"]] for r in rows]
        parts.append("### RPC on loopback, a server in Python\n\n"
                     + table(["what", "found", "wanted"], lines))  # fmt: skip
    if rows := results.get("web"):
        lines = []
        for r in rows:
            f = r["found"]
            lines.append([r["model"], r["threads"], f"{f['smelt']:.2f}", f"{f['onnxruntime']:.2f}",
                          f"{f['smelt'] / f['onnxruntime']:.2f}", f"{f['bytes'] / 1000:.0f}",
                          f"{f['apart']:.1e}"])  # fmt: skip
        heading = ["model", "threads", "smelt, ms", "onnxruntime-web, ms",
                   "smelt / onnxruntime-web", "KB beside constants", "results apart"]  # fmt: skip
        parts.append("### WebAssembly in node\n\n" + table(heading, lines) +
                     "\n\nSIMD, in turns. Wanted: 0.77; 150 KB.")  # fmt: skip
    if rows := results.get("sizes"):
        lines = [[r["machine"], f"{r['text'] / 1000:.0f}", f"{r['runner'] / 1000:.0f}"]
                 for r in rows]  # fmt: skip
        heading = ["machine", "code of the smallest library with the runtime, KB",
                   "smelt-run (with the C library beside it), KB"]  # fmt: skip
        parts.append("### Sizes\n\n" + table(heading, lines))
    return "\n\n".join(parts)


if __name__ == "__main__":
    asked = arguments(__doc__, PARTS)
    made = measure(Path(asked.folder) if asked.folder else None, asked.only or ())
    report("devices", asked, made, section(made))
