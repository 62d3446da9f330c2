"""A server: `python -m smelt.exec.rpc_server --tracker=HOST:9190 --key=rpi4 --port=9090`."""

import argparse
from functools import partial

from smelt.exec import common
from smelt.rpc.server import Server


def main() -> None:
    """Serve until Ctrl-C."""
    options = common.parser("Runs libraries that programs on other machines send.", 9090)
    common.add_tracker(options, "belong to this tracker: one session at a time")
    options.add_argument("--key", default="", help="what it is called there, e.g. rpi4")
    options.add_argument(
        "--through-proxy",
        action="store_true",
        help="do not listen: --host and --port are a proxy's, where programs ask for --key",
    )
    options.add_argument(
        "--load-library", metavar="FILE", help="a file that every session finds in its folder"
    )
    options.add_argument("--no-fork", action="store_true", help=argparse.SUPPRESS)
    asked = options.parse_args()
    if (asked.tracker or asked.through_proxy) and not asked.key:
        needs = "--tracker" if asked.tracker else "--through-proxy"
        options.error(f"{needs} needs --key, by which programs ask for this server")
    if asked.through_proxy and (asked.tracker or asked.custom_addr or asked.tls):
        options.error("--tracker, --custom-addr and --tls are the proxy's with --through-proxy")
    what = "proxy of this server" if asked.through_proxy else "server"
    common.serve("rpc_server", what, asked.host, lambda: Server(
        asked.host, asked.port, asked.port_end, asked.through_proxy, key=asked.key,
        tracker_addr=asked.tracker, security=common.security(asked, not asked.through_proxy),
        custom_addr=asked.custom_addr, load_library=asked.load_library,
        say=partial(common.say, asked),
    ))  # fmt: skip


if __name__ == "__main__":
    main()
