"""Projects: made from a template for a model, built, put on a board, talked to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from smelt.runtime.errors import unknown

from .errors import (
    MicroTVMTemplateProjectNotFoundError,
    NotATemplateProjectError,
    TemplateProjectError,
)
from .model_library_format import export_model_library_format
from .project_api import client, server
from .transport import Transport

TEMPLATES = Path(__file__).parent / "templates"
PathLike = str | os.PathLike[str]
Options = Mapping[str, Any]

_CLASSIC = {"crt": "host"}
_CHUNK = 1 << 16
"""Bytes of one request of a transport."""
_WORDS = {"true": True, "1": True, "false": False, "0": False}


def template_names() -> list[str]:
    """The templates that smelt has."""
    return sorted([f.name for f in TEMPLATES.iterdir() if (f / client.SERVER_FILE).is_file()])


def get_microtvm_template_projects(platform: str) -> str:
    """The folder of one of smelt's templates; "crt", the classic name of "host", too."""
    name = _CLASSIC.get(platform, platform)
    if name not in template_names():
        raise MicroTVMTemplateProjectNotFoundError(unknown("template", name, template_names()))
    return str(TEMPLATES / name)


def template_folder(template: PathLike) -> str:
    """The folder of a template: a folder that is there, or the name of one of smelt's."""
    path = os.fspath(template)
    if os.path.basename(path) == path and not (Path(path) / client.SERVER_FILE).exists():
        return get_microtvm_template_projects(path)
    return path


def checked_options(
    given: Options | None, known: Iterable[server.ProjectOption], method: str
) -> dict[str, Any]:
    """Options with the defaults of those that are not given. Raises TemplateProjectError."""
    listed = {o.name: o for o in known}
    for name in given or {}:
        if name not in listed:
            raise TemplateProjectError(f"{method} has {unknown('option', name, listed)}")
    found = {}
    for name, o in listed.items():
        value = (given or {}).get(name, o.default)
        if value is None and method in o.required:
            legal = f"; legal: {', '.join(o.choices)}" if o.choices else ""
            raise TemplateProjectError(f"{method} needs the option {name!r}: {o.help}{legal}")
        if value is not None:
            found[name] = _fitting(o, value)
    return found


def _fitting(o: server.ProjectOption, value: Any) -> Any:
    """A value of an option, of its type. Raises TemplateProjectError."""
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    if o.type == "bool" and isinstance(value, str):
        value = _WORDS.get(value.lower(), value)
    if o.type == "int" and isinstance(value, str) and value.isdecimal():
        value = int(value)
    kind = {"bool": bool, "int": int}.get(o.type, str)
    if o.choices and value not in o.choices:
        raise TemplateProjectError(
            f"option {o.name!r} is {value!r}; legal: {', '.join(map(str, o.choices))}"
        )
    if type(value) is not kind:
        legal = {"bool": "True, False", "int": "whole numbers"}.get(o.type, "texts")
        raise TemplateProjectError(f"option {o.name!r} is {value!r}; legal: {legal}")
    return value


class ProjectTransport(Transport):
    """The line to the program of a project. It is opened when it is used first, or by `with`."""

    def __init__(self, api_client: client.ProjectAPIClient, options: Options) -> None:
        """For GeneratedProject.transport."""
        self._client, self._options = api_client, options
        self._timeouts: server.TransportTimeouts | None = None
        self._closed = False

    def timeouts(self) -> server.TransportTimeouts:
        """What the project says of waiting. Raises TransportClosedError where it is not open."""
        if self._timeouts is None:
            raise server.TransportClosedError("the transport is not open; open() does that")
        return self._timeouts

    def open(self) -> None:
        """Open the line."""
        self._timeouts, self._closed = self._client.open_transport(self._options), False

    def close(self) -> None:
        """Close it; nothing where it is closed."""
        self._closed = True
        if self._timeouts is not None:
            self._timeouts = None
            self._client.close_transport()

    def read(self, n: int, timeout_sec: float = 10.0) -> bytes:
        """1 to n bytes; none where none came in that time. Raises server.ServerError."""
        self._opened()
        try:
            return self._client.read_transport(min(n, _CHUNK), timeout_sec)
        except server.IoTimeoutError:
            return b""

    def write(self, data: bytes, timeout_sec: float = 10.0) -> None:
        """Write all of the bytes. Raises server.ServerError, IoTimeoutError among them."""
        self._opened()
        for start in range(0, len(data), _CHUNK):
            self._client.write_transport(bytes(data[start : start + _CHUNK]), timeout_sec)

    def _opened(self) -> None:
        if self._timeouts is None and not self._closed:
            self.open()
        self.timeouts()

    def __enter__(self) -> Self:
        """Open the line."""
        if self._timeouts is None:
            self.open()
        return self


