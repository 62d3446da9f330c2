"""What a tracker knows: `python -m smelt.exec.query_rpc_tracker --host=HOST --port=9190`."""

import argparse
import os
import sys

from smelt.rpc import RPCError, connect_tracker


def main() -> None:
    """Print the servers, and who waits."""
    options = argparse.ArgumentParser(description="Prints which servers a tracker knows.")
    options.add_argument("--host", default=os.environ.get("TVM_TRACKER_HOST", "127.0.0.1"))
    options.add_argument(
        "--port", type=int, default=int(os.environ.get("TVM_TRACKER_PORT", "9190"))
    )
    asked = options.parse_args()
    try:
        tracker = connect_tracker(asked.host, asked.port)
        print(f"Tracker address {asked.host}:{asked.port}\n")
        print(tracker.text_summary())
    except RPCError as e:
        sys.exit(f"query_rpc_tracker: {e}")


if __name__ == "__main__":
    main()
