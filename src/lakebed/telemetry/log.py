"""Structured logging: one event a line, with fields, never a secret.

Library code calls `get_logger` and logs events (`log.info("layer_flushed",
rows=n)`); only a process's main function calls `configure`.
"""

import logging
import sys
from typing import Any, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

_SECRET_FIELDS = frozenset({"secret", "password", "secret_access_key", "authorization", "token_secret"})


def get_logger(name: str) -> FilteringBoundLogger:
    """Return the logger of the module called `name`."""
    return cast("FilteringBoundLogger", structlog.get_logger(module=name))


def configure(*, level: int = logging.INFO, json: bool = False) -> None:
    """Send log lines of `level` and above to standard error, for people or as JSON."""
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            hide_secrets,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Blank the fields that must never reach a log, whoever passed them."""
    for field in _SECRET_FIELDS & event.keys():
        event[field] = "***"
    return event
