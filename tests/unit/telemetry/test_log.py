"""A line is one event, and never tells a secret."""

import logging
from collections.abc import Iterator

import pytest
import structlog

from lakebed.telemetry import log
from lakebed.telemetry.log import configure, get_logger, info


@pytest.fixture(autouse=True)
def _unconfigured() -> Iterator[None]:
    yield
    structlog.reset_defaults()
    log._lines = None


@pytest.mark.parametrize("json", [False, True])
def test_a_line_break_in_a_field_stays_in_its_line_and_secrets_stay_out(
    json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(json=json)
    get_logger("module").info("event", path="a b\nc", secret="hidden", plain="value", number=3)

    lines = capsys.readouterr().err.splitlines()

    assert len(lines) == 1
    assert "hidden" not in lines[0]
    assert r"a b\nc" in lines[0]
    assert ('"number":3' if json else "number=3") in lines[0]


@pytest.mark.parametrize("json", [False, True])
def test_the_short_way_says_what_the_usual_one_says(json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    configure(json=json)
    fields = {"path": "a b\nc", "password": "hidden", "plain": "value"}

    get_logger("module").info("event", **fields)
    info("module", "event", dict(fields))

    usual, short = capsys.readouterr().err.splitlines()
    time_ends = usual.index("Z") + 1
    assert short[time_ends:] == usual[time_ends:]
    assert "hidden" not in short


def test_the_short_way_heeds_the_level(capsys: pytest.CaptureFixture[str]) -> None:
    configure(level=logging.WARNING)

    info("module", "event", {})

    assert capsys.readouterr().err == ""
