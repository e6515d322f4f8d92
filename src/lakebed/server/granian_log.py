"""What Granian logs, as events like every other: one format for whoever reads the log, be it a program."""

import logging
from typing import Any, Final

from lakebed.telemetry.log import get_logger

_MODULE: Final = "granian"


class EventHandler(logging.Handler):
    """Hands log records on to the structured log."""

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, Any] = {}
        if record.exc_info:
            fields["exception"] = logging.Formatter().formatException(record.exc_info)
        get_logger(_MODULE).log(record.levelno, record.getMessage(), **fields)


GRANIAN_LOG: Final[dict[str, Any]] = {
    "handlers": {"events": {"class": f"{__name__}.{EventHandler.__name__}"}},
    "loggers": {"_granian": {"handlers": ["events"], "propagate": False}},
}
