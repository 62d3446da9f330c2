"""A server: `python -m smelt.exec.rpc_server --tracker=HOST:9190 --key=rpi4 --port=9090`."""

import argparse
from functools import partial

from smelt.exec import common
from smelt.rpc.server import Server


def main() -> None:
    """Serve until Ctrl-C."""
    options = common.parser("Runs libraries that programs on other machines send.")
    options.add_argument("--port", type=int, default=9090, help="the first port (%(default)s)")
    options.add_argument("--port-end", type=int, default=9199, help="the last one (%(default)s)")
    options.add_argument(
        "--tracker",
        type=common.place,
        metavar="HOST:PORT",
        help="belong to this tracker: one session at a time",
    )
    options.add_argument("--key", default="", help="what it is called there, e.g. rpi4")
    options.add_argument(
        "--custom-addr",
        metavar="HOST",
        help="the address that the tracker tells, where it is another one",
    )
    options.add_argument(
        "--load-library", metavar="FILE", help="a file that every session finds in its folder"
    )
    options.add_argument("--no-fork", action="store_true", help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.tracker and not asked.key:
        options.error("--tracker needs --key, by which programs ask for this server")
    common.serve("rpc_server", "server", asked.host, lambda: Server(
        asked.host, asked.port, asked.port_end, key=asked.key, tracker_addr=asked.tracker,
        security=common.security(asked), custom_addr=asked.custom_addr,
        load_library=asked.load_library, say=partial(common.say, asked),
    ))  # fmt: skip


if __name__ == "__main__":
    main()
