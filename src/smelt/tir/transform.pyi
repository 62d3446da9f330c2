from typing import Any

from smelt.transform.tir import *  # noqa: F403
from smelt.transform.tir import __all__ as __all__

def __getattr__(name: str) -> Any: ...
