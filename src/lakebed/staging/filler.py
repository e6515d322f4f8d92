"""Rows laid over sealed layers without covering what others have written since.

A reset of a part of a branch is decided from sealed layers and written as rows.
Between the two, somebody may stage the same path: that write is newer and must
stand. So a row is written only where the staging token has none, and only
while the branch still has exactly those layers and that commit below.
"""

from collections.abc import Sequence

from lakebed.env.ids import IdSource
from lakebed.errors import ConflictError, ErrorKind, UnavailableError, is_unknown
from lakebed.format.rows import OPEN_KEY, OPEN_VALUE, encode_row, row_key
from lakebed.kv.port import Expect, KVStore, Row
from lakebed.limits import BATCH_ROWS_MAX, SWAP_ATTEMPTS_MAX
from lakebed.model.branch import Branch
from lakebed.model.entries import Change
from lakebed.model.ids import Nonce
from lakebed.model.repository import Repository
from lakebed.staging.port import Branches
from lakebed.staging.record import knows_token, with_open_token
from lakebed.staging.writer import new_token


class Filler:
    """Writes rows where there are none."""

    def __init__(self, kv: KVStore, branches: Branches, ids: IdSource) -> None:
        self._kv = kv
        self._branches = branches
        self._ids = ids

    async def fill(self, repo: Repository, sealed: Branch, changes: Sequence[Change]) -> None:
        """Stage those of `changes` whose path nobody has staged since `sealed` was read. Safe to repeat.

        Raises:
            ConflictError: `FENCE_LOST`: the branch no longer has the layers and the commit of `sealed`.
        """
        branch = await self._open(repo, sealed)
        nonce = Nonce(self._ids.token())
        rows = [Row(row_key(c.path), encode_row(c, nonce), Expect.ABSENT) for c in changes]
        for start in range(0, len(rows), BATCH_ROWS_MAX):
            await self._fill(repo, branch, rows[start : start + BATCH_ROWS_MAX])

    async def _open(self, repo: Repository, sealed: Branch) -> Branch:
        token = new_token(repo, sealed.name, self._ids)
        opened = await self._branches.update(
            repo,
            sealed.name,
            lambda branch, _now: with_open_token(branch, token),
            landed=lambda branch: knows_token(branch, token),
        )
        branch = opened.value
        unmoved = (
            branch.staging_token is not None
            and branch.incarnation == sealed.incarnation
            and branch.commit_id == sealed.commit_id
            and branch.sealed == sealed.sealed
            and branch.compacted == sealed.compacted
        )
        if not unmoved:
            raise ConflictError(
                ErrorKind.FENCE_LOST, f"branch {sealed.name} moved while a part of it was being reset"
            )
        return branch

    async def _fill(self, repo: Repository, branch: Branch, rows: list[Row]) -> None:
        assert branch.staging_token is not None
        fence = self._branches.fence(repo, branch, commit=True)
        for _ in range(SWAP_ATTEMPTS_MAX):
            there = await self._kv.get_many([(branch.staging_token, row.key) for row in rows])
            rows = [row for row, item in zip(rows, there, strict=True) if item is None]
            if not rows:
                return
            try:
                await self._kv.set_rows(branch.staging_token, [Row(OPEN_KEY, OPEN_VALUE), *rows], fence=fence)
            except ConflictError as error:
                if error.kind is not ErrorKind.ROW_CHANGED:
                    raise
            except UnavailableError as error:
                # A copy still in flight writes the same rows, and only where there are none.
                if not is_unknown(error):
                    raise
            else:
                return
        raise UnavailableError(
            ErrorKind.STORE_UNAVAILABLE, f"branch {branch.name} changes too fast: try again"
        )
