"""What may follow what in a repository's record."""

from dataclasses import replace

from lakebed.format.records import decode_repository
from lakebed.model.branch import Branch
from lakebed.model.repository import (
    CreatingRepository,
    DeletingRepository,
    GoneRepository,
    Repository,
    RepositoryRecord,
)
from lakebed.testing.simulation.ledger import Ledger
from lakebed.testing.simulation.record_laws import LawBrokenError


def check_repository(ledger: Ledger, before: bytes | None, value: bytes) -> None:
    """A repository's record was swapped."""
    old = decode_repository(before) if before is not None else None
    new = decode_repository(value)
    _check_successor(old, new)
    op = ledger.op
    if isinstance(new, Repository) and not isinstance(old, Repository):
        _check_live(ledger, new)
        if op is not None and op.kind == "create_repository":
            ledger.effect(op, "created", new.uid)
    if isinstance(old, Repository) and op is not None and op.kind == "delete_repository":
        ledger.effect(op, "deleted", old.uid)
    ledger.truth.repositories.setdefault(new.name, []).append((ledger.history.step, new))
    ledger.meet(f"repository {type(new).__name__.removesuffix('Repository').lower() or 'live'}")


def check_repository_removed(ledger: Ledger, before: bytes) -> None:
    """Take down that the record of a repository goes. Raise `LawBrokenError` if it may not."""
    old = decode_repository(before)
    if not isinstance(old, DeletingRepository | GoneRepository):
        raise LawBrokenError(f"the record of a repository was removed: {old}")
    ledger.truth.repositories.setdefault(old.name, []).append(
        (ledger.history.step, GoneRepository(name=old.name))
    )
    ledger.meet("repository gone")


def _check_successor(old: RepositoryRecord | None, new: RepositoryRecord) -> None:
    match old, new:
        case (None, CreatingRepository()):
            return
        case (CreatingRepository() as before, Repository() | DeletingRepository() as now):
            if before.uid == now.uid:
                return
        case (Repository() as before, DeletingRepository() as now):
            if before.uid == now.uid:
                return
        case (Repository() as before, Repository() as now):
            if now == replace(before, taken_over_by=now.taken_over_by):
                return
    raise LawBrokenError(f"repository went from {old} to {new}")


def _check_live(ledger: Ledger, repo: Repository) -> None:
    for other in ledger.truth.live_repositories():
        if other.uid != repo.uid and other.namespace == repo.namespace:
            raise LawBrokenError(f"{repo.name} and {other.name} share {repo.namespace}")
    main = ledger.truth.branch(repo.partition, repo.default_branch)
    if not repo.bare and (not isinstance(main, Branch) or ledger.truth.view(repo.partition, main)):
        raise LawBrokenError(f"{repo.name} went live without an empty branch {repo.default_branch}")
