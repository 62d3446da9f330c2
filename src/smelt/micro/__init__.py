"""Models for microcontrollers: C without a heap, every byte known before, and boards to run it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from smelt.ir.memory_pools import Pool

from .board import BOARDS, Board
from .csource import CSource, CTensor
from .errors import (
    BuildError,
    MicroTVMTemplateProjectNotFoundError,
    ModelLibraryFormatError,
    NonStaticShapeError,
    NotATemplateProjectError,
    TemplateProjectError,
    UnsupportedInModelLibraryFormatError,
)
from .model_library_format import export_model_library_format, read_model_library_format
from .program import program_files
from .project import (
    GeneratedProject,
    ProjectTransport,
    TemplateProject,
    generate_project,
    generate_project_from_mlf,
    get_microtvm_template_projects,
    get_standalone_crt_dir,
    template_names,
)
from .serial_port import SerialTransport
from .session import Session, StepTicks, open_board
from .transport import ProcessTransport, Transport

if TYPE_CHECKING:
    from .compile import c_target, compile_c, is_c, with_cmsis_nn
    from .tuning import BoardRunner

__all__ = [
    "BOARDS",
    "Board",
    "BoardRunner",
    "BuildError",
    "CSource",
    "CTensor",
    "GeneratedProject",
    "MicroTVMTemplateProjectNotFoundError",
    "ModelLibraryFormatError",
    "NonStaticShapeError",
    "NotATemplateProjectError",
    "Pool",
    "ProcessTransport",
    "ProjectTransport",
    "SerialTransport",
    "Session",
    "StepTicks",
    "TemplateProject",
    "TemplateProjectError",
    "Transport",
    "UnsupportedInModelLibraryFormatError",
    "c_target",
    "compile_c",
    "export_model_library_format",
    "generate_project",
    "generate_project_from_mlf",
    "get_microtvm_template_projects",
    "get_standalone_crt_dir",
    "is_c",
    "open_board",
    "program_files",
    "read_model_library_format",
    "template_names",
    "with_cmsis_nn",
]


def __getattr__(name: str) -> Any:
    # The compiler is loaded when it is used first: the servers of projects do without.
    if name in ("c_target", "compile_c", "is_c", "with_cmsis_nn"):
        return getattr(importlib.import_module("smelt.micro.compile"), name)
    if name == "BoardRunner":
        return importlib.import_module("smelt.micro.tuning").BoardRunner
    raise AttributeError(f"module 'smelt.micro' has no attribute {name!r}")
