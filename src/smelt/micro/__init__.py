"""Models for microcontrollers: C without a heap, every byte known before, and boards to run it."""

from .board import BOARDS, Board
from .compile import c_target, compile_c, is_c
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
from .session import Session, StepTicks, open_board
from .source import CSource, CTensor
from .transport import ProcessTransport, Transport

__all__ = [
    "BOARDS",
    "Board",
    "BuildError",
    "CSource",
    "CTensor",
    "GeneratedProject",
    "MicroTVMTemplateProjectNotFoundError",
    "ModelLibraryFormatError",
    "NonStaticShapeError",
    "NotATemplateProjectError",
    "ProcessTransport",
    "ProjectTransport",
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
]
