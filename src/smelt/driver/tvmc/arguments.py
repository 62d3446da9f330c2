"""The options of the commands, and how their texts are read."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Never

from smelt.exec.common import place
from smelt.ir.config import CONFIG
from smelt.micro import c_target, with_cmsis_nn
from smelt.micro.cmsis_nn import COMPILER as CMSIS_NN
from smelt.relay.backend import Executor, Runtime
from smelt.target import Target
from smelt.target.kinds import KINDS

from .model import ABSENT, SUFFIXES, TVMCException

Options = Mapping[str, Mapping[str, Any]]
"""Values by kind (of targets, executors, runtimes) and name."""

TUNERS = ("ga", "gridsearch", "random",
          *[f"xgb{loss}{feature}" for loss in ("", "_rank", "_rank_binary")
            for feature in ("", "_knob", "_itervar", "_curve")])  # fmt: skip
DEVICES = ("cpu", "cuda", "cl", "metal", "vulkan", "rocm", "micro")
FILLS = ("zeros", "ones", "random")

_POOLS = "smelt compile --pool says it, and relay.build(workspace_memory_pools=...)"
_GPU = "kernels are for CPUs, which have no such thing; leave it out"
_MIXED = "relay.transform.mixed_precision.register_mixed_precision_conversion says it, in Python"
CONFIG_FILE = {"--config": "a file of arguments, one a line, is given as @FILE"}
REFUSED = {
    **CONFIG_FILE,
    "--dump-offloads": "smelt compiles every operator; --dump-code relay shows them",
    "--mixed-precision-ops": _MIXED,
    "--mixed-precision-acc-type": _MIXED,
    **dict.fromkeys(("--workspace-pools", "--workspace-pools-targets", "--constant-pools"), _POOLS),
    **dict.fromkeys(("--max-shared-memory-per-block", "--max-local-memory-per-block",
                     "--max-threads-per-block", "--max-vthread-extent", "--warp-size"), _GPU),
}  # fmt: skip
"""Classic options that make no sense here: what replaces them."""


class Parser(argparse.ArgumentParser):
    """One whose mistakes are errors like any other."""

    def error(self, message: str) -> Never:
        """Raise a TVMCException."""
        raise TVMCException(f"{message}; see {self.prog} --help")


class _Into(argparse.Action):
    """Keeps `--target-llvm-mcpu x` as {"llvm": {"mcpu": "x"}}; const: both names."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        kind, name = self.const
        found = getattr(namespace, self.dest) or {}
        setattr(namespace, self.dest, {**found, kind: {**found.get(kind, {}), name: values}})


