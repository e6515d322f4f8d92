"""Structured logging: one event a line, with fields, never a secret.

Library code calls `get_logger` and logs events (`log.info("layer_flushed",
rows=n)`); only a process's main function calls `configure`.
"""

import logging
import re
import sys
from typing import Any, cast

import msgspec
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

_SECRET_FIELDS = frozenset({"secret", "password", "secret_access_key", "authorization", "token_secret"})

# What needs no quotes. Whatever has a line break or a space in it does: a line is one event.
_PLAIN = re.compile(r"[!-~]+", re.ASCII)


def get_logger(name: str) -> FilteringBoundLogger:
    """Return the logger of the module called `name`."""
    return cast("FilteringBoundLogger", structlog.get_logger(module=name))


def configure(*, level: int = logging.INFO, json: bool = False) -> None:
    """Send log lines of `level` and above to standard error, for people or as JSON."""
    renderer: Any = _plain_line
    if json:
        renderer = structlog.processors.JSONRenderer(serializer=_json)
    elif sys.stderr.isatty():
        renderer = structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            hide_secrets,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Blank the fields that must never reach a log, whoever passed them."""
    for field in _SECRET_FIELDS & event.keys():
        event[field] = "***"
    return event


def _plain_line(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """Return an event as text for a file: a fraction of what it costs to make it pretty for a terminal."""
    head = f"{event.pop('timestamp')} [{event.pop('level')}] {event.pop('event')}"
    return head + "".join([f" {name}={_value(value)}" for name, value in event.items()])


def _value(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else repr(text)


def _json(event: EventDict, **_options: object) -> str:
    return msgspec.json.encode(event, enc_hook=repr).decode()