class GeneratedProject:
    """A project. Every method raises what the project's server does: server.ServerError."""

    def __init__(self, api_client: client.ProjectAPIClient, options: Options | None = None) -> None:
        """api_client: of the project's server. Raises TemplateProjectError."""
        self._client, self._info = api_client, api_client.server_info_query()
        if self._info["is_template"]:
            raise TemplateProjectError("it is a template; generate_project makes a project of it")
        self.options = checked_options(options, self._info["project_options"], "a project")

    @classmethod
    def from_directory(
        cls, project_dir: PathLike, options: Options | None = None
    ) -> GeneratedProject:
        """The project in a folder; options: those of its template, where they may still change."""
        shown = str((options or {}).get("verbose", "")).lower() in ("true", "1")
        return cls(client.instantiate_from_dir(project_dir, shown), options)

    def build(self) -> None:
        """Compile it."""
        self._client.build(self.options)

    def flash(self) -> None:
        """Put the program on its board."""
        self._client.flash(self.options)

    def transport(self) -> ProjectTransport:
        """The line to the program, not open yet."""
        return ProjectTransport(self._client, self.options)

    def info(self) -> dict[str, Any]:
        """What its server says it is."""
        return self._info

    def close(self) -> None:
        """End its server, and what that started; without it that happens with this object."""
        self._client.shutdown()


class TemplateProject:
    """A template."""

    def __init__(self, api_client: client.ProjectAPIClient) -> None:
        """api_client: of the template's server. Raises NotATemplateProjectError."""
        self._client, self._info = api_client, api_client.server_info_query()
        if not self._info["is_template"]:
            raise NotATemplateProjectError(
                "it is a project; GeneratedProject.from_directory has it"
            )

    @classmethod
    def from_directory(cls, template_project_dir: PathLike) -> TemplateProject:
        """The template in a folder, or one of smelt's by its name."""
        return cls(client.instantiate_from_dir(template_folder(template_project_dir)))

    def generate_project_from_mlf(
        self, model_library_format_path: PathLike, project_dir: PathLike,
        options: Options | None = None,
    ) -> GeneratedProject:  # fmt: skip
        """A project for the model in an archive; project_dir: not there yet, or empty."""
        full = checked_options(options, self._info["project_options"], "generate_project")
        archive, folder = os.path.abspath(model_library_format_path), os.path.abspath(project_dir)
        self._client.generate_project(archive, get_standalone_crt_dir(), folder, full)
        self._client.shutdown()
        return GeneratedProject.from_directory(project_dir, options)

    def generate_project(
        self, graph_executor_factory: object, project_dir: PathLike, options: Options | None = None
    ) -> GeneratedProject:
        """A project for a model as C; see `export_model_library_format`."""
        with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
            path = export_model_library_format(graph_executor_factory, Path(folder, "model.tar"))
            return self.generate_project_from_mlf(path, project_dir, options)

    def info(self) -> dict[str, Any]:
        """What its server says it is."""
        return self._info


def get_standalone_crt_dir() -> str:
    """The folder with the C files that programs are made with: all there is of a runtime."""
    return str(Path(__file__).parent / "native")


def generate_project(
    template_project_dir: PathLike | None = None,
    module: object = None,
    generated_project_dir: PathLike | None = None,
    options: Options | None = None,
    *,
    template_dir: PathLike | None = None,
) -> GeneratedProject:
    """A project for a model.

    template_project_dir   the folder of a template, or the name of one of smelt's: arduino, cmake,
                           host, qemu, zephyr; template_dir is another word for it
    module                 as of `export_model_library_format`
    generated_project_dir  a folder that is not there yet, or is empty
    options                of the template: `TemplateProject.from_directory(...).info()` lists them

    Raises TemplateProjectError, and what the template's server does: server.ServerError.
    """
    template = template_project_dir or template_dir
    if template is None or generated_project_dir is None:
        name = "template_project_dir" if template is None else "generated_project_dir"
        raise TemplateProjectError(f"generate_project: {name} is missing")
    made = TemplateProject.from_directory(template)
    return made.generate_project(module, generated_project_dir, options)


def generate_project_from_mlf(
    template_project_dir: PathLike,
    project_dir: PathLike,
    mlf_path: PathLike,
    options: Options | None = None,
) -> GeneratedProject:
    """A project for the model in an archive that `export_model_library_format` wrote."""
    made = TemplateProject.from_directory(template_project_dir)
    return made.generate_project_from_mlf(mlf_path, project_dir, options)
