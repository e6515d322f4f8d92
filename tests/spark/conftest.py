"""One Spark at a time: tests say on which master they run, and those of one master share a session."""

import asyncio
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakebed.spark.session import open_session
from tests.spark.gc_runs import QUICK_JAVA
from tests.spark.gc_site import Site, make_site

LOCAL = "local[2]"
CLUSTER = "local-cluster[2,1,1024]"
"""Two executors with a core each: what they run was really shipped to them, since their Python has another lakebed."""

# Tests hold a few rows, and end before a better compiler would have paid.
_SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
}
# What is installed here in site-packages, without what is installed as links: so without this lakebed.
_PYTHON = """#!/bin/sh
PYTHONPATH="$PYTHONPATH:{packages}:{other}" exec {python} -S "$@"
"""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Keep tests with Spark in one process of the run, those of a master together: another would start another Spark."""
    # Before all others: xdist reads the mark in the same hook.
    for item in items:
        if _uses_spark(item):
            item.add_marker(pytest.mark.xdist_group("spark"))
    yield
    places = [at for at, item in enumerate(items) if _uses_spark(item)]
    for at, item in zip(places, sorted((items[at] for at in places), key=_master_of), strict=True):
        items[at] = item


def _uses_spark(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and "spark" in item.fixturenames


def _master_of(item: pytest.Item) -> str:
    assert isinstance(item, pytest.Function)
    return str(item.callspec.params["spark"])


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Use as `@on(LOCAL)` or `@on(CLUSTER)`; pytest keeps tests of one master together."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            if request.param == CLUSTER:
                patch.setenv("PYSPARK_PYTHON", str(_other_python(tmp_path_factory.mktemp("python"))))
            # Executors that tests kill leave files there.
            java = f"{QUICK_JAVA} -Djava.io.tmpdir={tmp_path_factory.mktemp('executors')}"
            conf = {**_SMALL, "spark.executor.extraJavaOptions": java}
            session = stack.enter_context(open_session("tests", master=request.param, conf=conf))
        yield session


def _other_python(folder: Path) -> Path:
    """Return a Python with everything that lakebed needs, and another lakebed, in which nothing is."""
    (folder / "other" / "lakebed").mkdir(parents=True)
    (folder / "other" / "lakebed" / "__init__.py").touch()
    program = folder / "python"
    program.write_text(
        _PYTHON.format(packages=sysconfig.get_path("purelib"), other=folder / "other", python=sys.executable)
    )
    program.chmod(0o755)
    return program


@pytest.fixture(scope="session")
def made_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A repository with every kind of garbage, for copies of it to be collected."""
    return asyncio.run(make_site(tmp_path_factory.mktemp("made") / "site"))


@pytest.fixture
def site(made_site: Site, tmp_path: Path) -> Site:
    return made_site.copied_to(tmp_path / "site")


def on(*masters: str) -> pytest.MarkDecorator:
    """Run a test that takes `spark` on these masters."""
    return pytest.mark.parametrize("spark", masters, indirect=True, scope="session")
