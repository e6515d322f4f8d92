"""What may happen to a branch record. Pure: record in, record out.

Each function is one atomic step of a protocol. Two rules hold in all of them:
a token leaves `staging_token` only through `sealed` or `retired`, empty or not
(a check for emptiness would race with a writer), and a layer leaves `sealed`
only through `retired`, where it stays readable for a grace period.
"""

from dataclasses import replace

from lakebed.env.clock import Instant
from lakebed.errors import ConflictError, ErrorKind, UnavailableError
from lakebed.limits import PENDING_MAX
from lakebed.model.branch import Branch, Pending
from lakebed.model.ids import CommitId, Nonce, StagingToken
from lakebed.model.layers import Layer, RetiredLayer, SegmentLayer, TokenLayer, layer_name
from lakebed.model.segments import parse_segment_id
from lakebed.model.stash import Stash


def layers_of(branch: Branch) -> tuple[Layer, ...]:
    """Return the layers a reader looks into, newest first: the staging token as the one that it will be."""
    if branch.staging_token is None:
        return branch.sealed
    return (TokenLayer(token=branch.staging_token, seq=branch.next_seq), *branch.sealed)


def tokens_of(branch: Branch) -> tuple[StagingToken, ...]:
    """Return the tokens among the layers, newest first."""
    sealed = tuple([layer.token for layer in branch.sealed if isinstance(layer, TokenLayer)])
    return (branch.staging_token, *sealed) if branch.staging_token is not None else sealed


def names_token(branch: Branch, token: StagingToken) -> bool:
    """Return whether `token` is a live layer of the branch."""
    return token in tokens_of(branch)


def names_layer(branch: Branch, layer: Layer) -> bool:
    """Return whether `layer` is a live layer of the branch."""
    return layer_name(layer) in map(layer_name, layers_of(branch))


def knows_layer(branch: Branch, layer: Layer) -> bool:
    """Return whether the branch record has or had `layer`, as far as it remembers."""
    return names_layer(branch, layer) or layer_name(layer) in (layer_name(r.layer) for r in branch.retired)


def find_appended(branch: Branch, owner: Nonce) -> SegmentLayer | None:
    """Return the layer that a segment of that owner is or was in this branch, as far as its record remembers."""
    layers = (*branch.sealed, *(retired.layer for retired in branch.retired))
    segments = [layer for layer in layers if isinstance(layer, SegmentLayer)]
    mine = (s for s in segments if s.dataset == branch.incarnation and parse_segment_id(s.id).owner == owner)
    return next(mine, None)


def knows_token(branch: Branch, token: StagingToken) -> bool:
    """Return whether the branch record has or had `token`, as far as it remembers."""
    return knows_layer(branch, TokenLayer(token=token, seq=0))


def with_open_token(branch: Branch, token: StagingToken) -> Branch:
    """Give writers a token to write to, unless there is one."""
    return branch if branch.staging_token is not None else replace(branch, staging_token=token)


def seal(branch: Branch) -> Branch:
    """Close the staging token for writers: it becomes the newest sealed layer."""
    if branch.staging_token is None:
        return branch
    layer = TokenLayer(token=branch.staging_token, seq=branch.next_seq)
    return push_layer(replace(branch, staging_token=None), layer)


def push_layer(branch: Branch, layer: Layer) -> Branch:
    """Lay a layer on top, whatever its `seq` was. The staging token must have been sealed."""
    assert branch.staging_token is None, "a layer on top of a token still written to would reorder writes"
    layer = replace(layer, seq=branch.next_seq)
    return replace(branch, sealed=(layer, *branch.sealed), next_seq=branch.next_seq + 1)


def append_segment(branch: Branch, layer: SegmentLayer) -> Branch:
    """Lay a segment that nobody refers to yet on top, and leave no staging token: later writes lie above it.

    Raises:
        ConflictError: `FENCE_LOST`: the segment is of an era whose orphans may be deleted by now, or for another
            branch of the name. It must be written again, under another name.
    """
    if layer.dataset != branch.incarnation or _is_too_old(branch, layer):
        raise ConflictError(
            ErrorKind.FENCE_LOST, f"segment {layer.id} comes too late for branch {branch.name}: write another"
        )
    return push_layer(seal(branch), layer)


def reset(branch: Branch, token: StagingToken, now: Instant) -> Branch:
    """Forget everything uncommitted, and leave `token` for writers: it is how this reset is recognised later."""
    sealed = seal(branch)
    return replace(
        _without_tree(sealed, now),
        staging_token=token,
        sealed=(),
        retired=_retire(sealed, sealed.sealed, now),
    )


