"""Relay as users call it: its classes make nodes of other classes, which mypy does not follow."""

from typing import Any

import smelt.relay

relay: Any = smelt.relay
