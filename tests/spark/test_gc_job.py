"""Garbage collection from end to end: the command, a server process, a namespace in a folder or on S3, both engines.

Every kind of garbage goes, and nothing else does.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lakebed.objects.settings import StoreSettings
from lakebed.spark.gc.command import app
from lakebed.testing.s3_server import make_bucket
from lakebed.testing.server_process import running_server
from tests.server.http import Http
from tests.spark.conftest import CLUSTER, LOCAL, on
from tests.spark.gc_runs import POLARS, SPARK, TRIAL, check, client_of, collect, serving
from tests.spark.gc_site import REPO, Site

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]

GC_ACTIONS = [
    "retention:RunGarbageCollection",
    "retention:PrepareGarbageCollectionCommits",
    "retention:PrepareGarbageCollectionUncommitted",
]


def test_every_kind_of_garbage_goes_and_nothing_else(site: Site) -> None:
    with serving(site) as server:
        looked = collect(server, *POLARS)
        assert looked["marked_objects"]["objects"] == len(site.garbage)
        assert site.garbage <= site.stored(), "without --yes nothing is deleted"
        collect(server, *POLARS, "--mode", "mark")
        options = [*TRIAL, *POLARS, "--mode", "sweep"]
        swept = CliRunner().invoke(app, options, env=server.client_environment, catch_exceptions=False)
        assert "nothing was deleted" in swept.stdout
        assert site.garbage <= site.stored()

        done = collect(server, *POLARS, "--yes")

        assert done["deleted"]["objects"] >= len(site.garbage)
        check(site, server)
        again = collect(server, *POLARS, "--clean", "--yes")
        assert again["marked_objects"]["objects"] == 0
        check(site, server)


@on(CLUSTER)
def test_the_same_on_spark(spark: SparkSession, site: Site) -> None:
    with serving(site) as server:
        done = collect(server, *SPARK, "--yes")

        assert done["engine"] == "spark"
        assert done["marked_objects"]["objects"] == len(site.garbage)
        check(site, server)
    assert spark.range(3).count() == 3, "a session of somebody else's goes on"


@on(LOCAL)
@pytest.mark.usefixtures("spark")
def test_a_key_with_the_permission_for_it_alone_is_enough(site: Site) -> None:
    with serving(site) as server:
        http = Http(server)
        statement = {
            "effect": "allow",
            "action": GC_ACTIONS,
            "resource": f"arn:lakefs:fs:::repository/{REPO}",
        }
        asked = [
            ("POST", "/auth/users", {"id": "collector"}),
            ("POST", "/auth/policies", {"id": "Collect", "statement": [statement]}),
            ("PUT", "/auth/users/collector/policies/Collect", None),
        ]
        for method, path, body in asked:
            assert http(method, path, body=body)[0] == 201
        status, key = http("POST", "/auth/users/collector/credentials")
        assert status == 201
        own = {
            "LAKEBED_ACCESS_KEY_ID": key["access_key_id"],
            "LAKEBED_SECRET_ACCESS_KEY": key["secret_access_key"],
        }

        done = collect(server, "--yes", **own)

        # It may not see how large the repository was before, and takes the engine for any size.
        assert done["engine"] == "spark"
        check(site, server)


@on(LOCAL)
@pytest.mark.usefixtures("spark")
def test_a_namespace_on_s3_is_collected_by_executors(s3: StoreSettings, tmp_path: Path) -> None:
    variables = {
        "LAKEBED_STORAGE_S3_ENDPOINT": s3.s3_endpoint or "",
        "LAKEBED_STORAGE_S3_ACCESS_KEY_ID": s3.s3_access_key_id or "",
        "LAKEBED_STORAGE_S3_SECRET_ACCESS_KEY": s3.s3_secret_access_key or "",
    }
    with running_server(tmp_path, environment=variables) as server, client_of(server) as client:
        repo = client.repo(REPO)
        repo.create("s3://collected/shop")
        main = repo.branch("main")
        for number in range(9):
            main.write(f"o{number}", "content")
        for number in range(0, 9, 3):
            main.delete_object(f"o{number}")
        main.commit("two thirds")

        done = collect(server, *SPARK, "--yes", **variables)

        assert done["deleted"]["objects"] == 3
        for number in range(9):
            if number % 3:
                assert main.read(f"o{number}") == b"content"


@pytest.fixture(scope="session")
def s3(weed: StoreSettings) -> StoreSettings:
    make_bucket(weed, "collected")
    return weed
