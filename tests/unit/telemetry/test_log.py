"""A line is one event, and never tells a secret."""

from collections.abc import Iterator

import pytest
import structlog

from lakebed.telemetry.log import configure, get_logger


@pytest.fixture(autouse=True)
def _unconfigured() -> Iterator[None]:
    yield
    structlog.reset_defaults()


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
