"""Graph programs as ONNX models.

model = to_onnx(mod, opset=21)
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from smelt.ir.errors import CompileError, Unsupported
from smelt.ir.expr import Expr, IntImm
from smelt.ir.module import IRModule
from smelt.ir.node import postorder
from smelt.ir.tables import import_modules
from smelt.ir.types import TensorType
from smelt.relax.graph_op import GraphOp, of_dialect
from smelt.relax.host_ops import VM
from smelt.relax.match_cast import resolve_match_cast
from smelt.relax.nodes import Call, Function, incomplete, tensor_types
from smelt.relax.transform.expand_ops import expanded
from smelt.relax.transform.infer_module import infer_types
from smelt.relax.transform.inline import inline_called
from smelt.relax.transform.normal_form import inline_functions
from smelt.relax.transform.rewriting import functions_of, transform_functions
from smelt.runtime.files import check_target, write_file

from .write_graph import Block, Names, Node, Writer, element_number
from .write_versions import OLDEST, lowered

NEWEST = onnx.defs.onnx_opset_version()
APART = 2**31 - 2**20
"""Bytes of constants from which on they lie in a file of their own: a message holds less than
2 GiB."""
ENDING, PAGE = ".data", 4096

import_modules(__package__ or "", [str(Path(__file__).parent)], "write_")  # they enter themselves


def to_onnx(mod: IRModule, *, opset: int = 21, name: str | None = None) -> onnx.ModelProto:
    """A module's graph program as a standard ONNX model.

    opset  the operator set that nodes are of
    name   the graph's; None: the module's own name, else "main"

    Raises Unsupported, which lists every operator that has no form in ONNX.
    """
    if not isinstance(opset, int) or not OLDEST <= opset <= NEWEST:
        raise CompileError(f"to_onnx: opset={opset!r}; legal: {OLDEST} to {NEWEST}")
    f = _entry(mod)
    w = Writer(opset, f.body)
    names = Names([p.name for p in f.params], _result_names(f))
    sizes = _size_names(f, names)
    for p, taken in zip(f.params, names.inputs, strict=True):
        w.made[p] = taken
    w.find_sizes(f.body, f.params)
    found = w.write_all(f.body)
    w.block.results = list(found) if isinstance(found, tuple) else [found]
    _complain(w)
    types = tensor_types(f.body.type)
    _name_values(w, names)
    w.block.nodes = _needed(w.block)
    outputs = _info(zip(names.outputs, types, strict=True), sizes)
    inputs = _info([(n, t) for n, p in zip(names.inputs, f.params, strict=True)
                    for t in tensor_types(p.type)], sizes)  # fmt: skip
    return _model(w, names, inputs, outputs, name or str(mod.attrs.get("name") or "main"))


def save(
    mod: IRModule, path: str | os.PathLike[str], *, opset: int = 21, name: str | None = None
) -> None:
    """A module's graph program as a file: see to_onnx and put."""
    check_target(path, (".onnx",), "model.onnx")
    put(to_onnx(mod, opset=opset, name=name), path)


def put(model: onnx.ModelProto, path: str | os.PathLike[str]) -> None:
    """A model as a file; constants beyond 2 GB lie in PATH.data beside it.

    What fails leaves the place as it was.
    """
    check_target(path, (".onnx",), "model.onnx")
    if sum(len(t.raw_data) for t in model.graph.initializer) >= APART:
        beside = Path(path).with_name(Path(path).name + ENDING)
        places = _places(model.graph.initializer)
        write_file(beside, lambda file: _put_apart(model.graph.initializer, places, file.write))
        model = _referring(model, places, beside.name)
    write_file(path, lambda file: file.write(model.SerializeToString(deterministic=True)))


