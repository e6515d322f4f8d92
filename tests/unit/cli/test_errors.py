"""What commands say when something goes wrong."""

import pytest

from lakebed.cli.errors import show
from lakebed.errors import ErrorKind, UnavailableError


def test_a_database_that_cannot_be_reached_is_not_taken_for_a_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(UnavailableError(ErrorKind.STORE_UNAVAILABLE, "PostgreSQL cannot be reached: connection refused"))
    said = capsys.readouterr().err
    assert "next:  check that it runs, and its address" in said
