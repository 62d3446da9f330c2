"""`tvmc micro`: projects for microcontrollers, from a model in the Model Library Format."""

from __future__ import annotations

import argparse
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from smelt.micro import GeneratedProject, Session, TemplateProject, template_names
from smelt.micro.project_api.client import SERVER_FILE
from smelt.micro.project_api.server import ProjectOption
from smelt.runtime.signature import TensorInfo

from .arguments import common, option
from .model import PathLike, TVMCException, TVMCResult
from .runner import make_inputs

Asked = argparse.Namespace

_OTHER = "template"
"""The classic word for a template of the user's own."""


def micro_options(parser: argparse.ArgumentParser) -> None:
    """The commands of `tvmc micro`."""
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    rows: list[tuple[list[str], str, Callable[[Asked], None]]] = [
        (["create-project", "create"], "make a project of a template", create),
        (["build"], "compile a project", partial(on_project, "build")),
        (["flash"], "put a project's program on its board", partial(on_project, "flash")),
    ]
    for (name, *aliases), about, command in rows:
        one = commands.add_parser(name, aliases=aliases, help=about, description=about)
        o = partial(option, one)
        one.add_argument("PROJECT_DIR", help="the project's folder")
        if command is create:
            one.add_argument("MLF", help="the model: what tvmc compile -f mlf wrote")
        one.add_argument("TEMPLATE", help=", ".join([*template_names(), _OTHER]),
                         choices=[*template_names(), _OTHER])  # fmt: skip
        o("-f --force", "in place of a project that is there", action="store_true")
        o("--project-option", "of the template; --list-options shows them", nargs="+",
          action="extend", default=[], metavar="NAME=VALUE")  # fmt: skip
        o("--list-options", "print the options, and do nothing", action="store_true")
        o("--template-dir", f"the folder of a {_OTHER} of your own")
        common(one)
        one.set_defaults(command=command)


def create(asked: Asked) -> None:
    """Carry out `tvmc micro create`."""
    template = TemplateProject.from_directory(_template(asked))
    if _listed(asked, template.info()["project_options"], "generate_project"):
        return
    folder = Path(asked.PROJECT_DIR)
    old = folder.with_name(f".{folder.name}.{secrets.token_hex(6)}.old")
    replaces = asked.force and (folder / SERVER_FILE).is_file()
    if replaces:
        folder.rename(old)
    try:
        template.generate_project_from_mlf(asked.MLF, folder, _options(asked.project_option))
    except BaseException:
        if replaces:
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def on_project(method: str, asked: Asked) -> None:
    """Carry out `tvmc micro build` or `flash`, as the project's method is called."""
    project = GeneratedProject.from_directory(asked.PROJECT_DIR, _options(asked.project_option))
    info = project.info()
    if asked.TEMPLATE not in (info["platform_name"], _OTHER):
        raise TVMCException(f"{asked.PROJECT_DIR} is a project of {info['platform_name']}, not of "
                            f"{asked.TEMPLATE}")  # fmt: skip
    if not _listed(asked, info["project_options"], method):
        getattr(project, method)()


def run_project(
    project_dir: PathLike, inputs: Mapping[str, Any], fill_mode: str = "random",
    options: Sequence[str] = (),
) -> TVMCResult:  # fmt: skip
    """Run the model of a project that was built, on its board. options: "NAME=VALUE" of its
    template. Raises SmeltError."""
    project = GeneratedProject.from_directory(project_dir, _options(options))
    with Session(project.transport()) as session:
        known = [TensorInfo(t.name, t.dtype, t.shape) for t in session.inputs]
        feeds = make_inputs(known, inputs, fill_mode)
        found = session.run(*[feeds[t.name] for t in session.inputs])
    return TVMCResult({f"output_{n}": a for n, a in enumerate(found)})


def _template(asked: Asked) -> str:
    if (asked.TEMPLATE == _OTHER) != (asked.template_dir is not None):
        raise TVMCException(f"--template-dir belongs to {_OTHER}: give both, or neither")
    return str(asked.template_dir or asked.TEMPLATE)


def _options(pairs: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, there, value = pair.partition("=")
        if not there:
            raise TVMCException(f"--project-option {pair}: legal: NAME=VALUE, board=mps2-an386")
        found[name] = value
    return found


def _listed(asked: Asked, options: Sequence[ProjectOption], method: str) -> bool:
    """Print the options of a method where that is asked for; whether it was."""
    if not asked.list_options:
        return False
    for o in options:
        if method in (*o.required, *o.optional):
            default = "" if o.default in (None, "") else f" ({o.default})"
            choices = f" {{{', '.join(o.choices)}}}" if o.choices else ""
            print(f"{o.name}={o.type}{default}: {o.help}{choices}")
    return True
