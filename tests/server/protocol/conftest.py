from collections.abc import Iterator

import pytest

from tests.server.protocol.site import Seen, Site, running_site


@pytest.fixture(scope="module")
def served() -> Iterator[Site]:
    with running_site() as site:
        yield site


@pytest.fixture
def site(served: Site) -> Site:
    """A server whose application has seen nothing yet."""
    served.app.seen = served.call(Seen)
    return served
