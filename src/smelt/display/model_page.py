"""A page of a whole model: its graph as a picture, its kernels as a table, a page for each."""

from __future__ import annotations

import base64
import functools
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smelt.artifact.graph import Launch, plan_graph
from smelt.artifact.kernel import KernelSpec, scheduled
from smelt.artifact.model import kernel_specs
from smelt.artifact.vm_construct import vm_construct
from smelt.codegen.llvm import resolve
from smelt.codegen.workers import WorkerPool, default_pool
from smelt.frontend.source import import_model
from smelt.ir.build import value_of
from smelt.ir.expr import Expr, const
from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.ir.sizes import Extent
from smelt.pipeline import as_target, checked_context, run_graph
from smelt.relax.nodes import Constant, Function, memory_key, values
from smelt.runtime.kernel_times import KernelTime
from smelt.runtime.limits import MachineLimits
from smelt.runtime.report import MemoryInfo, ProfileReport
from smelt.target import Target
from smelt.tir.analysis.table import byte_text

from .amounts import Cache, caches_of
from .diagram import diagram
from .element import Html, data, element, headings, join, totals
from .network import Network, imported_network, kernel_network
from .page import document, program
from .subject import Program, program_steps
from .view import write_page

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Measured:
    """What is known of a model from compiling and running it.

    report  `exe.profile(...)`
    limits  `smelt.machine_limits()`
    memory  `exe.memory`
    """

    report: ProfileReport
    limits: MachineLimits | None = None
    memory: MemoryInfo | None = None


@dataclass(frozen=True)
class _Row:
    """A kernel's call in the table. program: the number of its program; None: it has none."""

    name: str
    nodes: tuple[str, ...]
    bytes: int | None
    time: KernelTime | None
    program: int | None


def model_page(
    model: Any,
    path: str | os.PathLike[str],
    *,
    measured: Measured | None = None,
    note: str = "",
    target: str | Target | None = None,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
) -> None:
    """Write one file with a model's graph, its kernels, and for each its loops and footprint.

    A model that decides while it runs has its graph as imported, and no kernels.

    model     path of an ONNX file, its bytes, an onnx.ModelProto, or an IRModule
    measured  times to show; they have to be of the same model, target, shapes and options
    note      a sentence about the times, e.g. why there are none
    target, shapes, options
              as for `compile`
    progress  called with (stage, done, total) while the kernels' pages are made
    """
    mod = import_model(model, shapes)
    title = str(mod.attrs.get("name", "model"))
    if vm_construct(mod) is not None:
        note = note or "This model decides while it runs: it has no kernels to show."
        write_page(path, _document(title, note, imported_network(mod), [], [], measured, mod))
        return
    resolved = resolve(as_target(target))
    context = checked_context("smelt.display.model_page", options, resolved)
    fused = run_graph(mod, context)
    plan = plan_graph(fused)
    launches, network = plan.launches, kernel_network(fused, plan.launches)
    own = kernel_specs(plan, resolved, context.options)
    unique = {s.symbol: s for s in own if s is not None}
    numbers = {symbol: n for n, symbol in enumerate(unique)}
    nodes = {b.launch: b.nodes for b in network.every() if b.launch is not None}
    times = _times(launches, measured)
    if measured is not None and None in times:
        note = note or "The times are of another form of this model, so they are left out."
    rows = [
        _Row(x.name, nodes[n], _moved(x), times[n], None if s is None else numbers[s.symbol])
        for n, (x, s) in enumerate(zip(launches, own, strict=True))
    ]
    programs = _programs(list(unique.values()), caches_of(target), context.options, progress)
    write_page(path, _document(title, note, network, rows, programs, measured, fused))


def _times(launches: Sequence[Launch], measured: Measured | None) -> Sequence[KernelTime | None]:
    """The time of each launch; none where another form of the model ran."""
    found = () if measured is None else measured.report.kernels
    if [k.name for k in found] != [x.name for x in launches]:
        return [None] * len(launches)
    return found


