"""A program that decides while it runs as one artifact: its segments, its functions, what tells the
runtime of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt.codegen.llvm import link_in_process
from smelt.codegen.llvm_text import emit_module
from smelt.ir.expr import const
from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.ir.steps import Step
from smelt.relax.updates import states_and_updates
from smelt.runtime.abi import ABI_VERSION
from smelt.runtime.dtypes import DTYPE_CODES
from smelt.runtime.vm import VMExecutable
from smelt.runtime.vm_file import executable_of, program_data
from smelt.runtime.vm_program import Program
from smelt.target import Target
from smelt.target.processor import needed_features

from .artifact import HOST, Artifact
from .control import MOST_RANK, PROGRAM_NAME, Functions, SegmentCode, description, python_parts
from .graph import Storage
from .model import Straight, dump_host
from .weights import Starts, weights_of


def link_program(
    program: Program,
    segments: Sequence[Straight],
    name: str,
    target: Target,
    options: Options,
    lowering: Sequence[Step],
    mod: IRModule,
) -> Artifact:
    """The artifact of a program and its compiled segments.

    mod  what it was made of: inputs and results of "main" may belong together
    """
    starts = Starts(mod.functions.get("main"))
    held = _constants(program)
    constants = [*held.values(), *starts.storages, *[s for p in segments for s in p.constants()]]
    weights, places = weights_of(constants, options, lowering, by_contents=True)
    offsets = {n: places[s] for n, s in held.items()}
    python = python_parts(program)
    if any(m.externals for part in segments for m in part.all):
        python.append("functions of back ends of your own")
    programs, described, metadata = [], [], []
    first = 0
    for n, part in enumerate(segments):
        entry, plan = f"program.entry{n}", f"program.plan{n}"
        programs += part.programs(places, entry, plan, first)
        data = part.metadata(target, weights.nbytes, places)
        metadata.append({**data, "first_kernel": first})
        first += len(data["kernels"])
        described.append(SegmentCode(_name(data), entry, plan, data))
    ranks = [len(t["shape"]) for m in metadata for t in (*m["inputs"], *m["outputs"])]
    if max(ranks, default=0) > MOST_RANK:
        python.append(f"values of more than {MOST_RANK} dimensions")
    functions = Functions(program, first)
    if not python:
        programs += functions.made()
    dump_host(programs, options)
    text = emit_module(programs, target)
    text += "\n" + description(program, described, offsets, [*functions.texts], bool(not python))
    objects = {k: o for part in segments for k, o in part.objects().items()}.values()
    whole = {
        "abi": ABI_VERSION,
        "kind": "vm",
        "name": name,
        "target": str(target),
        "features": needed_features(target),
        "symbols": _symbols(program),
        "weights_bytes": weights.nbytes,
        "control": "python" if python else "native",
        "python": python,
        "sites": functions.sites,
        "segments": metadata,
        **{k: sorted(v.items()) for k, v in states_and_updates(mod).items() if v},
        **starts.metadata(places),
        **program_data(program, offsets),
    }
    return Artifact(target, whole, weights, options, tuple(objects), {HOST: text})


def _constants(program: Program) -> dict[int, Storage]:
    """A program's constants by number, without those of texts."""
    return {
        n: Storage("constant", str(c.dtype), const(c.nbytes), data=c, name=f"constant{n}")
        for n, c in enumerate(program.constants)
        if str(c.dtype) in DTYPE_CODES
    }


def _name(data: dict[str, Any]) -> str:
    """What an error says of a segment: the nodes that it computes."""
    nodes = [n for k in data["kernels"] for n in k["nodes"]]
    return f"{data['name']} ({nodes[0]})" if nodes else str(data["name"])


def _symbols(program: Program) -> list[str]:
    """The sizes that stand as extents of inputs."""
    found = [d for i in program.inputs for d in i.shape if isinstance(d, str) and d.isidentifier()]
    return list(dict.fromkeys(found))


def load_program(artifact: Artifact, program: Program) -> VMExecutable:
    """A program linked into this process."""
    objects = artifact.code(here=True)
    addresses, alive = link_in_process(objects, [PROGRAM_NAME])
    return executable_of(
        program, artifact.metadata, addresses[PROGRAM_NAME], artifact.weights, alive,
        artifact.options.threads, objects,
    )  # fmt: skip
