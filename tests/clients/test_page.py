"""Every example of docs/clients.md that needs large clients runs as it stands."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.testing.server_process import ServerProcess, running_server
from tests.clients.page import Section, sections

LARGE = [section for section in sections() if section.is_large]
# What a section prints where its example does not assert it.
SHOWS = {"Java": "hello\n404\njava/hello.txt 5\nadded java/hello.txt\n"}

pytestmark = [pytest.mark.server, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """What `make run` starts."""
    with running_server(tmp_path_factory.mktemp("clients"), flags=["--sample"]) as running:
        yield running


@pytest.mark.parametrize("section", LARGE, ids=[section.title for section in LARGE])
def test_an_example_does_what_it_says(section: Section, server: ServerProcess, tmp_path: Path) -> None:
    assert SHOWS.get(section.title, "") in section.run(server, tmp_path)
