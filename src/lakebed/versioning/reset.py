"""Throwing uncommitted changes away: all of a branch, a prefix, one path; and moving HEAD itself.

Resetting everything is one swap: the layers retire. Resetting a part writes the
committed state of each staged path on top of the layers:

    1. seal     so that every row to be undone lies in layers that no one writes to
    2. undo     for each staged path below the prefix, a row with the committed entry or a tombstone,
                fenced on the token and the commit, and only where nobody has written since 1

Crash between: some paths are undone, the rest are as they were; doing it again goes on.
A commit between 1 and 2 breaks the fence, and the reset starts over: what was
staged is committed by then, and there is nothing left to undo.
"""

from dataclasses import dataclass, replace

from lakebed.errors import ConflictError, ErrorKind, NotFoundError, UnavailableError, is_unknown
from lakebed.format.blocks import block_entries
from lakebed.limits import SWAP_ATTEMPTS_MAX
from lakebed.model.branch import Branch
from lakebed.model.commits import Commit
from lakebed.model.entries import Change, Tombstone
from lakebed.model.ids import BranchName, CommitId, Path
from lakebed.model.repository import Repository
from lakebed.staging.reader import LayersMovedError
from lakebed.staging.record import knows_token, reset, seal
from lakebed.staging.writer import new_token
from lakebed.versioning.head import Attempt, HeadChanges
from lakebed.versioning.parts import Parts
from lakebed.versioning.uncommitted import staged_changes


@dataclass(slots=True)
class _Progress:
    """Whether a reset of a part may have undone anything yet."""

    begun: bool = False


class Resetter:
    """Undoes what is staged."""

    def __init__(self, parts: Parts, heads: HeadChanges) -> None:
        self._parts = parts
        self._heads = heads

    async def reset_branch(self, repo: Repository, name: BranchName) -> None:
        """Forget everything uncommitted on the branch."""
        token = new_token(repo, name, self._parts.ids)
        await self._parts.branches.update(
            repo,
            name,
            lambda branch, now: reset(branch, token, now),
            landed=lambda branch: knows_token(branch, token),
        )

    async def reset_path(self, repo: Repository, name: BranchName, path: Path) -> None:
        """Bring one path back to its committed state."""
        await self._undo(repo, name, prefix=path, only=path)

    async def reset_prefix(self, repo: Repository, name: BranchName, prefix: str) -> None:
        """Bring every path that begins with `prefix` back to its committed state."""
        await self._undo(repo, name, prefix=prefix, only=None)

    async def hard_reset(self, repo: Repository, name: BranchName, target: CommitId) -> Commit:
        """Let the branch point at `target`. It must be clean."""

        async def build(attempt: Attempt) -> Commit:
            await self._heads.require_clean(attempt)
            return await self._parts.commits.get(repo, target)

        return await self._heads.run(repo, name, build, reads=(target,))

    async def _undo(self, repo: Repository, name: BranchName, *, prefix: str, only: Path | None) -> None:
        progress = _Progress()
        for _ in range(SWAP_ATTEMPTS_MAX):
            try:
                await self._undo_once(repo, name, progress, prefix=prefix, only=only)
            except NotFoundError as error:
                # Deleted on the way: some of it was undone before, for those who have looked since.
                if not progress.begun:
                    raise
                raise _partly(name) from error
            except ConflictError as error:
                if error.kind is not ErrorKind.FENCE_LOST and not isinstance(error, LayersMovedError):
                    raise
            except UnavailableError as error:
                if is_unknown(error):
                    raise
                raise _partly(name) from error
            else:
                return
        raise _partly(name)

    async def _undo_once(
        self, repo: Repository, name: BranchName, progress: _Progress, *, prefix: str, only: Path | None
    ) -> None:
        sealed = await self._seal(repo, name)
        await self._write_committed(repo, sealed, progress, prefix=prefix, only=only)

    async def _seal(self, repo: Repository, name: BranchName) -> Branch:
        before = (await self._parts.branches.get(repo, name)).value
        token = before.staging_token
        if token is None:
            return before
        after = await self._parts.branches.update(
            repo,
            name,
            lambda branch, _now: seal(branch) if branch.staging_token == token else branch,
            landed=lambda branch: branch.staging_token != token,
        )
        return replace(after.value, staging_token=None)

    async def _write_committed(
        self, repo: Repository, sealed: Branch, progress: _Progress, *, prefix: str, only: Path | None
    ) -> None:
        trees = await self._parts.trees_of(repo)
        base = await self._parts.base_tree(repo, sealed)
        async for block in staged_changes(self._parts, repo, sealed, against=base, prefix=prefix):
            found = await trees.lookup_many(base, block.column("key"))
            committed = {entry.path: entry for entry in block_entries(found)}
            paths = [Path(key) for key in block.column("key").to_pylist() if only is None or key == only]
            changes: list[Change] = [committed.get(path) or Tombstone(path=path) for path in paths]
            progress.begun = progress.begun or bool(changes)
            await self._parts.staging.fill(repo, sealed, changes)


def _partly(name: BranchName) -> UnavailableError:
    return UnavailableError(
        ErrorKind.OUTCOME_UNKNOWN, f"branch {name} may have been reset, or some of it: try again"
    )
