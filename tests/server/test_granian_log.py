"""What Granian logs becomes events of ours."""

import logging
import logging.config
import sys

from structlog.testing import capture_logs

from lakebed.server.granian_log import GRANIAN_LOG, EventHandler


def test_a_record_becomes_an_event_with_its_level_and_its_exception() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        record = logging.makeLogRecord(
            {
                "msg": "worker-%d ended",
                "args": (1,),
                "levelno": logging.ERROR,
                "levelname": "ERROR",
                "exc_info": sys.exc_info(),
            }
        )
    with capture_logs() as seen:
        EventHandler().emit(record)
    (event,) = seen
    assert (event["event"], event["log_level"], event["module"]) == ("worker-1 ended", "error", "granian")
    assert event["exception"].endswith("ValueError: why")


def test_the_handler_is_found_by_its_name() -> None:
    found = logging.config.DictConfigurator({}).resolve(GRANIAN_LOG["handlers"]["events"]["class"])
    assert found is EventHandler
