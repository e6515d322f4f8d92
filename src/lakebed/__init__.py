"""Lakebed: Git for data lakes.

`lakebed.Client` is the Python client. It is loaded when it is asked for: whoever imports
any other part of Lakebed does not wait for an HTTP library. `__init__.pyi` tells type
checkers what is here.
"""

from importlib import import_module
from typing import Any

__all__ = ["Client"]


def __getattr__(name: str) -> Any:
    if name == "Client":
        return import_module("lakebed.client.client").Client
    raise AttributeError(f"module 'lakebed' has no attribute {name!r}")
