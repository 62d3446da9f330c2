"""What of an ONNX model would work, operator by operator, without compiling it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smelt.frontend.common.inputs import Given, Shapes
from smelt.frontend.common.survey import Survey, survey_of

from .importer import Importer
from .read import load


def survey(
    model: object,
    shapes: Shapes | None = None,
    values: Mapping[str, Given] | None = None,
    operators: Mapping[str, Any] | None = None,
) -> Survey:
    """Look at a model; the arguments are those of from_onnx.

    Raises NeedsValues where nothing can be said before inputs have shapes, and what from_onnx
    raises for a broken model.
    """
    return survey_of(Importer(load(model), shapes or {}, values or {}, operators or {}))
