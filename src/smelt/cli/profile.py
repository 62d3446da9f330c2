"""The command `profile`."""

import json as _json

import smelt
from smelt.cli.console import say, say_json
from smelt.cli.inputs import given_inputs
from smelt.cli.options import (
    At,
    Build,
    Input,
    Json,
    Likely,
    Loadable,
    OptLevel,
    Range,
    Shape,
    Target,
    Threads,
)
from smelt.cli.sizes import Sizes


def profile(
    model: Loadable,
    threads: Threads = None,
    input_file: Input = None,
    target: Target = None,
    shape: Shape = None,
    range_: Range = None,
    likely: Likely = None,
    opt_level: OptLevel = None,
    at: At = None,
    json: Json = False,
) -> None:
    """Time every kernel of a model: GFLOP/s, and the share of the machine's measured limit."""
    exe = Build(target, Sizes.of(shape, range_, likely), threads, opt_level).load(model)
    report = exe.profile(*given_inputs(model, exe, input_file, at))
    limits = smelt.machine_limits(threads)
    if json:
        say_json(_json.loads(report.json(limits)))
        return
    say(report.table(limits=limits))
    say(
        f"this machine, measured: {limits.gflops:.0f} GFLOP/s, {limits.gbytes:.0f} GB/s from "
        "memory; what stays in the caches can exceed the latter"
    )
