"""Mistakes around models, projects and boards, under their classic names."""

from __future__ import annotations

from smelt.ir.errors import CompileError, SmeltError
from smelt.runtime.errors import MicroError


class UnsupportedInModelLibraryFormatError(SmeltError):
    """Something that the Model Library Format has no place for."""


class NonStaticShapeError(CompileError):
    """A model for a microcontroller with sizes that are not numbers."""


class ModelLibraryFormatError(SmeltError):
    """A file that is no whole Model Library Format of smelt's."""


class TemplateProjectError(MicroError):
    """A project that cannot be made from a template."""


class NotATemplateProjectError(TemplateProjectError):
    """A folder that is a project already."""


class MicroTVMTemplateProjectNotFoundError(TemplateProjectError):
    """No template of that name."""


class BuildError(MicroError):
    """A project that cannot be built or put on its board."""
