"""`Client`: where everything begins; the rest is handles that it gives out."""

from collections.abc import Iterator
from typing import Self

from lakebed.client.adoption import Adoption
from lakebed.client.auth import Auth
from lakebed.client.config import ClientConfig, load_config
from lakebed.client.replies import AdoptionStarted, RefsManifest, RepositoryInfo, ServerInfo, StorageUse
from lakebed.client.repo import Repo
from lakebed.client.transport import Transport, decode
from lakebed.limits import CLIENT_HEAD_TIMEOUT_SECONDS


class Client:
    """A connection to a server, as one user. Safe to share between threads."""

    def __init__(
        self,
        endpoint: str | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        *,
        transport: Transport | None = None,
    ) -> None:
        """Connect to what the arguments, the environment or lakectl's file name; see `load_config`."""
        self._transport = transport or Transport(load_config(endpoint, access_key_id, secret_access_key))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.config.endpoint!r})"

    @property
    def config(self) -> ClientConfig:
        """What this client connects to."""
        return self._transport.config

    @property
    def auth(self) -> Auth:
        """Users, groups, policies and access keys."""
        return Auth(self._transport)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def server(self) -> ServerInfo:
        """Return what the server says about itself."""
        return self._transport.get(ServerInfo, "config")

    def is_alive(self) -> bool:
        """Return whether a server answers at all; asks once and needs no key."""
        return self._transport.is_alive()

    def repositories(self, *, prefix: str = "", limit: int | None = None) -> Iterator[RepositoryInfo]:
        """Yield the repositories that the user may see."""
        return self._transport.pages(
            RepositoryInfo, "repositories", query={"prefix": prefix or None}, limit=limit
        )

    def purge(self, storage_namespace: str, *, dry_run: bool = False) -> StorageUse:
        """Delete what a repository that was deleted without its data has left in a namespace, and return how much."""
        body = {"storage_namespace": storage_namespace, "dry_run": dry_run}
        answer = self._transport.post(
            "storage", "purge", body=body, timeout_seconds=CLIENT_HEAD_TIMEOUT_SECONDS
        )
        return decode(answer, StorageUse)

    def adopt(
        self,
        storage_namespace: str,
        *,
        name: str = "",
        dump: str = "",
        manifest: RefsManifest | None = None,
    ) -> Adoption:
        """Begin to adopt a namespace whose database is lost. Started again after a failure, it goes on.

        Without a `name` the repository gets its old one. `dump` names an automatic dump, `manifest` one that was asked
        for; without either the newest is restored.
        """
        body = {"storage_namespace": storage_namespace, "name": name, "dump": dump, "manifest": manifest}
        answer = self._transport.post(
            "storage", "adopt", body=body, timeout_seconds=CLIENT_HEAD_TIMEOUT_SECONDS
        )
        started = decode(answer, AdoptionStarted)
        return Adoption(self._transport, started.repository, started.id)

    def repo(self, name: str) -> Repo:
        """Return a handle for a repository."""
        return Repo(self._transport, name)
