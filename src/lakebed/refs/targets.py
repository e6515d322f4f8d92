"""Where a write goes: a live repository and what is protected in it, by one read of both records.

Every write asks for both, and mostly finds them as the write before did. The KV is asked
each time; as long as neither version has changed, what was decoded then still holds.
"""

import msgspec

from lakebed.format.records import decode_protection
from lakebed.kv.port import Item, KVStore, Version
from lakebed.limits import DECODED_RECORDS_MAX
from lakebed.model.ids import parse_repo_name
from lakebed.model.repository import BranchProtection, Repository
from lakebed.refs.keys import PROTECTION_KEY, REPOSITORIES_PARTITION, repo_key
from lakebed.refs.repositories import Repositories


class Target(msgspec.Struct, frozen=True):
    """A repository that may be written to, as far as its rules say."""

    repo: Repository
    protection: BranchProtection


class _Known(msgspec.Struct, frozen=True):
    lookups: tuple[tuple[str, bytes], tuple[str, bytes]]
    versions: tuple[Version | None, Version | None]
    target: Target


class Targets:
    """Finds where writes go."""

    def __init__(self, kv: KVStore, repositories: Repositories) -> None:
        self._kv = kv
        self._repositories = repositories
        self._known: dict[str, _Known] = {}

    async def find(self, repo_name: str) -> Target:
        """Return a live repository and its rules.

        Raises:
            InvalidInputError: `INVALID_REPO_NAME`.
            NotFoundError: no such repository.
        """
        known = self._known.get(repo_name)
        if known is not None:
            repo_item, rules_item = await self._kv.get_many(known.lookups)
            if (_version(repo_item), _version(rules_item)) == known.versions:
                return known.target
        return await self._learn(repo_name)

    async def _learn(self, repo_name: str) -> Target:
        name = parse_repo_name(repo_name)
        found = await self._repositories.get_versioned(name)
        repo = found.value
        rules = await self._kv.get(repo.partition, PROTECTION_KEY)
        protection = decode_protection(rules.value) if rules is not None else BranchProtection()
        if len(self._known) >= DECODED_RECORDS_MAX:
            self._known.clear()
        self._known[repo_name] = _Known(
            ((REPOSITORIES_PARTITION, repo_key(name)), (repo.partition, PROTECTION_KEY)),
            (found.version, _version(rules)),
            Target(repo, protection),
        )
        return self._known[repo_name].target


def _version(item: Item | None) -> Version | None:
    return item.version if item is not None else None
