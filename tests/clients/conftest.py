"""The server of the S3 tests, and Spark."""

import pytest

from tests.clients.spark import Spark, installed_spark
from tests.s3.conftest import endpoint, repo

__all__ = ["endpoint", "repo"]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Spark:
    return installed_spark(tmp_path_factory.mktemp("spark"))
