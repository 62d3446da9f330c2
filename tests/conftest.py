"""Every run of the tests sees the same random examples, so that a red run can be repeated.

`pytest --hypothesis-seed=N`, or HYPOTHESIS_PROFILE=search, looks for new ones.
"""

from __future__ import annotations

import os
import signal

from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun in the background by a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
