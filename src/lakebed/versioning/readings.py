"""What a reader of a ref sees, without working it out for every read.

A read begins with two records, the repository's and the branch's, and nearly always
finds both as the last reader of that ref left them. The KV is asked each time, for both
at once; as long as neither version has changed, what followed from them still holds.
"""

import msgspec

from lakebed.kv.port import KVStore, Version
from lakebed.limits import DECODED_RECORDS_MAX
from lakebed.model.ids import is_commit_id, parse_repo_name
from lakebed.model.repository import Repository
from lakebed.refs.keys import REPOSITORIES_PARTITION, branch_key, repo_key
from lakebed.refs.repositories import Repositories
from lakebed.refs.resolve import ResolvedRef, Resolver
from lakebed.versioning.view import Source, View


class Reading(msgspec.Struct, frozen=True):
    """A live repository and what one of its refs shows."""

    repo: Repository
    source: Source


class _Known(msgspec.Struct, frozen=True):
    lookups: tuple[tuple[str, bytes], tuple[str, bytes]]
    versions: tuple[Version, Version]
    reading: Reading


class Readings:
    """Finds what refs show."""

    def __init__(self, kv: KVStore, *, repositories: Repositories, resolver: Resolver, view: View) -> None:
        self._kv = kv
        self._repositories = repositories
        self._resolver = resolver
        self._view = view
        self._known: dict[tuple[str, str], _Known] = {}

    async def find(self, repo_name: str, ref: str) -> Reading:
        """Return what a reader of `ref` sees.

        Raises:
            NotFoundError: no such repository, or no such ref.
            InvalidInputError: `INVALID_REPO_NAME`; errors of the ref as for `Resolver.resolve`.
        """
        known = self._known.get((repo_name, ref))
        if known is not None:
            repo_item, ref_item = await self._kv.get_many(known.lookups)
            if (
                repo_item is not None
                and ref_item is not None
                and (repo_item.version, ref_item.version) == known.versions
            ):
                return known.reading
        return await self._learn(repo_name, ref)

    async def _learn(self, repo_name: str, ref: str) -> Reading:
        name = parse_repo_name(repo_name)
        found = await self._repositories.get_versioned(name)
        repo = found.value
        resolved = await self._resolver.resolve(repo, ref)
        reading = Reading(repo, await self._view.of(repo, resolved))
        if resolved.record is not None and not is_commit_id(resolved.record.value.name):
            if len(self._known) >= DECODED_RECORDS_MAX:
                self._known.clear()
            self._known[repo_name, ref] = _known(repo, resolved, reading, found.version)
        return reading


def _known(repo: Repository, resolved: ResolvedRef, reading: Reading, version: Version) -> _Known:
    assert resolved.record is not None
    return _Known(
        (
            (REPOSITORIES_PARTITION, repo_key(repo.name)),
            (repo.partition, branch_key(resolved.record.value.name)),
        ),
        (version, resolved.record.version),
        reading,
    )
