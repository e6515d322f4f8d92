"""Segments that bulk writers hand in: many changes of a branch, visible all at once or not at all. Order matters.

    1. receive   the file, on this machine's disk: nothing of it is trusted
    2. check     every row and statistic, in a helper process with bounds (`format.segment_check`). If it dies, the file
                 is refused, and the helper is replaced
    3. admit     every path (below the prefix that the caller may write to) and every address
    4. claim     the link tokens of its addresses, for this call (see `link_tokens`)
    5. note      the call, if the client has given it an id (see `segment_calls`)
    6. store     the rows as a segment of our own, under a name of our own
    7. append    it to the branch, by one swap
    8. mark      the note of the call with what was staged

A crash before 6 leaves claimed tokens: a repeat of the same call counts on them. A crash before 7 leaves a file that
nothing refers to, and the cleaner deletes it. What a crash means for a repeat of the call is told in `segment_calls`.

What is stored is written anew and not what came: its dataset is named by the branch, which the caller does not know,
and no file of somebody else's making is ever read again.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.auth.actions import Action
from lakebed.auth.arns import namespace_arn, object_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine
from lakebed.catalog.link_tokens import FoundToken, LinkTokens
from lakebed.catalog.segment_calls import SegmentCalls
from lakebed.errors import ErrorKind, InvalidInputError, LakebedError, UnavailableError
from lakebed.format.blocks import CHANGE_SCHEMA
from lakebed.format.columns import Mask, column, mask
from lakebed.format.hashing import changes_hash
from lakebed.format.segment_check import check_failed, check_file, read_checked
from lakebed.limits import (
    SEGMENT_BYTES_MAX,
    SEGMENT_FOLDERS_MAX,
    SEGMENT_LINKS_MAX,
)
from lakebed.model.ids import BranchName, Nonce
from lakebed.model.layers import SegmentLayer
from lakebed.model.repository import Repository
from lakebed.model.segment_calls import SegmentCall
from lakebed.staging.appending import HandedIn, outcome_forgotten, require_room

# As `objects.slices` names them.
_GIVEN_OUT: Final = "^data/[0-9a-v]{20}/[0-9a-v]{20}$"
_EXTERNAL: Final = r"^[a-z0-9]+://[^\x00-\x1f\x7f]*/[^/\x00-\x1f\x7f]+$"
_DOTS: Final = r"/\.{1,2}$"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedSegment:
    """What was staged."""

    id: str
    entries: int
    tombstones: int


class Segments:
    """Use cases on ready segments."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller
        self._tokens = LinkTokens(engine)
        self._calls = SegmentCalls(engine)

    async def stage(
        self,
        repo_name: str,
        branch: str,
        data: AsyncIterator[bytes],
        *,
        prefix: str = "",
        call: str = "",
        force: bool = False,
    ) -> StagedSegment:
        """Stage a segment on a branch. With `call`, a repetition with the same rows stages nothing more for a day.

        Raises:
            ConflictError: `OUTCOME_FORGOTTEN`: an earlier call may have staged it, too long ago to know.
            DeniedError: the caller may not write (and, where it deletes or refers to objects outside, delete and
                import) everything below `prefix`; an address is not one that this installation reads.
            InvalidInputError: a row or field, which the message names, is not what a segment has;
                `LINK_REFUSED`: an address in the repository's storage was not given out for its path, or was used.
            UnavailableError: `TOO_MANY_LAYERS`.
        """
        self._caller.require_all(Action.WRITE_OBJECT, object_arn(repo_name, prefix))
        engine = self._engine
        repo, name = await engine.target(repo_name, branch, force=force)
        is_repeatable = bool(call)
        if not is_repeatable:
            # Nothing is sent for nothing. Who repeats a call may have taken the last place himself.
            call = engine.parts.ids.token()
            require_room((await engine.parts.staging.find_handed_in(repo, name, call)).branch)
        async with engine.spool.receive(data, bytes_max=SEGMENT_BYTES_MAX) as file, engine.spool.gate:
            block = await self._checked(repo, file)
            self._require(repo_name, prefix, block)
            return await self._stage(repo, name, block, call=call, is_repeatable=is_repeatable)

    async def _checked(self, repo: Repository, file: FilePath) -> pa.Table:
        parts = self._engine.parts
        try:
            # Whatever its size: a few kilobytes may unpack to gigabytes.
            await parts.processes.run(check_file, str(file))
        except UnavailableError as error:
            if error.kind is not ErrorKind.HELPER_DIED:
                raise
            raise check_failed() from error
        return await parts.workers.run(_read, str(file), f"{repo.namespace.removesuffix('/')}/")

    def _require(self, repo_name: str, prefix: str, block: pa.Table) -> None:
        """Refuse paths that do not lie below the prefix, and what the caller may not do there."""
        keys, deleted = column(block, "key"), mask(column(block, "deleted"))
        _refuse(f"key does not begin with {prefix!r}", ~mask(pc.starts_with(keys, prefix)))
        if deleted.any():
            self._caller.require_all(Action.DELETE_OBJECT, object_arn(repo_name, prefix))
        outside = _external(block)
        if len(outside):
            ends = pc.min_max(outside)
            # Of the first and the last, and so of all; by characters, as policies do.
            common = os.path.commonprefix([ends["min"].as_py(), ends["max"].as_py()])  # noqa: RUF071
            self._caller.require_all(Action.IMPORT_FROM_STORAGE, namespace_arn(common))

    async def _stage(
        self, repo: Repository, name: BranchName, block: pa.Table, *, call: str, is_repeatable: bool
    ) -> StagedSegment:
        parts = self._engine.parts
        rows_hash = await parts.workers.run(changes_hash, block)
        # Not the call alone: another segment under the same id is another one.
        call = hashlib.sha256(f"{call}/{rows_hash}".encode()).hexdigest()
        known = await parts.staging.find_handed_in(repo, name, call)
        if is_repeatable:
            earlier = await self._staged_earlier(repo, known)
            if earlier is not None:
                return earlier
        require_room(known.branch)
        await self._admit_external(block)
        now = await parts.kv.now()
        nonce = Nonce(call)
        tokens = await self._given_out(repo, name, block, nonce)
        async with self._tokens.claimed(repo, tokens, nonce, now=now, shared=is_repeatable):
            if not is_repeatable:
                return _staged(await parts.staging.hand_in(repo, name, block, call=call))
            noted = await self._calls.note(repo, known.owner)
            once = self._calls.once(noted)
            layer = await parts.staging.hand_in(repo, name, block, call=call, once=once)
            await self._mark(repo, noted, layer)
            return _staged(layer)

    async def _staged_earlier(self, repo: Repository, known: HandedIn) -> StagedSegment | None:
        """Return what an earlier try of a call has staged; None if there was none, or it may still be staged."""
        noted = await self._calls.find(repo, known.owner)
        if noted is not None and noted.segment:
            return StagedSegment(id=noted.segment, entries=noted.entries, tombstones=noted.tombstones)
        if known.layer is not None:
            await self._mark(repo, noted or await self._calls.note(repo, known.owner), known.layer)
            return _staged(known.layer)
        if noted is not None and await self._engine.parts.kv.now() > self._calls.once(noted).until:
            raise outcome_forgotten(known.branch.name)
        return None

    async def _mark(self, repo: Repository, noted: SegmentCall, layer: SegmentLayer) -> None:
        # Best effort: the segment is staged. Without the mark a late repeat is refused, and stages nothing either.
        with suppress(UnavailableError):
            await self._calls.mark(repo, noted, layer)

    async def _given_out(
        self, repo: Repository, name: BranchName, block: pa.Table, nonce: Nonce
    ) -> list[FoundToken]:
        inside = block.filter(pc.match_substring_regex(column(block, "address"), _GIVEN_OUT))
        if inside.num_rows > SEGMENT_LINKS_MAX:
            raise InvalidInputError(
                ErrorKind.TOO_LARGE,
                f"{inside.num_rows} addresses in the repository's own storage: {SEGMENT_LINKS_MAX} are the most",
            )
        # A loop over entries, since each has a token: as many as the limit lets through.
        columns = (inside.column(each).to_pylist() for each in ("key", "address", "checksum"))
        return await self._tokens.find_all(repo, name, list(zip(*columns, strict=True)), nonce=nonce)

    async def _admit_external(self, block: pa.Table) -> None:
        """Refuse addresses that may not be read, a folder at a time. Each is looked at again before it is read."""
        outside = _external(block)
        folders = pc.replace_substring_regex(outside, pattern="[^/]*$", replacement="")
        checked = 0
        for folder in pc.unique(folders).to_pylist():
            checked = await self._checked_once_more(checked)
            if await self._is_admitted(folder):
                continue
            # Something of the folder may be open and something not.
            for address in outside.filter(pc.equal(folders, folder)).to_pylist():
                checked = await self._checked_once_more(checked)
                await self._admit(block, address)

    async def _checked_once_more(self, checked: int) -> int:
        if checked >= SEGMENT_FOLDERS_MAX:
            raise InvalidInputError(
                ErrorKind.TOO_LARGE, f"addresses in more than {SEGMENT_FOLDERS_MAX} folders outside"
            )
        if not checked % _CHECKS_A_TURN:
            await asyncio.sleep(0)
        return checked + 1

    async def _is_admitted(self, folder: str) -> bool:
        try:
            await self._engine.external.check(folder)
        except LakebedError:
            return False
        return True

    async def _admit(self, block: pa.Table, address: str) -> None:
        try:
            await self._engine.external.check(address)
        except LakebedError as error:
            row = pc.index(column(block, "address"), address).as_py()
            raise type(error)(error.kind, f"row {row}: {error}") from error


