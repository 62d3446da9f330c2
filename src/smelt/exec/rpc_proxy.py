"""A proxy: `python -m smelt.exec.rpc_proxy --host=0.0.0.0 --port=9090 --tracker=HOST:9190`."""

from functools import partial

from smelt.exec import common
from smelt.rpc.proxy import Proxy


def main() -> None:
    """Serve until Ctrl-C."""
    options = common.parser("Connects programs with servers that they cannot reach.", 9090)
    common.add_tracker(options, "this tracker gives the servers that are here")
    options.add_argument(
        "--timeout",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="how long programs wait where there is no server of their key (%(default)g)",
    )
    asked = options.parse_args()
    common.serve("rpc_proxy", "proxy", asked.host, lambda: Proxy(
        asked.host, asked.port, asked.port_end, timeout=asked.timeout, tracker_addr=asked.tracker,
        custom_addr=asked.custom_addr, security=common.security(asked),
        say=partial(common.say, asked),
    ))  # fmt: skip


if __name__ == "__main__":
    main()
