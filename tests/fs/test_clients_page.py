"""docs/clients.md and docs/compatibility.md: examples that need no more than the tests have, versions, and tests that are named."""

import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from lakebed.testing.server_process import ServerProcess, running_server
from tests.clients.page import CLIENTS, ROOT, Section, sections

COMPATIBILITY = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
SMALL = [section for section in [*sections(), *sections(COMPATIBILITY)] if not section.is_large]
ROWS = re.findall(r"^\| \[([^\]]+)\]\(#([^)]+)\) \| ([^|]+) \|", CLIENTS, re.MULTILINE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """What `make run` starts."""
    with running_server(tmp_path_factory.mktemp("clients"), flags=["--sample"]) as running:
        yield running


@pytest.mark.server
@pytest.mark.parametrize("section", SMALL, ids=[section.title for section in SMALL])
def test_an_example_does_what_it_says(section: Section, server: ServerProcess, tmp_path: Path) -> None:
    section.run(server, tmp_path)


def test_every_section_with_an_example_is_a_row_of_the_table() -> None:
    assert [title for title, _, _ in ROWS] == [section.title for section in sections()]
    for title, link, _ in ROWS:
        assert link == re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize("section", sections(), ids=[section.title for section in sections()])
def test_the_table_names_the_versions_that_are_tested(section: Section) -> None:
    (told,) = [versions for title, _, versions in ROWS if title == section.title]
    pinned = dict(re.findall(r"([a-z-]+)(?:\[[a-z,-]+\])?==([0-9.]+)", section.requirements))
    texts = "".join(text for _, text in section.blocks)
    maven = dict(re.findall(r"<artifactId>([a-z-]+)</artifactId>\s*<version>([0-9]+\.[0-9.]+)<", texts))
    named = dict(re.findall(r"([a-z-]+) ([0-9][0-9.]*[0-9])", told))
    assert named
    assert named == ({**pinned, **maven} or {name: version(name) for name in named})


def test_the_tests_that_the_page_of_compatibility_names_exist() -> None:
    named = re.findall(r"`(tests/[^`]+)`", COMPATIBILITY)
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []
