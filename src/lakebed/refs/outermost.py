"""The outermost handler of work that nobody waits for: what goes wrong is logged, and the caller continues.

The only place that catches every exception. Errors of ours, and time-outs, are expected: they are warnings. Anything else is a
bug. The event loop's exception handler hears of it too, which prints the traceback in a server and fails a simulation.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from lakebed.errors import LakebedError
from lakebed.telemetry.log import get_logger

log = get_logger(__name__)


@dataclass(slots=True)
class Outcome:
    """How the block ended; look at it after the block."""

    failed: bool = False


@asynccontextmanager
async def logged(event: str, **fields: Any) -> AsyncIterator[Outcome]:
    """Run a block, and log the exception if it raises one. A cancellation passes."""
    outcome = Outcome()
    try:
        yield outcome
    except LakebedError as error:
        outcome.failed = True
        log.warning(event, kind=error.kind, error=str(error), **fields)
    except TimeoutError:
        outcome.failed = True
        log.warning(event, kind="timeout", error="no answer in time: tried again later", **fields)
    except Exception as error:  # noqa: BLE001  see above
        outcome.failed = True
        log.error(event, kind="bug", error=repr(error), **fields)  # noqa: TRY400  the handler prints the traceback
        asyncio.get_running_loop().call_exception_handler({"message": event, "exception": error})
