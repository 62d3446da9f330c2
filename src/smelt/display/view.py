"""`show`: anything printed in colours, or written as a page."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from smelt import te
from smelt.ir.expr import Var
from smelt.ir.options import Options
from smelt.ir.sizes import Extent
from smelt.runtime.errors import ExportError
from smelt.runtime.files import write_file
from smelt.target import Target

from .amounts import caches_of
from .page import page
from .subject import DisplayError, Request, subject_of
from .terminal import THEMES, print_text


def show(
    program: Any,
    stage: str | None = None,
    *,
    kernel: str | None = None,
    args: Sequence[te.Tensor | Var] | None = None,
    target: str | Target | None = None,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    options: Options | None = None,
    mark: Mapping[Any, str] | None = None,
    html: str | os.PathLike[str] | None = None,
    theme: str | None = None,
) -> None:
    """Print a program: in colours on a terminal, as plain text elsewhere and with NO_COLOR.

    program  a PrimFunc, statement, expression, IRModule, Schedule, te.Schedule, Trace; or a model
    stage    of a model's compilation, one of smelt.stages.STAGES
    kernel   one kernel of a model; None: all
    args     the parameters of a te.Schedule; None: its placeholders, then its results
    target   what a model is compiled for; whose caches footprints on pages are compared with
    shapes   a model's inputs, as for `compile`
    options  as for `compile`
    mark     notes under nodes of a tensor program, or under what has these names
    html     a file to write a page to, instead of printing
    theme    "dark" or "light", the terminal's background; None: COLORFGBG says it, else dark
    """
    if theme is not None and theme not in THEMES:
        raise DisplayError(f"unknown theme {theme!r}\n  legal: dark, light")
    subject = subject_of(program, Request(stage, kernel, args, target, shapes, options, mark))
    if html is not None:
        write_page(html, page(subject, caches_of(target)))
    else:
        print_text(subject.text, subject.language, theme)


def html(
    program: Any,
    stage: str | None = None,
    *,
    kernel: str | None = None,
    args: Sequence[te.Tensor | Var] | None = None,
    target: str | Target | None = None,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    options: Options | None = None,
    mark: Mapping[Any, str] | None = None,
) -> str:
    """The page that `show(..., html=file)` writes; the parameters are the same."""
    request = Request(stage, kernel, args, target, shapes, options, mark)
    return page(subject_of(program, request), caches_of(target))


def write_page(path: str | os.PathLike[str], text: str) -> None:
    """Write a page, whole or not at all."""
    try:
        write_file(path, lambda file: file.write(text.encode()))
    except ExportError as e:
        raise DisplayError(f"{e}\n  legal: a file in a folder that is there") from None
