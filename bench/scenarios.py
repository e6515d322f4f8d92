"""Every scenario, in the order in which a run takes them."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from bench import (
    backlog,
    branches,
    calibrate,
    commits,
    committers,
    diffs,
    imports,
    postgres,
    reads,
    refs,
    s3_large,
    staging,
    tree,
    uploads,
)
from bench.figure import Figure
from bench.lab import Lab

Run = Callable[[Lab], Coroutine[Any, Any, list[Figure]]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One process's worth of measuring. `needs_tree`: after the large tree was built."""

    run: Run
    needs_tree: bool = False


SCENARIOS: dict[str, Scenario] = {
    "calibrate": Scenario(calibrate.calibrate),
    "commit_100k": Scenario(commits.commit_100k),
    "commit_500k": Scenario(commits.commit_500k),
    "tree": Scenario(tree.build_tree),
    "commit_one": Scenario(commits.commit_one, needs_tree=True),
    "list": Scenario(reads.list_pages, needs_tree=True),
    "stat": Scenario(reads.stat, needs_tree=True),
    "diff": Scenario(diffs.diff, needs_tree=True),
    "merge": Scenario(diffs.merge, needs_tree=True),
    "stage": Scenario(staging.stage_idle),
    "stage_during_commit": Scenario(staging.stage_during_commit),
    "branches": Scenario(branches.branches),
    "backlog": Scenario(backlog.backlog),
    "committers": Scenario(committers.committers),
    "upload": Scenario(uploads.upload),
    "refs": Scenario(refs.refs),
    "s3_large": Scenario(s3_large.s3_large),
    "s3_part": Scenario(s3_large.s3_part),
    "import": Scenario(imports.import_files),
    "postgres_swap": Scenario(postgres.postgres_swap),
    "postgres_commit": Scenario(postgres.postgres_commit),
}