def _moved(launch: Launch) -> int | None:
    """Bytes of all operands and results; None where that depends on sizes."""
    total: Expr = const(0)
    for place in (*launch.inputs, *launch.outputs):
        total = total + place.bytes
    return value_of(total)


_FEW = 30
"""So many programs are written sooner than workers have started."""


def _programs(
    specs: Sequence[KernelSpec],
    caches: Sequence[Cache],
    options: Options,
    progress: Progress | None,
) -> list[Html]:
    """The page of each program, packed: most are never opened, and they are large."""
    pool = default_pool(options.worker_count) if len(specs) > _FEW else WorkerPool(0)
    jobs = [(s, str(s.group.attrs.get("name", s.symbol)), f"p{n}") for n, s in enumerate(specs)]
    report = None if progress is None else functools.partial(progress, "pages")
    made = pool.map(
        f"{__name__}:packed", [(*j, caches) for j in jobs], [name for _, name, _ in jobs], report
    )
    return [element("template", text, id=j[2]) for j, text in zip(jobs, made, strict=True)]


def packed(spec: KernelSpec, name: str, prefix: str, caches: Sequence[Cache]) -> str:
    """The page of one program. Runs in the worker processes."""
    sch = scheduled(spec).schedule
    part = Program(name, sch.func.with_attrs(name=name), program_steps(sch))
    text = program(part, prefix, caches, "h3")
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


# ---------------------------------------------------------------------------------------- the page


def _document(
    title: str,
    note: str,
    network: Network,
    rows: Sequence[_Row],
    programs: Sequence[Html],
    measured: Measured | None,
    mod: IRModule,
) -> str:
    limits = None if measured is None else measured.limits
    total = 0.0 if measured is None else measured.report.total
    cells = [_cells(r, total, limits) for r in rows]
    longest = max([c[0][1] or 0.0 for c in cells], default=0.0)

    def figures(kernels: Sequence[int]) -> tuple[list[str], float]:
        if len(kernels) != 1:
            return _sum([cells[n] for n in kernels]), 0.0
        (own,) = [cells[n] for n in kernels]
        return _lines(own), round(((own[0][1] or 0.0) / (longest or 1.0)) ** 0.5, 3)

    shown = element("p", note, class_="hint") if note else None
    content = join(
        element("header", element("h1", title), _totals(rows, measured, mod), shown),
        element(
            "main",
            element("div", _toolbar(bool(longest)), _picture(title), class_="stage"),
            _table(rows, cells) if rows else None,
            class_="model" if rows else "model alone",
            id="model",
        ),
        element("section", id="opened", hidden=True),
        data("diagram", diagram(network, figures)),
        *programs,
    )
    resources = ("page.css", "model.css", "page.js", "model.js")
    return document(title, content, resources)


def _totals(rows: Sequence[_Row], measured: Measured | None, mod: IRModule) -> Html:
    terms = [("kernels", f"{len(rows):,}"), ("programs", f"{len({r.program for r in rows}):,}")]
    terms = terms if rows else []
    if measured is not None and any(r.time for r in rows):
        terms.append(("one run", f"{measured.report.total:.3f} ms"))
    if measured is not None and measured.limits is not None:
        limits = measured.limits
        terms.append(("limits", limits.text().partition(": ")[2]))
    memory = None if measured is None else measured.memory
    terms.append(("weights", byte_text(_weights(mod) if memory is None else memory.weights)))
    if memory is not None and memory.workspace is not None:
        terms.append(("workspace", byte_text(memory.workspace)))
    return totals(terms)


def _weights(mod: IRModule) -> int:
    """Bytes of all constants, each once."""
    main = mod["main"]
    assert isinstance(main, Function)
    arrays = [v.data for v in values(main.body) if isinstance(v, Constant)]
    return sum({memory_key(a): a.nbytes for a in arrays}.values())


