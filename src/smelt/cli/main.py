"""`smelt`: the way in. It imports next to nothing, so that Ctrl-C is quiet from the start on."""

import importlib
import os
import signal
import sys

from smelt.interrupts import keep_interrupts

INTERRUPTED = 130  # 128 + SIGINT, as a shell says it


def main(commands: str = "smelt.cli.commands") -> None:
    """Run a command line, the function `run` of a module: until a command has begun, Ctrl-C ends
    the process at once."""
    keep_interrupts()
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    try:
        importlib.import_module(commands).run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        signal.signal(signal.SIGINT, before)


if __name__ == "__main__":
    main()
