"""A tracker: `python -m smelt.exec.rpc_tracker --host=0.0.0.0 --port=9190`."""

from functools import partial

from smelt.exec import common
from smelt.rpc.tracker import Tracker


def main() -> None:
    """Serve until Ctrl-C."""
    options = common.parser("Gives servers to programs that ask for them by key.", 9190)
    asked = options.parse_args()
    common.serve("rpc_tracker", "tracker", asked.host, lambda: Tracker(
        asked.host, asked.port, asked.port_end, security=common.security(asked),
        say=partial(common.say, asked),
    ))  # fmt: skip


if __name__ == "__main__":
    main()
