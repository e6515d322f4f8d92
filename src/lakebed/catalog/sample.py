"""The sample: a small lake with a history, for people who look around."""

from dataclasses import dataclass
from typing import Final

from lakebed.auth.actions import Action
from lakebed.auth.arns import repository_arn
from lakebed.auth.caller import SYSTEM, Caller
from lakebed.catalog.branches import Branches
from lakebed.catalog.commits import Commits
from lakebed.catalog.diffs import Diffs
from lakebed.catalog.engine import Engine
from lakebed.catalog.objects import Objects
from lakebed.catalog.repositories import Repositories
from lakebed.catalog.settings import BLOCKED
from lakebed.catalog.tags import Tags
from lakebed.model.commits import Commit
from lakebed.model.repository import BranchProtection
from lakebed.versioning.commit import CommitRequest
from lakebed.versioning.merge import MergeRequest

SAMPLE_BRANCH: Final = "fix-prices"
SAMPLE_TAG: Final = "v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The commits that were made."""

    first: Commit
    fixed: Commit
    merged: Commit


class Samples:
    """Fills repositories with the sample."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def fill(self, repo: str, branch: str = "main", *, protect: bool = False) -> Sample:
        """Write the sample to a new repository: two days of sales, and a third that came by a branch.

        With `protect`, only merges may change `branch` from then on.
        """
        # Whoever may create a repository may have it created with this content, which is always the same.
        self._caller.require(Action.CREATE_REPOSITORY, repository_arn(repo))
        objects, commits = Objects(self._engine, SYSTEM), Commits(self._engine, SYSTEM)
        side = _other_than(branch, SAMPLE_BRANCH)

        for day in ("2026-01-01", "2026-01-02"):
            await objects.upload(repo, branch, _path(day), b"item,price\nanchor,12\n", force=True)
        await objects.upload(repo, branch, "README.md", b"# A sample lake\n", force=True)
        first = await commits.commit(repo, branch, self._request("First two days"), force=True)

        await Branches(self._engine, SYSTEM).create(repo, side, branch, force=True)
        await objects.upload(repo, side, _path("2026-01-02"), b"item,price\nanchor,13\n", force=True)
        await objects.upload(repo, side, _path("2026-01-03"), b"item,price\nrope,4\n", force=True)
        fixed = await commits.commit(repo, side, self._request("Correct the prices"), force=True)
        merge = MergeRequest(commit=self._request(f"Merge '{side}' into '{branch}'"))
        merged = await Diffs(self._engine, SYSTEM).merge(repo, side, branch, merge, force=True)

        await Tags(self._engine, SYSTEM).create(repo, _other_than(branch, SAMPLE_TAG), branch, force=True)
        if protect:
            rules = BranchProtection(rules={branch: BLOCKED})
            await Repositories(self._engine, SYSTEM).set_branch_protection(repo, rules, force=True)
        return Sample(first=first, fixed=fixed, merged=merged.commit)

    def _request(self, message: str) -> CommitRequest:
        return CommitRequest(committer=self._caller.committer, message=message)


def _other_than(taken: str, name: str) -> str:
    """A repository's first branch may have any name, and no two refs the same."""
    return f"{name}-sample" if name == taken else name


def _path(day: str) -> str:
    return f"sales/day={day}/part-0.csv"
