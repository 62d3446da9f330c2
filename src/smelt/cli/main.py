"""`smelt`: the commands and what every one of them has in common."""

import importlib.metadata
import sys
from typing import Annotated

import typer

from smelt.cli import demo, machine, models
from smelt.cli.console import complain
from smelt.ir.errors import InternalError
from smelt.runtime.errors import SmeltError

USER_ERROR = 2
INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # 128 + SIGINT, as a shell says it

app = typer.Typer(
    name="smelt",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"smelt {importlib.metadata.version('smelt')}")
        raise typer.Exit


@app.callback()
def smelt(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Compile trained models to fast native code."""


app.command("compile")(models.compile_model)
app.command()(models.run)
app.command()(models.check)
app.command()(models.bench)
app.command()(models.profile)
app.command()(models.show)
app.command()(machine.targets)
app.command("demo")(demo.demo)


def main() -> None:
    """Run the command line; a mistake of the user is one message and exit code 2."""
    try:
        app(prog_name="smelt")
    except InternalError as error:
        complain(str(error))
        sys.exit(INTERNAL_ERROR)
    except SmeltError as error:
        complain(str(error))
        sys.exit(USER_ERROR)
    except OSError as error:
        if error.filename is None:
            raise
        complain(f"{error.filename}: {error.strerror}")
        sys.exit(USER_ERROR)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
