"""`Answers`: holds what a client was told against what was true.

An answer is right if it was true at some step between the question and the answer.
An error that promises that nothing happened is right if nothing happened, then or
later. An error that promises nothing is always right, so under fair weather there
must be none: that is `world`'s to see to.
"""

from collections.abc import Callable

from lakebed.errors import ErrorKind, NotFoundError
from lakebed.model.diffs import MergeStrategy
from lakebed.model.repository import Repository, RepositoryRecord
from lakebed.staging.conditions import IfAbsent, IfChecksum
from lakebed.testing.simulation.head_laws import HEAD_KINDS
from lakebed.testing.simulation.history import Op, Outcome
from lakebed.testing.simulation.laws import Laws
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.testing.simulation.truth import Moment, Truth, three_way


class Answers:
    """Judges calls when they have ended."""

    def __init__(self, truth: Truth, laws: Laws) -> None:
        self._truth = truth
        self._laws = laws

    def check(self, op: Op) -> None:
        """Raise `LawBrokenError` unless the answer to `op` is right."""
        assert op.end is not None
        if op.outcome is Outcome.UNKNOWN:
            return
        self._laws.heads.check_ended(op)
        if op.outcome is Outcome.REFUSED:
            self._check_refused(op)
            return
        checks: dict[str, Callable[[Op], None]] = {
            "write": self._check_write,
            "delete": self._check_delete,
            "stat": self._check_stat,
            "list": self._check_list,
            "scan": self._check_list,
            "commit": self._check_commit,
            "commit_tree": self._check_one_effect,
            "import": self._check_one_effect,
            "merge": self._check_one_effect,
            "revert": self._check_one_effect,
            "cherry_pick": self._check_one_effect,
            "hard_reset": self._check_hard_reset,
            "reset_branch": self._check_one_effect,
            "reset_path": self._check_undone,
            "reset_prefix": self._check_undone,
            "stash": self._check_one_effect,
            "pop": self._check_pop,
            "drop_stash": self._check_dropped,
            "create_branch": self._check_created,
            "delete_branch": self._check_deleted,
            "get_branch": self._check_existed,
            "create_tag": self._check_created,
            "delete_tag": self._check_deleted,
            "get_tag": self._check_existed,
            "create_repository": self._check_repository_created,
            "delete_repository": self._check_repository_deleted,
        }
        check = checks.get(op.kind)
        if check is not None:
            check(op)

    def _moments(self, op: Op) -> list[Moment]:
        assert op.end is not None
        return list(self._truth.timeline(op.repo, op.branch).during(op.start, op.end))

    def _require_some(self, op: Op, held: Callable[[Moment], bool], what: str) -> None:
        moments = self._moments(op)
        if not any(held(moment) for moment in moments):
            raise LawBrokenError(f"{op}: {what} at no step; shown were {[m.view for m in moments]}")

    def _check_write(self, op: Op) -> None:
        if len(op.effects) != 1 and not self._laws.rows.was_overwritten(op):
            raise LawBrokenError(f"{op} was acknowledged and is nowhere")

    def _check_delete(self, op: Op) -> None:
        assert op.end is not None
        for path in op.args["paths"]:
            steps = self._laws.rows.tombstones.get((op.repo, op.branch, path), [])
            if not any(op.start < step < op.end for step in steps):
                raise LawBrokenError(f"{op} was acknowledged, and {path} was not deleted")

    def _check_stat(self, op: Op) -> None:
        path, found = op.args["path"], op.result
        self._require_some(
            op, lambda m: m.view is not None and m.view.get(path) == found, f"{path} was {found}"
        )

    def _check_list(self, op: Op) -> None:
        """`result` holds (path, checksum) and common prefixes, `covers` says of which paths it speaks."""
        rows, prefixes, covers = op.result
        paths = [path for path, _ in rows]
        if paths != sorted(set(paths)) or list(prefixes) != sorted(set(prefixes)):
            raise LawBrokenError(f"{op}: out of order or twice: {paths} {prefixes}")
        shown = dict(rows)
        for path in op.args["paths"]:
            if not covers(path):
                if path in shown:
                    raise LawBrokenError(f"{op}: {path} was not asked for")
                continue
            folder = next((prefix for prefix in prefixes if path.startswith(prefix)), None)
            if folder is None:
                self._require_some(
                    op,
                    lambda m, path=path: m.view is not None and m.view.get(path) == shown.get(path),  # type: ignore[misc]
                    f"{path} was {shown.get(path)}",
                )
        for prefix in prefixes:
            self._require_some(
                op,
                lambda m, prefix=prefix: any(path.startswith(prefix) for path in m.view or ()),  # type: ignore[misc]
                f"something was below {prefix}",
            )

    def _check_commit(self, op: Op) -> None:
        self._check_one_effect(op)
        content = self._truth.content(op.repo, op.result.id)
        self._require_some(op, lambda m: m.view == content, "the commit's content was the view")

    def _check_one_effect(self, op: Op) -> None:
        if len(op.effects) != 1:
            raise LawBrokenError(f"{op} was acknowledged, and did {op.effects}")
        if op.kind in HEAD_KINDS and op.effects[0][2] != op.result.id:
            raise LawBrokenError(f"{op} says {op.result.id}, HEAD became {op.effects[0][2]}")

    def _check_hard_reset(self, op: Op) -> None:
        target = op.args["source"]
        self._require_some(op, lambda m: m.commit_id == target, f"HEAD was {target}")

    def _check_undone(self, op: Op) -> None:
        assert op.end is not None
        prefix = op.args["prefix"]
        paths = (
            [op.args["path"]] if "path" in op.args else [p for p in op.args["paths"] if p.startswith(prefix)]
        )
        for path in paths:
            deleted = self._laws.rows.tombstones.get((op.repo, op.branch, path), [])
            written = len({(m.view or {}).get(path) for m in self._moments(op)}) > 1
            if written or any(op.start < step < op.end for step in deleted):
                continue  # Somebody wrote it meanwhile, which comes after the reset and hides it.
            self._require_some(
                op,
                lambda m, path=path: self._committed(op, m, path),  # type: ignore[misc]
                f"{path} was as committed",
            )

    def _committed(self, op: Op, moment: Moment, path: str) -> bool:
        if moment.commit_id is None or moment.view is None:
            return False
        return moment.view.get(path) == self._truth.content(op.repo, moment.commit_id).get(path)

    def _check_pop(self, op: Op) -> None:
        if op.args["stash"] not in self._laws.stashes.popped:
            raise LawBrokenError(f"{op} was acknowledged, and the stash is nowhere")

    def _check_dropped(self, op: Op) -> None:
        if op.args["stash"] not in self._laws.stashes.dropped:
            raise LawBrokenError(f"{op} was acknowledged, and the stash was not dropped")

    def _check_created(self, op: Op) -> None:
        self._check_one_effect(op)
        self._require_some(op, lambda m: m.view is not None, "the branch existed")

    def _check_deleted(self, op: Op) -> None:
        self._require_some(op, lambda m: m.view is None, "the branch did not exist")

    def _check_existed(self, op: Op) -> None:
        self._require_some(op, lambda m: m.view is not None, "it existed")

    def _check_repository_created(self, op: Op) -> None:
        if [detail for _, _, detail in op.effects] != [op.result.uid]:
            raise LawBrokenError(f"{op} was acknowledged, and did {op.effects}")

    def _check_repository_deleted(self, op: Op) -> None:
        assert op.end is not None
        states = self._states(op.repo, op.start, op.end)
        if all(isinstance(state, Repository) and state.uid == op.args["uid"] for state in states):
            raise LawBrokenError(f"{op} was acknowledged, and the repository was there all the time")

    def _states(self, name: str, start: int, end: int) -> list[RepositoryRecord | None]:
        """Return what a repository's record was between two steps."""
        records: list[tuple[int, RepositoryRecord | None]] = [
            (0, None),
            *self._truth.repositories.get(name, []),
        ]
        before = [index for index, (step, _) in enumerate(records) if step <= start]
        return [record for step, record in records[before[-1] :] if step <= end]

    def _check_refused(self, op: Op) -> None:
        if op.effects:
            raise LawBrokenError(f"{op} was refused, and did {op.effects}")
        if op.kind in {"list_stashes", "sweep", "clean"} and isinstance(op.error, NotFoundError):
            raise LawBrokenError(f"{op} is about everything there is: {op.error}")
        match op.kind_of_error:
            case ErrorKind.BRANCH_NOT_FOUND | ErrorKind.TAG_NOT_FOUND:
                self._require_some(op, lambda m: m.view is None, "the branch did not exist")
            case ErrorKind.BRANCH_EXISTS | ErrorKind.TAG_EXISTS:
                self._require_some(op, lambda m: m.view is not None, "the branch existed")
            case ErrorKind.CONDITION_FAILED:
                self._require_some(op, lambda m: not _holds(op, m), "the condition did not hold")
            case ErrorKind.NO_CHANGES if op.kind in {"commit", "stash"}:
                self._require_some(op, lambda m: self._is_clean(op, m), "there were no changes")
            case ErrorKind.DIRTY_BRANCH:
                self._require_some(op, lambda m: not self._is_clean(op, m), "there were changes")
            case ErrorKind.MERGE_CONFLICT:
                self._require_some(op, lambda m: self._conflicts(op, m), "there was a conflict")
            case ErrorKind.STASH_NOT_FOUND if op.kind in {"pop", "drop_stash"}:
                self._check_stash_gone(op)
            case (
                ErrorKind.COMMIT_EXISTS
                | ErrorKind.COMMIT_NOT_FOUND
                | ErrorKind.KEY_NOT_FOUND
                | ErrorKind.OBJECT_NOT_FOUND
            ):
                if not op.args.get("may_be_missing") and self._truth.is_live(op.repo):
                    raise LawBrokenError(f"{op}: {op.error}")

    def _check_stash_gone(self, op: Op) -> None:
        stash = op.args["stash"]
        stashes = self._laws.stashes
        if stash in stashes.standing - stashes.claimed - stashes.dropped:
            raise LawBrokenError(f"{op}: the stash stands, nobody has popped or dropped it")

    def _is_clean(self, op: Op, moment: Moment) -> bool:
        if moment.commit_id is None:
            return False
        return moment.view == self._truth.content(op.repo, moment.commit_id)

    def _conflicts(self, op: Op, moment: Moment) -> bool:
        if moment.commit_id is None:
            return False
        dest = self._truth.content(op.repo, moment.commit_id)
        strategy = op.args.get("strategy", MergeStrategy.NONE)
        sides = self._laws.heads.sides(op.repo, op, moment.commit_id)
        return any(three_way(base, source, dest, strategy)[1] for base, source in sides)


def _holds(op: Op, moment: Moment) -> bool:
    """Whether the write's condition held at that moment."""
    (path,) = op.args["contents"]
    current = (moment.view or {}).get(path)
    match op.args["condition"]:
        case IfAbsent():
            return current is None
        case IfChecksum(checksum=checksum):
            return current == checksum
    return True