# Checks that are made before others get their turn: a millisecond's worth.
_CHECKS_A_TURN = 50


def _staged(layer: SegmentLayer) -> StagedSegment:
    return StagedSegment(id=layer.id, entries=layer.entries, tombstones=layer.tombstones)


def _read(file: str, namespace: str) -> pa.Table:
    """Return the changes in a file that was checked; addresses in the repository's own storage as they are stored."""
    block = read_checked(file)
    addresses = column(block, "address")
    inside = pc.starts_with(addresses, namespace)
    relative = pc.if_else(
        inside, pc.binary_replace_slice(addresses, 0, len(namespace.encode()), ""), addresses
    )
    known = mask(column(block, "deleted")) | mask(pc.match_substring_regex(relative, _GIVEN_OUT))
    outside = ~mask(inside) & mask(pc.match_substring_regex(relative, _EXTERNAL))
    outside &= ~mask(pc.match_substring_regex(relative, _DOTS))
    _refuse("address was not given out by the server, and is no address outside", ~known & ~outside)
    at = CHANGE_SCHEMA.get_field_index("address")
    return block.set_column(at, CHANGE_SCHEMA.field(at), relative)


def _external(block: pa.Table) -> pa.Array:
    addresses = column(block, "address")
    return addresses.filter(pc.match_substring(addresses, "://"))


def _refuse(why: str, rows: Mask) -> None:
    if rows.any():
        raise InvalidInputError(ErrorKind.INVALID_ARGUMENT, f"row {int(np.argmax(rows))}: {why}")
