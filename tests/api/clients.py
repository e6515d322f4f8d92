"""The official clients, pointed at a server of ours."""

import itertools
from collections.abc import Iterator

import lakefs
import lakefs_sdk
from lakefs.client import Client

from lakebed.testing.server_process import ServerProcess

_numbers = itertools.count()


def high_level(server: ServerProcess) -> Client:
    """Return the client that people use."""
    return Client(host=f"{server.endpoint}/api/v1", username=server.access_key, password=server.secret_key)


def low_level(
    server: ServerProcess, *, access_key: str | None = None, secret: str | None = None
) -> lakefs_sdk.ApiClient:
    """Return the generated client, as the quickstart's user or somebody else."""
    return lakefs_sdk.ApiClient(
        lakefs_sdk.Configuration(
            host=f"{server.endpoint}/api/v1",
            username=access_key or server.access_key,
            password=secret or server.secret_key,
        )
    )


def fresh_name(stem: str) -> str:
    """Return a name that no other test has."""
    return f"{stem}-{next(_numbers)}"


def fresh_repository(server: ServerProcess, stem: str = "repo") -> Iterator[lakefs.Repository]:
    """Yield an empty repository, and delete it."""
    name = fresh_name(stem)
    repo = lakefs.Repository(name, client=high_level(server)).create(f"local://{name}")
    yield repo
    repo.delete()
