"""Where a worker process begins: Granian imports this module and calls `create_app`.

The supervisor leaves the configuration in the environment, because that is all that
a new process gets from it.
"""

import os

from lakebed.server.asgi import WorkerApp
from lakebed.server.config import decode_config

CONFIG_VARIABLE = "LAKEBED_WORKER_CONFIG"


def create_app() -> WorkerApp:
    """Return the application of this process."""
    return WorkerApp(decode_config(os.environ[CONFIG_VARIABLE]))  # noqa: TID251  the configuration of a process
