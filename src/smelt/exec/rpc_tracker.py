"""A tracker: `python -m smelt.exec.rpc_tracker --host=0.0.0.0 --port=9190`."""

import sys
from functools import partial

from smelt.exec import common
from smelt.rpc.tracker import Tracker
from smelt.rpc.wire import RPCError


def main() -> None:
    """Serve until Ctrl-C."""
    options = common.parser("Gives servers to programs that ask for them by key.")
    options.add_argument("--port", type=int, default=9190, help="the first port (%(default)s)")
    options.add_argument("--port-end", type=int, default=9199, help="the last one (%(default)s)")
    asked = options.parse_args()
    try:
        tracker = Tracker(asked.host, asked.port, asked.port_end, security=common.security(asked),
                          say=partial(common.say, asked))  # fmt: skip
    except RPCError as e:
        sys.exit(f"rpc_tracker: {e}")
    print(f"the tracker is at {asked.host}:{tracker.port}", flush=True)
    try:
        tracker.wait()
    except KeyboardInterrupt:
        tracker.terminate()


if __name__ == "__main__":
    main()