def _places(tensors: Iterable[onnx.TensorProto]) -> dict[str, int]:
    """Where the large constants lie in a file of their own, in bytes from its begin."""
    found, at = {}, 0
    for t in tensors:
        if len(t.raw_data) >= PAGE:
            found[t.name] = at
            at += -(-len(t.raw_data) // PAGE) * PAGE
    return found


def _put_apart(
    tensors: Iterable[onnx.TensorProto], places: Mapping[str, int], write: Callable[[bytes], object]
) -> None:
    """The bytes of the large constants."""
    for t in tensors:
        if t.name in places:
            write(t.raw_data + b"\0" * (-len(t.raw_data) % PAGE))


def _referring(model: onnx.ModelProto, places: Mapping[str, int], location: str) -> onnx.ModelProto:
    """A model that says of its large constants where they lie."""
    g = model.graph
    made = _of_parts(model, helper.make_graph(g.node, g.name, g.input, g.output))
    for t in g.initializer:
        if t.name not in places:
            made.graph.initializer.append(t)
            continue
        new = made.graph.initializer.add(name=t.name, data_type=t.data_type, dims=t.dims)
        new.data_location = onnx.TensorProto.EXTERNAL
        told = {"location": location, "offset": places[t.name], "length": len(t.raw_data)}
        for key, value in told.items():
            new.external_data.add(key=key, value=str(value))
    return made


def _of_parts(like: onnx.ModelProto, graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=like.opset_import, ir_version=like.ir_version,
                             producer_name=like.producer_name)  # fmt: skip


# ------------------------------------------------------------------------------- the function


def _entry(mod: IRModule) -> Function:
    """The function that the model is of, with all others in it that do not call themselves."""
    found = functions_of(mod)
    name = "main" if "main" in found else next(iter(found), "")
    if not name or (name != "main" and len(found) > 1):
        have = ", ".join(found) or "none"
        raise CompileError(f"to_onnx: the module needs a graph function 'main'; it has: {have}")
    if any(incomplete(e.type) for f in found.values() for e in (*f.params, f.body)):
        mod = infer_types(mod)
    mod = inline_functions(inline_called(resolve_match_cast(mod), [n for n in found if n != name]))
    mod = _in_core(mod)
    f = mod[name]
    assert isinstance(f, Function)
    return f


def _in_core(mod: IRModule) -> IRModule:
    """A module in which calls of a dialect's operators are of the core's."""

    def foreign(node: Any) -> bool:
        op = node.op if isinstance(node, Call) else None
        return isinstance(op, GraphOp) and of_dialect(op) and op.dialect is not VM

    while any(foreign(n) for f in functions_of(mod).values() for n in postorder(f)):
        mod = transform_functions(mod, lambda old, new: expanded(new) if foreign(new) else None)
    return mod


def _result_names(f: Function) -> list[str]:
    """What the results are called."""
    given = list(f.attrs.get("output_names", ()))
    count = len(tensor_types(f.body.type))
    own = [f"output{n}" if count > 1 else "output" for n in range(count)]
    return [n or o for n, o in zip(given, own, strict=True)] if len(given) == count else own


def _size_names(f: Function, names: Names) -> dict[Expr, str]:
    """What the sizes in the types of operands and results are called: every one otherwise."""
    found: dict[Expr, str] = {}
    own = Names()
    for t in [t for p in (*f.params, f.body) for t in tensor_types(p.type)]:
        for e in t.shape:
            if not isinstance(e, IntImm) and e not in found:
                found[e] = own.unique(str(e))
    return found


def _info(
    typed: Iterable[tuple[str, TensorType]], sizes: Mapping[Expr, str]
) -> list[onnx.ValueInfoProto]:
    """Values with their types."""
    found = []
    for n, t in typed:
        extents = [e.value if isinstance(e, IntImm) else sizes.get(e) for e in t.shape]
        found.append(helper.make_tensor_value_info(n, element_number(t.dtype), extents))
    return found


def _complain(w: Writer) -> None:
    """One error for everything that has no form."""
    if not w.problems:
        return
    count = len(w.problems)
    lines = []
    for (op, why), nodes in w.problems.items():
        shown = ", ".join([repr(n) for n in nodes if n][:5]) + (", ..." if len(nodes) > 5 else "")
        where = f" ({shown})" if shown else ""
        lines.append(f"  {op}: {len(nodes)} node{'s' * (len(nodes) > 1)}{where}: {why}")
    raise Unsupported(
        f"to_onnx: {count} thing{'s' * (count > 1)} without a form in ONNX, operator set "
        f"{w.opset}\n" + "\n".join(lines) + "\n  legal: tensors, operators that ONNX has or that "
        f"are made of such, branches; opset={OLDEST} to {NEWEST}"
    )


# ---------------------------------------------------------------------------------- the model


def _name_values(w: Writer, names: Names) -> None:
    """Results are values of their own, under their names: of a node, and not of two."""
    made = {o for n in w.block.nodes for o in n.outputs}
    last: dict[str, str] = {}
    for k, (r, name) in enumerate(zip(w.block.results, names.outputs, strict=True)):
        if r not in made or r in last:
            w.label = ""
            r = w.block.results[k] = w.emit("Identity", r)
        last[r] = name
    w.final = last


def _needed(block: Block) -> list[Node]:
    """The nodes that results need, in order; those in branches too."""
    wanted = set(block.results)
    kept = []
    for node in reversed(block.nodes):
        if wanted.isdisjoint(node.outputs):
            continue
        for inner in node.attrs.values():
            if isinstance(inner, Block):
                inner.nodes = _needed(inner)
        wanted.update(node.read())
        kept.append(node)
    return kept[::-1]


def _model(
    w: Writer, names: Names, inputs: list[Any], outputs: list[Any], name: str
) -> onnx.ModelProto:
    """The message. Constants come last: a message of more than 2 GB cannot be copied as a whole."""
    read = {n for node in w.block.nodes for n in node.read()}
    for n in w.constants:
        if n in read:
            w.final[n] = names.unique(w.labels[n] or "constant")
    nodes = [_proto(node, w, names) for node in w.block.nodes]
    graph = helper.make_graph(nodes, name, inputs, outputs)
    own = helper.make_opsetid("", w.opset)
    sets = [own, *[helper.make_opsetid(d, 1) for d in _domains(w.block.nodes)]]
    version = helper.find_min_ir_version_for([own])
    made = helper.make_model(graph, opset_imports=sets, ir_version=version, producer_name="smelt")
    needed = {n for p in nodes for n in _read(p)}
    for n, data in w.constants.items():
        if w.final.get(n) in needed:
            made.graph.initializer.append(numpy_helper.from_array(_dense(data), w.final[n]))
    return made


def _domains(nodes: list[Node]) -> list[str]:
    """The other domains whose operators nodes are, those in branches too."""
    inner = [n for node in nodes for b in node.attrs.values() if isinstance(b, Block)
             for n in b.nodes]  # fmt: skip
    return sorted({*[n.domain for n in nodes if n.domain], *(_domains(inner) if inner else ())})


def _dense(data: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(data) if data.ndim else data


def _read(p: onnx.NodeProto) -> list[str]:
    """The values that a node needs, those in its branches too."""
    inner = [n for a in p.attribute if a.HasField("g") for n in a.g.node]
    return [*p.input, *[i for n in inner for i in _read(n)]]


def _proto(node: Node, w: Writer, names: Names) -> onnx.NodeProto:
    """A node as a message; its results get their names."""
    node = lowered(node, w)
    label = w.node_names.unique(node.label or node.op)
    for k, o in enumerate(node.outputs):
        if o not in w.final:
            w.final[o] = names.unique(f"{label}:{k}" if k else label)
    attrs = {k: _graph(v, w, names) if isinstance(v, Block) else v for k, v in node.attrs.items()}
    given = [w.final.get(i, i) for i in node.inputs]
    made = [w.final[o] for o in node.outputs]
    proto = helper.make_node(node.op, given, made, label, domain=node.domain or None)
    proto.attribute.extend([helper.make_attribute(k, v) for k, v in sorted(attrs.items())])
    return proto


def _graph(block: Block, w: Writer, names: Names) -> onnx.GraphProto:
    """A branch as a message."""
    nodes = [_proto(n, w, names) for n in block.nodes]
    results = [w.final[r] for r in block.results]
    sizes = {e: re.sub(r"\W", "_", str(e)) for t in block.types for e in t.shape}
    outputs = _info(zip(results, block.types, strict=True), sizes)
    return helper.make_graph(nodes, names.unique("branch"), [], outputs)
