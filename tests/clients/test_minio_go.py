"""minio-go, with each of its signatures: `go/main.go` uses a repository as an application does."""

from pathlib import Path

import pytest

from tests.clients.programs import go_program, run
from tests.s3.conftest import Endpoint

STEPS = 23

pytestmark = [pytest.mark.server, pytest.mark.timeout(1500)]


@pytest.fixture(scope="session")
def minio_steps() -> Path:
    return go_program(".", "minio-steps")


@pytest.mark.parametrize("signature", ["v2", "v4", "streaming"])
def test_every_step_succeeds(
    minio_steps: Path, endpoint: Endpoint, repo: str, signature: str, tmp_path: Path
) -> None:
    command = [
        str(minio_steps),
        *("-endpoint", endpoint.url.removeprefix("http://")),
        *("-bucket", repo),
        *("-prefix", f"main/minio-go {signature}/"),
        *("-signature", signature),
    ]

    assert run(command, endpoint, tmp_path).count("ok ") == STEPS