def _toolbar(timed: bool) -> Html:
    def button(text: str, does: str, label: str) -> Html:
        return element("button", text, type="button", data_do=does, aria_label=label, title=label)

    scale = [element("span", "0 ms"), element("i"), element("span", "longest")]
    return element(
        "div",
        element(
            "input",
            type="search",
            id="find",
            placeholder="find a node or kernel",
            aria_label="find a node or kernel by name; Enter: the next one",
        ),
        element("output", id="found", for_="find"),
        button("+", "in", "zoom in"),
        button("−", "out", "zoom out"),
        button("fit", "fit", "show the whole graph"),
        button("unfold", "unfold", "unfold everything"),
        button("fold", "fold", "fold everything"),
        element("span", scale, class_="scale", aria_label="colour: a kernel's time")
        if timed
        else None,
        class_="tools",
        role="toolbar",
        aria_label="the graph",
    )


def _picture(title: str) -> Html:
    return element(
        "svg",
        element("g", id="drawing"),
        id="picture",
        tabindex=0,
        role="group",
        aria_label=f"graph of {title}; arrows move it, + and − zoom",
    )


Cell = tuple[str, float | None]
"""A figure as text, and what its column is sorted by."""

_COLUMNS = ("kernel", "ms", "%", "GFLOP/s", "limit %", "bytes")


def _cells(row: _Row, total: float, limits: MachineLimits | None) -> list[Cell]:
    """The row's figures: a cell for each column but the first."""
    t = row.time
    size = row.bytes if t is None or t.bytes is None else t.bytes
    found: list[Cell] = [("", None)] * 4
    if t is not None:
        share = 100 * t.milliseconds / total if total else 0.0
        limit = None if limits is None else limits.share(t)
        found = [
            (f"{t.milliseconds:.4f}", t.milliseconds),
            (f"{share:.1f}", share),
            ("" if t.gflops is None else f"{t.gflops:.1f}", t.gflops),
            ("" if limit is None else f"{limit:.0f}", limit),
        ]
    return [*found, ("" if size is None else byte_text(size), size)]


def _lines(cells: Sequence[Cell]) -> list[str]:
    """The figures that stand in a kernel's box."""
    (_, ms), (share, _), _, (limit, _), (size, _) = cells
    if ms is None:
        return [size]
    return [f"{ms:.3g} ms · {share} %", f"{limit} % of limit · {size}" if limit else size]


def _sum(rows: Sequence[Sequence[Cell]]) -> list[str]:
    """The figures of a block's box."""
    counted = f"{len(rows)} kernels"
    if any(row[0][1] is None for row in rows):
        return [counted]
    ms, share = (sum([row[n][1] or 0.0 for row in rows]) for n in (0, 1))
    return [f"{counted} · {ms:.3g} ms · {share:.1f} %"]


def _table(rows: Sequence[_Row], cells: Sequence[Sequence[Cell]]) -> Html:
    """Only columns that have something in them."""
    used = [n for n in range(len(_COLUMNS) - 1) if any(c[n][1] is not None for c in cells)]
    heads = headings([_COLUMNS[n] for n in (0, *[u + 1 for u in used])])
    body = []
    for n, (row, figures) in enumerate(zip(rows, cells, strict=True)):
        name = element("a", row.name, href=f"#k{n}") if row.program is not None else row.name
        nodes = element("small", ", ".join(row.nodes), title=", ".join(row.nodes))
        shown = [
            element("td", figures[u][0], data_value="" if figures[u][1] is None else figures[u][1])
            for u in used
        ]
        body.append(
            element(
                "tr",
                element("th", name, nodes, scope="row", data_value=n),
                shown,
                data_program=row.program,
            )
        )
    return element(
        "div",
        element(
            "table",
            element("caption", "Kernels in the order of the model; a heading sorts."),
            element("thead", element("tr", heads)),
            element("tbody", body),
            id="kernels",
        ),
        class_="kernels",
        tabindex=0,
        role="region",
        aria_label="kernels",
    )
