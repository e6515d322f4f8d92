"""One Spark at a time: tests say on which master they run, and those of one master share a session."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakebed.spark.session import open_session

LOCAL = "local[2]"
CLUSTER = "local-cluster[2,1,1024]"
"""Two executors with a core each: what they run was really shipped to them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests with Spark in one process of the run: another would start another Spark."""
    for item in items:
        if "spark" in item.nodeid.split("/"):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """Use as `@on(LOCAL)` or `@on(CLUSTER)`; pytest keeps tests of one master together."""
    with open_session("tests", master=request.param) as session:
        yield session


def on(*masters: str) -> pytest.MarkDecorator:
    """Run a test that takes `spark` on these masters."""
    return pytest.mark.parametrize("spark", masters, indirect=True, scope="session")
