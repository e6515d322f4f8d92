"""Samples, for people who look around: a table of lakes, and a small lake with a history."""

from dataclasses import dataclass
from typing import Final

from lakebed.auth.actions import Action
from lakebed.auth.arns import repository_arn
from lakebed.auth.caller import SYSTEM, Caller
from lakebed.catalog.branches import Branches
from lakebed.catalog.commits import Commits
from lakebed.catalog.diffs import Diffs
from lakebed.catalog.engine import Engine
from lakebed.catalog.lakes import sample_files
from lakebed.catalog.objects import Attributes, Objects
from lakebed.catalog.tags import Tags
from lakebed.model.commits import Commit
from lakebed.versioning.commit import CommitRequest
from lakebed.versioning.merge import MergeRequest

SAMPLE_BRANCH: Final = "fix-prices"
SAMPLE_TAG: Final = "v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The commits that were made."""

    first: Commit
    fixed: Commit
    merged: Commit


class Samples:
    """Fills new repositories. Whoever may create a repository may have it filled: the content is always the same."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def fill(self, repo: str, branch: str) -> Commit:
        """Commit the table of lakes to `branch`."""
        self._caller.require(Action.CREATE_REPOSITORY, repository_arn(repo))
        objects = Objects(self._engine, SYSTEM)
        for file in sample_files(repo, branch):
            attributes = Attributes(content_type=file.content_type)
            await objects.upload(repo, branch, file.path, file.data, attributes=attributes, force=True)
        request = self._request("Add sample data")
        return await Commits(self._engine, SYSTEM).commit(repo, branch, request, force=True)

    async def fill_with_history(self, repo: str) -> History:
        """Write two days of sales to `main`, and a third that came by a branch."""
        self._caller.require(Action.CREATE_REPOSITORY, repository_arn(repo))
        objects, commits = Objects(self._engine, SYSTEM), Commits(self._engine, SYSTEM)

        for day in ("2026-01-01", "2026-01-02"):
            await objects.upload(repo, "main", _path(day), b"item,price\nanchor,12\n")
        await objects.upload(repo, "main", "README.md", b"# A sample lake\n")
        first = await commits.commit(repo, "main", self._request("First two days"))

        await Branches(self._engine, SYSTEM).create(repo, SAMPLE_BRANCH, "main")
        await objects.upload(repo, SAMPLE_BRANCH, _path("2026-01-02"), b"item,price\nanchor,13\n")
        await objects.upload(repo, SAMPLE_BRANCH, _path("2026-01-03"), b"item,price\nrope,4\n")
        fixed = await commits.commit(repo, SAMPLE_BRANCH, self._request("Correct the prices"))
        merge = MergeRequest(commit=self._request(f"Merge '{SAMPLE_BRANCH}' into 'main'"))
        merged = await Diffs(self._engine, SYSTEM).merge(repo, SAMPLE_BRANCH, "main", merge)

        await Tags(self._engine, SYSTEM).create(repo, SAMPLE_TAG, "main")
        return History(first=first, fixed=fixed, merged=merged.commit)

    def _request(self, message: str) -> CommitRequest:
        return CommitRequest(committer=self._caller.committer, message=message)


def _path(day: str) -> str:
    return f"sales/day={day}/part-0.csv"