class _Refuse(argparse.Action):
    """An option that is refused; const: why."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        raise TVMCException(f"{option_string}: {self.const}")


def option(group: Any, names: str, about: str, **how: Any) -> None:
    """Add an option; names: "-o --output"."""
    group.add_argument(*names.split(), help=about, **how)


def common(parser: argparse.ArgumentParser, refused: Mapping[str, str] = REFUSED) -> None:
    """What every command takes, and refuses."""
    option(parser, "-v --verbose", "say what is done", action="count", default=argparse.SUPPRESS)
    for name, why in refused.items():
        option(parser, name, argparse.SUPPRESS, action=_Refuse, nargs="?", const=why,
               default=argparse.SUPPRESS)  # fmt: skip


def model_options(parser: argparse.ArgumentParser) -> None:
    """What compiling and tuning share: the model, the target, what is done before."""
    o, formats = partial(option, parser), (*SUFFIXES.values(), *ABSENT)
    parser.add_argument("FILE", help="the model file")
    o("--model-format", "where its name does not say it", choices=formats)
    o("--input-shapes", 'extents of inputs: "x:[1,3,224,224] y:[n,8]"', type=input_shapes)
    o("--target", "a target, JSON, or a .json file (llvm -mcpu=native)")
    o("--target-host", "the target of the code around kernels")
    kinds = {n: k.options for n, k in KINDS.items()} | {CMSIS_NN: ("mcpu",)}
    _kinds(parser, "target", kinds, "additional_target_options")
    o = partial(option, parser.add_argument_group("graph transformations"))
    o("--desired-layout", "NCHW, NHWC or NHWC:HWIO; one, or one for each operator", nargs="+")
    o("--desired-layout-ops", "of these operators", nargs="+")
    o("--mixed-precision", "heavy operators compute in a narrow type", action="store_true")
    o("--mixed-precision-calculation-type", "which (float16)", choices=("float16", "bfloat16"))


def compile_options(parser: argparse.ArgumentParser) -> None:
    """Those of `tvmc compile`."""
    o = partial(option, parser)
    o("-o --output", "the package, .tar or .so (module.tar)", dest="package_path",
      default="module.tar")  # fmt: skip
    o("-f --output-format", "so: linked; tar: objects, linked where they are loaded; mlf: C (so)",
      choices=("so", "tar", "mlf"), default="so")  # fmt: skip
    o("--cross-compiler", "the C compiler that links", dest="cross")
    o("--cross-compiler-options", "its further arguments", dest="cross_options")
    o("--dump-code", "write PACKAGE.FORMAT: relay, tir, ll, asm, between commas", metavar="FORMAT")
    o("--tuning-records", "a log that tvmc tune wrote", metavar="PATH")
    o("-O --opt-level", "how much is optimised (3)", type=int, choices=range(4), default=3)
    o("--pass-config", "of the PassContext; may be repeated", dest="pass_context_configs",
      action="append", metavar="NAME=VALUE")  # fmt: skip
    o("--disabled-pass", "passes to leave out", metavar="PASS,...")
    o("--module-name", "the model's name", dest="mod_name", default="default")
    o("--print-pass-times", "print the times of passes", action="store_true")
    o("--print-ir-before", "print modules before passes", metavar="PASS,...")
    o("--print-ir-after", "print modules after passes", metavar="PASS,...")
    o("--executor", "vm: for models that decide while they run (graph)", default="graph",
      choices=(*Executor.known, "vm"))  # fmt: skip
    o("--runtime", "what runs it (cpp)", choices=tuple(Runtime.known), default="cpp")
    _kinds(parser, "executor", Executor.known, "executor_options")
    _kinds(parser, "runtime", Runtime.known, "runtime_options")


def tune_options(parser: argparse.ArgumentParser) -> None:
    """Those of `tvmc tune`."""
    o = partial(option, parser)
    o("-o --output", "the log of what was measured", dest="tuning_records", required=True)
    o("--tuning-records", "an earlier log to go on from", dest="prior_records", metavar="PATH")
    o("--trials", "measurements of the whole model (1000)", type=count, default=1000)
    o("--early-stopping", "end a task after so many without a gain", type=count)
    o("--tasks", "all, list, or numbers: 0,2,5-7 (all)", dest="tasks_filter", default="all")
    o("--min-repeat-ms", "the least time of a sample", type=int, default=0)
    o("--number", "runs of a sample, where they are short (10)", type=count, default=10)
    o("--repeat", "samples of a candidate, in turns with the default (7)", type=count, default=7)
    o("--timeout", "seconds of a candidate (10)", type=float, default=10.0)
    o(
        "--parallel",
        "candidates that are built, and machines of --rpc-key that measure, at a time",
        type=count,
    )
    remote_options(parser)
    option(parser.add_argument_group("AutoTVM"), "--tuner", "(xgb)", choices=TUNERS)
    o = partial(option, parser.add_argument_group("AutoScheduler"))
    o("--enable-autoscheduler", "in place of AutoTVM", action="store_true")
    o("--include-simple-tasks", "elementwise kernels, too", action="store_true")
    o("--log-estimated-latency", "write total_latency.tsv", action="store_true")
    for name in ("num-cores", "vector-unit-bytes", "cache-line-bytes"):
        o(f"--{name}", "of the machine", type=count)


def run_options(parser: argparse.ArgumentParser) -> None:
    """Those of `tvmc run`."""
    o = partial(option, parser)
    parser.add_argument("PATH", help="the package")
    o("--device", "where it runs (cpu)", choices=DEVICES, default="cpu")
    o("--fill-mode", "what inputs hold that are not given (random)", choices=FILLS,
      default="random")  # fmt: skip
    o("-i --inputs", "a .npz file with inputs by name", metavar="FILE")
    o("-o --outputs", "a .npz file to write", metavar="FILE")
    o("--print-top", "print index and value of the N largest elements", type=count, metavar="N")
    o("--print-time", "time runs, and print how long they take", action="store_true")
    o("--repeat", "of --print-time: samples (1)", type=count)
    o("--number", "of --print-time: runs of a sample (1)", type=count)
    o("--end-to-end", "of --print-time: copies in and out count", action="store_true")
    o("--profile", "print the time of every kernel", action="store_true")
    o("--project-option", "of --device micro: port=/dev/ttyACM0", nargs="+", action="extend",
      default=[], metavar="NAME=VALUE")  # fmt: skip
    remote_options(parser)


def remote_options(parser: argparse.ArgumentParser) -> None:
    """Another machine."""
    about = "of a tracker (port 9090), or without --rpc-key of a server"
    option(parser, "--rpc-tracker", about, type=address, default=(None, 0), metavar="HOST:PORT")
    option(parser, "--rpc-key", "the machine that the tracker is to give")


def _kinds(parser: Any, what: str, kinds: Mapping[str, Iterable[str]], dest: str) -> None:
    """An option for each option of each kind; of targets the help shows those of CPUs."""
    for kind, options in kinds.items():
        group = parser.add_argument_group(f"{what} {kind}")
        about = argparse.SUPPRESS if what == "target" and kind != "llvm" else ""
        for name in options:
            option(group, f"--{what}-{kind}-{name}", about, action=_Into, const=(kind, name),
                   dest=dest, metavar="VALUE")  # fmt: skip


# -------------------------------------------------------------------------------------- their texts


def count(text: str) -> int:
    """A whole number from 1. Raises argparse.ArgumentTypeError."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def address(text: str) -> tuple[str, int]:
    """A host, and a port or 9090."""
    return place(text if re.search(r":\d+$", text) else f"{text}:9090")


