"""Writes docs/primitives.md from the docstrings: `python scripts/primitives_page.py`.

The tests run every Before and compare what comes of it with After.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from smelt.tir import Schedule

PAGE = Path(__file__).resolve().parents[1] / "docs" / "primitives.md"

START = """\
<!-- Written by scripts/primitives_page.py: change that, or the docstrings, and run it again. -->

# Schedule primitives

A primitive changes a program and keeps what it computes: `sch.split("i", [None, 8])`. Where that
cannot be shown, it raises a `ScheduleError`, and nothing has changed. [Tensor
programs](tensor.md) says what schedules are; in Python, `help(sch.split)` says what stands here.

Each primitive has a program before and after it, as text: [how to read
it](tensor.md#a-program). Parameters of these programs, such as `A`, are left out. A block or a loop
is given by its name, as here, or by what another primitive has returned
(`i, j = sch.get_loops("B")`). *Needs* says when the primitive is refused.

- *producer* and *consumer* of a block: a block that writes what it reads; one that reads what it
  writes
- *complete* block: the only one that writes its buffers; has spatial variables only; reads nothing
  that it writes
- *reduction* block: the only one that writes its buffers; starts at `T.init`, then adds up over
  reduce variables
- *intermediate* buffer: allocated in the program (`T.alloc_buffer`), not a parameter
- *perfect nest*: loops each of which is the only statement in the one around it
- *root*: the block around the whole program, which the text leaves out

"""

GROUPS = {
    "Blocks and loops of a program": """get_block get_loops get_child_blocks get_producers
        get_consumers get_output_blocks work_on""",
    "The order of iterations": "split fuse reorder loop_partition merge add_unit_loop",
    "How a loop runs": "parallel vectorize unroll bind",
    "Where a block is computed": """compute_at reverse_compute_at compute_inline
        reverse_compute_inline""",
    "Copies": """cache_read cache_write cache_inplace read_at write_at cache_index reindex
        reindex_cache_read reindex_cache_write rolling_buffer""",
    "Reductions": "decompose_reduction rfactor",
    "Padding": "decompose_padding pad_einsum",
    "Memory": """transform_layout set_scope storage_align set_axis_separator
        unsafe_set_dtype precompute""",
    "Blocks and instructions": """blockize localize tensorize transform_block_layout
        reorder_block_iter_var""",
    "Notes on a program": """annotate unannotate annotate_buffer_access
        unsafe_hide_buffer_access enter_postproc""",
    "Random choices": """sample_perfect_tile sample_partitioned_tile sample_categorical
        sample_compute_location""",
}


def page() -> str:
    """The whole page."""
    rows = ["| | |", "|---|---|"]
    for group, names in GROUPS.items():
        links = ", ".join([f"[`{n}`](#{n})" for n in names.split()])
        rows.append(f"| {group} | {links} |")
    parts = [START + "\n".join(rows)]
    for group, names in GROUPS.items():
        parts += [f"## {group}", *[part for n in names.split() for part in _primitive(n)]]
    return "\n\n".join(parts) + "\n"


def _primitive(name: str) -> Iterator[str]:
    """What the page says of one primitive."""
    method = getattr(Schedule, name)
    about, rest = inspect.cleandoc(method.__doc__).split("\nBefore\n", 1)
    before, rest = rest.split("\nStep ", 1)
    step, rest = rest.split("\nAfter\n", 1)
    after, needs = rest.split("\nNeeds ", 1)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    call = ", ".join([str(p.replace(annotation=p.empty)) for p in parameters])
    yield f"### {name}"
    yield f"`sch.{name}({call})`"
    for paragraph in about.strip().split("\n\n"):
        yield _options(paragraph) if re.match(r"\w+ {2,}\S", paragraph) else paragraph
    same = before == after
    yield f"`{step.strip()}` leaves this program as it is:" if same else "Before:"
    yield f"```py\n{textwrap.dedent(before)}\n```"
    if not same:
        yield f"After `{step.strip()}`:"
        yield f"```py\n{textwrap.dedent(after)}\n```"
    yield textwrap.fill(f"*Needs* {' '.join(needs.split())}", 100, break_on_hyphens=False)


def _options(paragraph: str) -> str:
    """A list of parameters: `name  what it is`, with lines that go on."""
    items: list[str] = []
    for line in paragraph.splitlines():
        found = re.match(r"(\w+)  +(\S.*)", line)
        if found:
            items.append(f"- `{found[1]}`: {found[2]}")
        else:
            items[-1] += " " + line.strip()
    return "\n".join([textwrap.fill(i, 100, subsequent_indent="  ") for i in items])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