def begin(
    branch: Branch,
    nonce: Nonce,
    commits: tuple[CommitId, ...],
    now: Instant,
    *,
    since: Instant | None = None,
    lost_seconds: float = 0.0,
) -> Branch:
    """Seal, and say that an operation, which came at `since` (or now), is building a new HEAD on `commits`.

    `lost_seconds` is how long the try took that it has lost before this one.

    Raises:
        UnavailableError: too many such operations are under way.
    """
    alive = {key: entry for key, entry in branch.pending.items() if entry.is_live(now)}
    if nonce not in alive and len(alive) >= PENDING_MAX:
        raise UnavailableError(
            ErrorKind.STORE_UNAVAILABLE,
            f"{len(alive)} commits and merges into {branch.name} are under way: try again when one has ended",
        )
    sealed = seal(branch)
    alive[nonce] = Pending(
        commits=commits,
        renewed_at=now,
        below=sealed.next_seq,
        since=now if since is None else since,
        lost_seconds=lost_seconds,
    )
    return replace(sealed, pending=alive)


def next_in_line(branch: Branch, nonce: Nonce, since: Instant, now: Instant) -> tuple[Nonce, Pending] | None:
    """Return the operation that came first of all those which have lost a race for HEAD, if that is another one."""
    losers = [
        (entry.since, other, entry)
        for other, entry in branch.pending.items()
        if entry.since is not None and entry.lost_seconds > 0 and entry.is_live(now)
    ]
    if not losers:
        return None
    came, other, entry = min(losers, key=lambda each: each[:2])
    return (other, entry) if (came, other) < (since, nonce) else None


def renew(branch: Branch, nonce: Nonce, now: Instant) -> Branch:
    """Say that the operation is still alive."""
    entry = branch.pending.get(nonce)
    if entry is None:
        return branch
    return replace(branch, pending={**branch.pending, nonce: replace(entry, renewed_at=now)})


def finish(
    branch: Branch,
    nonce: Nonce,
    *,
    started: Branch,
    commit_id: CommitId,
    now: Instant,
    stash: Stash | None = None,
) -> Branch:
    """Move HEAD to `commit_id`, and drop what `started` had in `sealed` and `compacted`.

    Layers that arrived on top since then stay.

    Raises:
        ConflictError: the branch is no longer what the operation was built on, or the segments of the stash may have
            been taken for orphans before its record was there.
    """
    require_unmoved(branch, nonce, started=started)
    if stash is not None:
        if any(isinstance(layer, SegmentLayer) and _is_too_old(branch, layer) for layer in stash.layers):
            raise ConflictError(
                ErrorKind.VERSION_CHANGED, f"segments of stash {stash.id} come too late: write others"
            )
        # The layers go and the commit stays, so that only another token tells those who have decided a condition
        # on them.
        branch = seal(branch)
    kept = len(branch.sealed) - len(started.sealed)
    dropped = branch.sealed[kept:]
    pending = {key: entry for key, entry in branch.pending.items() if key != nonce}
    return replace(
        _without_tree(branch, now),
        commit_id=commit_id,
        sealed=branch.sealed[:kept],
        pending=pending,
        retired=_retire(branch, dropped, now),
        stashes=branch.stashes if stash is None else (*branch.stashes, stash.id),
    )


def require_unmoved(branch: Branch, nonce: Nonce, *, started: Branch) -> None:
    """Raise `ConflictError` unless an operation that began with `started` may still finish.

    The layers it consumed must be exactly the oldest suffix of `sealed`: with one
    missing in the middle, what is below would show through.
    """
    kept = len(branch.sealed) - len(started.sealed)
    if (
        nonce not in branch.pending
        or branch.incarnation != started.incarnation
        or branch.commit_id != started.commit_id
        or branch.compacted != started.compacted
        or kept < 0
        or branch.sealed[kept:] != started.sealed
    ):
        raise ConflictError(
            ErrorKind.VERSION_CHANGED, f"branch {branch.name} moved while a new HEAD was being built"
        )


def abandon(branch: Branch, nonce: Nonce, *, clean: Branch | None, now: Instant) -> Branch:
    """End an operation that makes no new HEAD.

    If it found that the layers it sealed change nothing (`clean`: the branch that it began with), they go too, so
    that refused merges do not pile up layers.
    """
    if nonce not in branch.pending:
        return branch
    pending = {key: entry for key, entry in branch.pending.items() if key != nonce}
    ended = replace(branch, pending=pending)
    if clean is None:
        return ended
    try:
        require_unmoved(branch, nonce, started=clean)
    except ConflictError:
        return ended
    kept = len(branch.sealed) - len(clean.sealed)
    return replace(
        _without_tree(ended, now),
        sealed=branch.sealed[:kept],
        retired=_retire(branch, branch.sealed[kept:], now),
    )


def _is_too_old(branch: Branch, layer: SegmentLayer) -> bool:
    """Return whether orphans of the segment's era may be deleted by now."""
    return parse_segment_id(layer.id).era < branch.min_era


def _without_tree(branch: Branch, now: Instant) -> Branch:
    """Let the compacted tree go, and with it whoever is making another: what they build on goes too."""
    return replace(
        branch,
        compacted=None,
        compacted_counts=None,
        l2_slot=None,
        fold_slot=None,
        parked=False,
        retired_trees=branch.with_tree_retired(now),
    )


def _retire(branch: Branch, layers: tuple[Layer, ...], now: Instant) -> tuple[RetiredLayer, ...]:
    return (*branch.retired, *(RetiredLayer(layer=layer, at=now) for layer in layers))
