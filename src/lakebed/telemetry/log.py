"""Structured logging: one event a line, with fields, never a secret.

Library code calls `get_logger` and logs events (`log.info("layer_flushed",
rows=n)`); only a process's main function calls `configure`. Every request that changes
something is logged, so there is a short way for that (`info`): the usual one cost a
fifth of the write itself.
"""

import logging
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

_SECRET_FIELDS = frozenset({"secret", "password", "secret_access_key", "authorization", "token_secret"})
# What needs no quotes. Whatever has a line break or a space in it does: a line is one event.
_PLAIN = re.compile(r"[!-~]+", re.ASCII)


def get_logger(name: str) -> FilteringBoundLogger:
    """Return the logger of the module called `name`."""
    return cast("FilteringBoundLogger", structlog.get_logger(module=name))


def info(module: str, event: str, fields: EventDict) -> None:
    """Log an event as `get_logger(module).info` would; `fields` are the function's from now on."""
    if _lines is None:
        get_logger(module).info(event, **fields)
    elif _lines.level <= logging.INFO:
        _lines.write(_lines.render(None, "info", {"module": module, **fields, "event": event}) + "\n")


def configure(*, level: int = logging.INFO, json: bool = False) -> None:
    """Send log lines of `level` and above to standard error, for people or as JSON."""
    global _lines  # noqa: PLW0603  a process has one log, as structlog has one configuration
    if not json and sys.stderr.isatty():
        stamp: Any = structlog.processors.TimeStamper(fmt="iso", utc=True)
        steps = [structlog.processors.add_log_level, stamp, hide_secrets, structlog.dev.ConsoleRenderer()]
        _lines = None
    else:
        render = _line(_json_text if json else _plain_text)
        steps = [render]
        _lines = _Lines(level, render, _flushed(sys.stderr))
    structlog.configure(
        processors=steps,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Blank the fields that must never reach a log, whoever passed them."""
    if not _SECRET_FIELDS.isdisjoint(event):
        for field in _SECRET_FIELDS & event.keys():
            event[field] = "***"
    return event


@dataclass(frozen=True, slots=True)
class _Lines:
    """How lines are made and where they go, if not to a terminal."""

    level: int
    render: Any
    write: Callable[[str], None]


_lines: _Lines | None = None


def _flushed(stream: TextIO) -> Callable[[str], None]:
    def write(line: str) -> None:
        stream.write(line)
        stream.flush()

    return write


def _line(text: Callable[[str, str, EventDict], str]) -> Any:
    """Return the one step that makes a line of an event."""

    def render(logger: WrappedLogger, method: str, event: EventDict) -> str:
        now = datetime.now(UTC).isoformat(timespec="microseconds")  # noqa: TID251  a log tells the process's time
        return text(f"{now[:-6]}Z", method, hide_secrets(logger, method, event))

    return render


def _plain_text(timestamp: str, level: str, event: EventDict) -> str:
    fields = [f" {name}={_value(value)}" for name, value in event.items() if name != "event"]
    return f"{timestamp} [{level}] {event['event']}{''.join(fields)}"


def _value(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else repr(text)


def _json_text(timestamp: str, level: str, event: EventDict) -> str:
    return msgspec.json.encode({"timestamp": timestamp, "level": level, **event}, enc_hook=repr).decode()
