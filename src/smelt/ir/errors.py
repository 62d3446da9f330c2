"""The errors a user can meet. Each text says what, where, the value, and what would be legal."""

from __future__ import annotations

from smelt.runtime.errors import SmeltError as SmeltError

TVMError = SmeltError
"""The classic name of the base."""


class CompileError(SmeltError):
    """A program cannot be compiled for this target."""


class ImportFailure(SmeltError):
    """A model file cannot be read or is malformed."""


class Unsupported(SmeltError):
    """A model asks for something that smelt does not do (yet)."""


class Absent(Unsupported, AttributeError):
    """A name of the classic stack that smelt does not have; the text says what replaces it."""


class TypeMismatch(SmeltError):
    """Operands whose types, shapes or attributes do not fit."""


class ParseError(SmeltError):
    """A text form that does not parse; carries the source position."""


class ScheduleError(SmeltError):
    """A schedule primitive that would change the program's meaning, or cannot be shown not to."""


class TargetError(SmeltError):
    """An unknown target, CPU or feature."""


class DatabaseError(SmeltError):
    """Tuning records that cannot be read or written: a file, a server, or a record itself."""


class VerifyError(SmeltError):
    """A program that breaks a rule of its level."""


class InternalError(SmeltError):
    """A mistake of smelt, not of the user; names the pass or kernel."""