def input_shapes(text: str) -> dict[str, list[int | str]]:
    """Extents by input: "x:[1,3,n] y:[1]". Raises argparse.ArgumentTypeError."""
    one = re.compile(r"([^\s,\[\]][^\[\]]*?)\s*:\s*\[([^\]]*)\]")
    shapes = {n: [e.strip() for e in row.split(",") if e.strip()] for n, row in one.findall(text)}
    wrong = [e for row in shapes.values() for e in row if not e.isdigit() and not e.isidentifier()]
    if rest := one.sub("", text).strip(" ,") or "".join(wrong[:1]):
        raise argparse.ArgumentTypeError(
            f"{text!r}: {rest!r} is no shape; legal: 'x:[1,3,224,224] y:[n,8]', where extents are "
            "numbers, or names of sizes"
        )
    return {n: [int(e) if e.isdigit() else e for e in row] for n, row in shapes.items()}


def names(given: str | Sequence[str] | None) -> list[str]:
    """Names between commas, or a list of names."""
    return [n.strip() for n in (given.split(",") if isinstance(given, str) else given or ())]


def pass_configs(pairs: Sequence[str] | None) -> dict[str, Any]:
    """The config of a PassContext: tir.disable_vectorize=1, smelt.threads=2, JSON for groups."""
    known = {k.name: k.accepts for k in CONFIG}
    found = {}
    for name, there, text in [pair.partition("=") for pair in pairs or ()]:
        if not there:
            raise TVMCException(f"--pass-config {name}: legal: NAME=VALUE, tir.disable_vectorize=1")
        found[name] = _fitting(text, known.get(name, bool))
    return found


def chosen(kind: type[Executor] | type[Runtime], name: str, options: Options | None) -> Any:
    """An executor or a runtime with its options. Raises CompileError, TVMCException."""
    known = kind.known.get(name, {})
    given = _only(kind.__name__.lower(), name, options)
    return kind(name, {o: _fitting(v, known[o][0]) for o, v in given.items()})


def _only(what: str, name: str, options: Options | None) -> Mapping[str, Any]:
    """The options of a kind. Raises TVMCException where there are others."""
    for other, given in (options or {}).items():
        if other != name:
            raise TVMCException(f"--{what}-{other}-{next(iter(given))}: the {what} is {name}")
    return (options or {}).get(name, {})


def chosen_target(
    target: str | Target | None, host: str | Target | None = None, options: Options | None = None
) -> Target:
    """The target of a command; options: as of `--target-llvm-mcpu`. Raises TargetError, OSError."""
    if isinstance(target, str) and target.endswith(".json"):
        target = Path(target).read_text(encoding="utf-8")
    given, library = dict(options or {}), with_cmsis_nn(target)
    shared = given.pop(CMSIS_NN, {}) if library else {}
    if not library and isinstance(target, str) and re.match(r"[\w-]+\s*,", target):
        raise TVMCException(f"--target {target}: a model is compiled for one target, or for "
                            "cmsis-nn,c; other compilers get parts of it by smelt.byoc, in "
                            "Python")  # fmt: skip
    target = c_target(str(target)) if library else target
    made = Target(target or ("llvm" if options else "llvm -mcpu=native"), host)
    return made.with_attrs(**{**shared, **_only("target", made.kind.name, given)})


def _fitting(text: str, accepts: Callable[[Any], bool]) -> Any:
    """What a text stands for: the first reading of it that is legal, else the text."""
    return next((v for v in _readings(text) if accepts(v)), text)


def _readings(text: str) -> Iterator[Any]:
    with suppress(ValueError):
        yield json.loads(text)
    if text.lower() in ("1", "true", "0", "false"):
        yield text.lower() in ("1", "true")
