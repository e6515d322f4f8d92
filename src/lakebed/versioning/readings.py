"""What a reader of a ref sees, without working it out for every read.

A read begins with two records, the repository's and the branch's, and nearly always
finds both as the last reader of that ref left them. The KV is asked each time, for both
at once; as long as neither version has changed, what followed from them still holds.

Which refs are read is remembered for those who look ahead (`ahead`): a mark, since it is set by every read.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from lakebed.errors import LakebedError
from lakebed.kv.port import Item, KVStore, Version
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


Ref: TypeAlias = tuple[str, str]
"""A repository's name, and a ref as it was asked for."""


class _Known(msgspec.Struct):
    lookups: tuple[tuple[str, bytes], tuple[str, bytes]]
    versions: tuple[Version, Version]
    reading: Reading
    is_used: bool = False

    def holds(self, repo_item: Item | None, ref_item: Item | None) -> bool:
        return (
            repo_item is not None
            and ref_item is not None
            and (repo_item.version, ref_item.version) == self.versions
        )


class Readings:
    """Finds what refs show."""

    def __init__(self, kv: KVStore, *, repositories: Repositories, resolver: Resolver, view: View) -> None:
        self._kv = kv
        self._repositories = repositories
        self._resolver = resolver
        self._view = view
        self._known: dict[Ref, _Known] = {}

    async def find(self, repo_name: str, ref: str) -> Reading:
        """Return what a reader of `ref` sees.

        Raises:
            NotFoundError: no such repository, or no such ref.
            InvalidInputError: `INVALID_REPO_NAME`; errors of the ref as for `Resolver.resolve`.
        """
        known = self._known.get((repo_name, ref))
        if known is not None:
            known.is_used = True
            if known.holds(*await self._kv.get_many(known.lookups)):
                return known.reading
        return await self._learn(repo_name, ref, is_used=True)

    def take_used(self) -> list[Ref]:
        """Return the refs that were read since this was last asked."""
        used = [ref for ref, known in self._known.items() if known.is_used]
        for ref in used:
            self._known[ref].is_used = False
        return used

    async def current(self, refs: Sequence[Ref]) -> dict[Ref, Reading]:
        """Return what refs show that were read before; those that cannot be told now are left out."""
        known = {ref: self._known[ref] for ref in refs if ref in self._known}
        if not known:
            return {}
        items = await self._kv.get_many([lookup for each in known.values() for lookup in each.lookups])
        found: dict[Ref, Reading] = {}
        for index, (ref, each) in enumerate(known.items()):
            if each.holds(items[2 * index], items[2 * index + 1]):
                found[ref] = each.reading
                continue
            try:
                found[ref] = await self._learn(*ref, is_used=False)
            except LakebedError:
                # Gone, or out of reach: who asks for it is told.
                continue
        return found

    async def _learn(self, repo_name: str, ref: str, *, is_used: bool) -> Reading:
        name = parse_repo_name(repo_name)
        found = await self._repositories.get_versioned(name)
        repo = found.value
        resolved = await self._resolver.resolve(repo, ref)
        reading = Reading(repo, await self._view.of(repo, resolved))
        if resolved.record is not None and not is_commit_id(resolved.record.value.name):
            if len(self._known) >= DECODED_RECORDS_MAX:
                self._known.clear()
            self._known[repo_name, ref] = _known(repo, resolved, reading, found.version, is_used=is_used)
        return reading


def _known(
    repo: Repository, resolved: ResolvedRef, reading: Reading, version: Version, *, is_used: bool
) -> _Known:
    assert resolved.record is not None
    return _Known(
        (
            (REPOSITORIES_PARTITION, repo_key(repo.name)),
            (repo.partition, branch_key(resolved.record.value.name)),
        ),
        (version, resolved.record.version),
        reading,
        is_used,
    )
