"""Other machines: RPC on this one, packages of WebAssembly beside onnxruntime-web in node, sizes:
`python -m benchmarks.devices [FOLDER] --only PART`.

    rpc            round trips, uploads, of servers in Python and in C
    web            a model in node; onnxruntime-web is installed by npm
    sizes          of what is written for other machines
    fuzz           messages that mean nothing, for a tracker and both servers (C: with sanitizers)
    soak           clients of servers that are killed again and again
    architectures  networks of every kind on other processors, under emulators
    instructions   of the inner loops of products there
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
from benchmarks import architectures, models
from benchmarks.options import arguments, report
from benchmarks.report import Results, table
from benchmarks.rpc_fuzz import Found, begin_session, send_known, send_strangers
from benchmarks.rpc_servers import PYTHON, TRACKER, Process, sanitized_server
from benchmarks.rpc_soak import soak
from smelt import relay, rpc
from smelt.runtime.linking import export_runner, export_server
from tests.devices.test_cross import loop

HERE = Path(__file__).resolve().parent
NPM = HERE.parent / "build" / "peers" / "web"
WEB = ("mobilenet_v2", "resnet18", "dscnn_kws")
WEB_THREADS = (1, 2)
ROUNDS, LARGE = 2000, 100 << 20
FRAMES, QUICK_FRAMES = 100_000, 2000
SOAK, QUICK_SOAK, CLIENTS = 120.0, 10.0, 8
SOAKED = ("calls", "sessions", "kills", "lost", "hangs", "wrong", "processes", "folders", "files")


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
    rows = []
    with tempfile.TemporaryDirectory(prefix="smelt-rpc-") as made:
        folder = Path(made)
        x = relay.var("x", shape=(1, 16), dtype="float32")
        library = folder / "relu.so"
        smelt.compile(smelt.IRModule.from_expr(relay.nn.relu(x))).export_library(library)
        export_server(folder / "smelt-server")
        kinds: dict[str, Sequence[str | Path]] = {"Python": PYTHON, "C": [folder / "smelt-server"]}
        for kind, command in kinds.items():
            with Process(command, folder) as server, server.connect() as session:
                rows += [{"server": kind, **row} for row in _session_rows(session, library)]
            print(kind, "done", flush=True)
    return rows


def _session_rows(session: rpc.RPCSession, library: Path) -> list[Results]:
    data = np.random.default_rng(0).bytes(LARGE)
    session.upload(library)
    made = session.load_module(library.name)
    given = np.ones((1, 16), "float32")
    made(given)
    rows = [
        {"what": "a round trip to the server, ms", "wanted": "0.1",
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
            export_runner(Path(folder, "runner"), triple)
            export_server(Path(folder, "server"), triple)
            artifact = smelt.compile_artifact(mod, f"llvm -mtriple={triple}")
            artifact.export_library(Path(folder, "net.so"))
            size = shutil.which("size") or "size"
            said = subprocess.run([size, Path(folder, "net.so")], capture_output=True, text=True,
                                  check=True).stdout  # fmt: skip
            found = {"text": int(said.splitlines()[1].split()[0])}
            for kind in ("runner", "server"):
                found[kind] = Path(folder, kind).stat().st_size
            rows.append({"machine": triple, "found": found})
    return rows


def libraries(folder: Path) -> None:
    """net.so, loop.so and add.so: a model, a program that decides, a function on tensors."""
    x = relay.var("x", shape=(2, 4), dtype="float32")
    w = relay.const(np.arange(12, dtype="float32").reshape(3, 4))
    net = smelt.IRModule.from_expr(relay.nn.relu(relay.nn.dense(x, w)))
    smelt.compile(net).export_library(folder / "net.so")
    smelt.compile(loop()).export_library(folder / "loop.so")
    a = smelt.te.placeholder((8,), name="a")
    b = smelt.te.compute((8,), lambda i: a[i] + a[i], name="b")
    smelt.build(smelt.te.create_schedule(b.op), [a, b], name="add").export_library(
        folder / "add.so"
    )


def fuzz_rows(frames: int) -> list[Results]:
    """A tenth of the frames are of strangers. Ends of connections cost Python seconds."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="smelt-fuzz-") as made:
        folder = Path(made)
        libraries(folder)
        sanitized_server(folder / "smelt-server")
        programs: dict[str, tuple[Sequence[str | Path], float]] = {
            "tracker": (TRACKER, 0.01),
            "server in Python": (PYTHON, 0.0005),
            "server in C, with sanitizers": ([folder / "smelt-server"], 0.01),
        }
        for what, (command, broken) in programs.items():
            own, found, start = folder / what[-3:], Found(), time.perf_counter()
            own.mkdir()
            role = "tracker" if command is TRACKER else "server"
            begin = begin_session(folder) if role == "server" else lambda link: []
            with Process(command, own) as process:
                send_strangers(process.port, frames // 10, 1, found)
                send_known(role, process.port, frames - frames // 10, 2, found, begin, broken)
                alive = process.process.poll() is None
            troubles = [*found.crashes, *process.troubles(), *([] if alive else ["it has ended"])]
            left = len(list(own.glob("smelt-rpc-*")))
            rows.append({"what": what, "found": {
                "frames": found.frames, "connections": found.connections, "lost": found.lost,
                "hangs": found.hangs, "crashes": len(troubles), "folders": left,
                "seconds": time.perf_counter() - start, "first": troubles[:1],
            }})  # fmt: skip
            print(what, rows[-1]["found"], flush=True)
    return rows


def soak_rows(seconds: float) -> list[Results]:
    """Two servers of each kind, one of which belongs to a tracker."""
    with tempfile.TemporaryDirectory(prefix="smelt-soak-") as made:
        folder = Path(made)
        libraries(folder)
        export_server(folder / "smelt-server")
        kinds: list[Sequence[str | Path]] = [[folder / "smelt-server"], PYTHON]
        found = soak(kinds, folder, folder / "net.so", seconds, CLIENTS, 1)
    return [{"what": "servers in C and Python", "found": {n: getattr(found, n) for n in SOAKED}}]


PARTS = ("rpc", "web", "sizes", "fuzz", "soak", "architectures", "instructions")


def measure(folder: Path | None, only: Sequence[str] = (), quick: bool = False) -> Results:
    """Some parts, by default all."""
    run: dict[str, Callable[[], list[Results]]] = {
        "architectures": lambda: architectures.model_rows(quick),
        "instructions": lambda: architectures.instruction_rows(quick),
        "rpc": rpc_rows,
        "web": lambda: web_rows(folder or models.zoo(names=WEB)),
        "sizes": size_rows,
        "fuzz": lambda: fuzz_rows(QUICK_FRAMES if quick else FRAMES),
        "soak": lambda: soak_rows(QUICK_SOAK if quick else SOAK),
    }
    return {name: run[name]() for name in PARTS if not only or name in only}


def section(results: Results) -> str:
    """The results as markdown."""
    parts = []
    if rows := results.get("rpc"):
        kinds = {r["what"]: [o for o in rows if o["what"] == r["what"]] for r in rows}
        lines = [[what, *[f"{r['found']:.3g}" for r in found], found[0]["wanted"]]
                 for what, found in kinds.items()]  # fmt: skip
        heading = ["what", *[f"server in {r['server']}" for r in next(iter(kinds.values()))],
                   "wanted"]  # fmt: skip
        parts.append("### RPC on loopback\n\n" + table(heading, lines))
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
        keys = ("text", "runner", "server")
        lines = [[r["machine"], *[f"{r['found'][k] / 1000:.0f}" for k in keys]] for r in rows]
        heading = ["machine", "code of the smallest library with the runtime, KB",
                   "smelt-run, KB", "smelt-server, KB"]  # fmt: skip
        parts.append("### Sizes\n\n" + table(heading, lines)
                     + "\n\nPrograms are static.")  # fmt: skip
    if rows := results.get("architectures"):
        parts.append(architectures.model_section(rows))
    if rows := results.get("instructions"):
        parts.append(architectures.instruction_section(rows))
    parts += _harm(results)
    return "\n\n".join(parts)


def _harm(results: Results) -> list[str]:
    """What fuzzing and soaking have found."""
    parts = []
    if rows := results.get("fuzz"):
        counts = ("frames", "connections", "crashes", "hangs", "lost", "folders")
        lines = [[r["what"], *[r["found"][k] for k in counts], f"{r['found']['seconds']:.0f}"]
                 for r in rows]  # fmt: skip
        heading = ["who", "frames", "connections", "crashes and reports", "hangs",
                   "connections lost without a reason", "folders left", "seconds"]  # fmt: skip
        parts.append("### Messages that mean nothing\n\n" + table(heading, lines))
    if rows := results.get("soak"):
        heading = ["who", "calls", "sessions", "kills", "sessions lost or not begun", "hangs",
                   "wrong results", "processes left", "folders left", "files left"]  # fmt: skip
        lines = [[r["what"], *[r["found"][k] for k in SOAKED]] for r in rows]
        parts.append(f"### {CLIENTS} clients, servers killed\n\n" + table(heading, lines))
    return parts


if __name__ == "__main__":
    asked = arguments(__doc__, PARTS)
    made = measure(Path(asked.folder) if asked.folder else None, asked.only or (), asked.quick)
    report("devices", asked, made, section(made))
