"""`Branch`: a ref that can be written to.

A transaction is a hidden branch on this one's HEAD. Order:

    1. create   the hidden branch
    2. write    whatever the block writes, there
    3. commit   it there
    4. merge    it here, squashed: one transaction is one commit of this branch
    5. delete   the hidden branch

Readers of this branch see nothing before 4 and everything after it. An exception
anywhere before 4 goes on to 5, and a client that dies leaves a hidden branch behind,
which lists do not show.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, cast, overload

import msgspec

from lakebed.client.imports import Import
from lakebed.client.ref import Ref
from lakebed.client.replies import (
    Change,
    CommitInfo,
    MergeResult,
    ObjectInfo,
    RefInfo,
    SegmentInfo,
    StagingLocation,
    StashInfo,
)
from lakebed.client.tasks import HeadTask
from lakebed.client.transport import Request, decode
from lakebed.client.uploads import Body, UploadOptions
from lakebed.client.writer import ObjectTextWriter, ObjectWriter
from lakebed.errors import DeniedError, ErrorKind, InvalidInputError, NotFoundError, UnavailableError
from lakebed.limits import CLIENT_HEAD_TIMEOUT_SECONDS, DELETE_BATCH
from lakebed.telemetry.log import get_logger

Strategy = Literal["", "source-wins", "dest-wins"]

_PLAIN = UploadOptions()

log = get_logger(__name__)


class _ObjectError(msgspec.Struct):
    path: str = ""
    message: str = ""


class _ObjectErrors(msgspec.Struct):
    errors: list[_ObjectError]


class _Started(msgspec.Struct):
    id: str


class Branch(Ref):
    """One branch of one repository."""

    def info(self) -> RefInfo:
        """Return the branch and its commit."""
        return self._transport.get(RefInfo, *self._branch())

    def create(self, source: Ref | str, *, hidden: bool = False) -> str:
        """Create the branch on the commit of `source`, and return that commit's id. Copies nothing."""
        body = {"name": self.name, "source": str(source), "hidden": hidden}
        return self._transport.post("repositories", self.repo, "branches", body=body).text

    def delete(self) -> None:
        """Delete the branch and what is uncommitted on it."""
        self._transport.delete(*self._branch())

    def commit(
        self,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        take_staged: bool = False,
        date: int | None = None,
    ) -> CommitInfo:
        """Commit what is uncommitted.

        An object with the content, content type and metadata of the committed one is no change, and the committed one
        stays. With `take_staged` it takes that one's place: for an object that was lost and uploaded again.
        """
        body = _commit_body(message, metadata, allow_empty=allow_empty, take_staged=take_staged, date=date)
        return decode(self._change_head("commits", body=body), CommitInfo)

    def start_commit(
        self,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        take_staged: bool = False,
        date: int | None = None,
    ) -> HeadTask[CommitInfo, CommitInfo]:
        """Begin to commit what is uncommitted; `wait` returns the commit. For what takes longer than a connection lasts."""
        body = _commit_body(message, metadata, allow_empty=allow_empty, take_staged=take_staged, date=date)
        path = self._branch("commits", "async")
        started = decode(self._transport.post(*path, body=body), _Started)
        return HeadTask(self._transport, path, started.id, of=CommitInfo, made=lambda commit: commit)

    def uncommitted(
        self, *, prefix: str = "", delimiter: str = "", limit: int | None = None
    ) -> Iterator[Change]:
        """Yield what is uncommitted."""
        query = {"prefix": prefix or None, "delimiter": delimiter or None}
        return self._transport.pages(Change, *self._branch("diff"), query=query, limit=limit)

    def reset(self, *, path: str | None = None, prefix: str | None = None) -> None:
        """Throw away what is uncommitted: all of it, of one object, or below a prefix."""
        if path is not None:
            body = {"type": "object", "path": path}
        elif prefix is not None:
            body = {"type": "common_prefix", "path": prefix}
        else:
            body = {"type": "reset"}
        self._transport.put(*self._branch(), body=body)

    def stash(self, message: str = "") -> StashInfo:
        """Put what is uncommitted aside; `Repo.pop_stash` brings it back."""
        return decode(self._change_head("stash", body={"message": message}), StashInfo)

    def hard_reset(self, ref: Ref | str) -> None:
        """Let the branch, which must be clean, point at another commit."""
        self._transport.put(*self._branch("hard_reset"), query={"ref": str(ref)})

    def revert(self, ref: Ref | str, *, parent_number: int = 0, allow_empty: bool = False) -> None:
        """Undo a commit by a new one; `parent_number` says against which parent of a merge, from 1."""
        body = {"ref": str(ref), "parent_number": parent_number, "allow_empty": allow_empty}
        self._change_head("revert", body=body)

    def cherry_pick(self, ref: Ref | str, *, parent_number: int = 0) -> CommitInfo:
        """Repeat a commit on this branch."""
        body = {"ref": str(ref), "parent_number": parent_number}
        return decode(self._change_head("cherry-pick", body=body), CommitInfo)

    def merge(
        self,
        source: Ref | str,
        *,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        strategy: Strategy = "",
        squash: bool = False,
        allow_empty: bool = False,
    ) -> str:
        """Merge `source` into this branch, and return the id of the commit.

        Raises:
            ConflictError: `MERGE_CONFLICT`: both changed the same paths, and no strategy says who wins.
        """
        body = _merge_body(message, metadata, strategy=strategy, squash=squash, allow_empty=allow_empty)
        answer = self._transport.post(
            *self._merge_of(source), body=body, timeout_seconds=CLIENT_HEAD_TIMEOUT_SECONDS
        )
        return decode(answer, MergeResult).reference

    def start_merge(
        self,
        source: Ref | str,
        *,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        strategy: Strategy = "",
        squash: bool = False,
        allow_empty: bool = False,
    ) -> HeadTask[MergeResult, str]:
        """Begin to merge `source` into this branch; `wait` returns the id of the commit, or raises as `merge` does."""
        body = _merge_body(message, metadata, strategy=strategy, squash=squash, allow_empty=allow_empty)
        path = (*self._merge_of(source), "async")
        started = decode(self._transport.post(*path, body=body), _Started)
        return HeadTask(
            self._transport,
            path,
            started.id,
            of=MergeResult,
            made=lambda result: result.reference,
            conflict=ErrorKind.MERGE_CONFLICT,
        )

    @contextmanager
    def transaction(
        self, message: str = "Transaction", *, metadata: Mapping[str, str] | None = None
    ) -> Iterator["Branch"]:
        """Let a block write to a hidden branch, and merge it here when the block is done.

        Nothing is merged if the block raises, and nothing happens if it changes nothing.

        Raises:
            ConflictError: `MERGE_CONFLICT`: this branch has meanwhile changed the same paths.
        """
        tx = Branch(self._transport, self.repo, f"tx-{self._transport.ids.token()}")
        base = tx.create(self.name, hidden=True)
        try:
            yield tx
            if any(tx.uncommitted(limit=1)):
                tx.commit(message, metadata=metadata)
            if tx.info().commit_id != base:
                self.merge(tx, message=message, metadata=metadata, squash=True)
        finally:
            tx.abandon()

    def abandon(self) -> None:
        """Delete the branch if it can be: whether a transaction succeeded does not depend on it."""
        try:
            self.delete()
        except NotFoundError:
            return  # The block has deleted it, or an earlier try of this did.
        except UnavailableError:
            log.warning("transaction_branch_left_behind", repository=self.repo, branch=self.name)

    @overload
    def open(self, path: str, mode: Literal["rb", "wb", "xb"] = ..., **options: Any) -> IO[bytes]: ...
    @overload
    def open(self, path: str, mode: Literal["r", "rt", "w", "wt", "x", "xt"], **options: Any) -> IO[str]: ...
    def open(self, path: str, mode: Any = "rb", **options: Any) -> IO[Any]:
        """Open an object as a file; `w` replaces it when closed, `x` refuses to replace one.

        Options for writing: `content_type`, `metadata`; for text: `encoding`, `newline`.
        """
        if mode not in ("wb", "w", "wt", "xb", "x", "xt"):
            return super().open(path, mode, **options)
        encoding, newline = options.pop("encoding", None) or "utf-8", options.pop("newline", None)
        sent = UploadOptions(if_absent=mode.startswith("x"), **options)
        writer = ObjectWriter(path, lambda file: self.upload(path, file, sent))
        if mode.endswith("b"):
            return cast("IO[bytes]", writer)
        return ObjectTextWriter(writer, encoding=encoding, newline=newline)

    def write(self, path: str, data: bytes | str, options: UploadOptions = _PLAIN) -> ObjectInfo:
        """Write a whole object; text as UTF-8."""
        return self.upload(path, io.BytesIO(data.encode() if isinstance(data, str) else data), options)

    def upload(
        self,
        path: str,
        source: Path | IO[bytes],
        options: UploadOptions = _PLAIN,
        *,
        on_bytes: Callable[[int], object] | None = None,
    ) -> ObjectInfo:
        """Write an object from a local file, in constant memory.

        Raises:
            PreconditionError: the condition in `options` does not hold; nothing was written.
        """
        if isinstance(source, Path):
            with source.open("rb") as file:
                return self.upload(path, file, options, on_bytes=on_bytes)
        body = Body(source, on_bytes=on_bytes)
        length = body.length()
        headers = options.headers(path)
        if length is not None:
            headers["Content-Length"] = str(length)
        request = Request(
            method="POST",
            path=self._branch("objects"),
            query={"path": path},
            headers=headers,
            content=body,
            # The same bytes at the same path once more change nothing, unless the first ones break the condition.
            repeatable=body.seekable and not options.is_conditional,
        )
        info = self._transport.ask(ObjectInfo, request)
        body.require(info.checksum, path)
        return info

    def upload_presigned(
        self,
        path: str,
        source: Path | IO[bytes],
        options: UploadOptions = _PLAIN,
        *,
        on_bytes: Callable[[int], object] | None = None,
    ) -> ObjectInfo:
        """Write an object from a local file straight to the storage; the server learns of it when it is there.

        Raises:
            InvalidInputError: the storage cannot sign URLs, or the file cannot tell its length.
            PreconditionError: the condition in `options` does not hold; nothing was written.
        """
        if isinstance(source, Path):
            with source.open("rb") as file:
                return self.upload_presigned(path, file, options, on_bytes=on_bytes)
        body = Body(source, on_bytes=on_bytes)
        length = body.length()
        if length is None:
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT, "the length of this file is not known before its end: use upload"
            )
        location = self.new_address(path, presign=True)
        assert location.presigned_url is not None, "the server signs or refuses"
        self._transport.send(
            Request(
                method="PUT",
                signed_url=location.presigned_url,
                headers={"Content-Length": str(length)},
                content=body,
            )
        )
        return self.link(
            path, location.physical_address, checksum=body.checksum, size_bytes=length, options=options
        )

    def new_address(self, path: str, *, presign: bool = False) -> StagingLocation:
        """Return an address for the bytes of an object at `path`, to be written by whoever can, and linked within a day."""
        query = {"path": path, "presign": presign or None}
        return self._transport.get(StagingLocation, *self._branch("staging", "backing"), query=query)

    def link(
        self,
        path: str,
        address: str,
        *,
        checksum: str,
        size_bytes: int,
        options: UploadOptions = _PLAIN,
    ) -> ObjectInfo:
        """Make what was written to an address of `new_address` the object at `path`.

        Raises:
            InvalidInputError: `LINK_REFUSED`: the address was not given out for this path, or was linked before.
            PreconditionError: the condition in `options` does not hold.
        """
        body = {
            "staging": {"physical_address": address},
            "checksum": checksum,
            "size_bytes": size_bytes,
            "content_type": options.type_of(path),
            "user_metadata": options.metadata,
        }
        request = Request(
            method="PUT",
            path=self._branch("staging", "backing"),
            query={"path": path},
            headers={"Content-Type": "application/json", **options.conditions()},
            content=msgspec.json.encode(body),
        )
        return self._transport.ask(ObjectInfo, request)

    def stage_segment(
        self, segment: bytes | IO[bytes], *, prefix: str = "", call_id: str | None = None
    ) -> SegmentInfo:
        """Stage many changes at once, all or none: a segment, as `lakebed.format.handed_in.segment_of` makes one.

        All its paths begin with `prefix`, and the right to write there is asked for. With the `call_id` of an earlier
        try (20 characters of 0-9a-v) and the same rows nothing is staged twice for a day; without one, this call has
        its own.

        Raises:
            ConflictError: `OUTCOME_FORGOTTEN`: an earlier try may have staged it, too long ago to know.
            InvalidInputError: a row or field, which the message names, is not what a segment has.
        """
        body = Body(io.BytesIO(segment) if isinstance(segment, bytes) else segment)
        return self._transport.ask(
            SegmentInfo,
            Request(
                method="POST",
                path=self._branch("staging", "segments"),
                query={"prefix": prefix or None, "id": call_id or self._transport.ids.token()},
                headers={"Content-Type": "application/vnd.apache.parquet"},
                content=body,
                repeatable=body.seekable,
                timeout_seconds=CLIENT_HEAD_TIMEOUT_SECONDS,
            ),
        )

    def copy(
        self, path: str, to: str, *, source_ref: Ref | str | None = None, shallow: bool = True
    ) -> ObjectInfo:
        """Copy an object of this branch, or of `source_ref`, to a path of this branch; `shallow` moves no bytes."""
        body = {"src_path": path, "src_ref": str(source_ref or self.name), "shallow": shallow}
        answer = self._transport.post(
            *self._branch("objects", "copy"), body=body, query={"dest_path": to}, repeatable=True
        )
        return decode(answer, ObjectInfo)

    def set_metadata(self, path: str, metadata: Mapping[str, str]) -> None:
        """Replace an object's user metadata."""
        self._transport.put(
            *self._branch("objects", "stat", "user_metadata"), body={"set": metadata}, query={"path": path}
        )

    def delete_object(self, path: str) -> None:
        """Delete an object; one that is not there is no error."""
        self._transport.delete(*self._branch("objects"), query={"path": path})

    def delete_objects(self, paths: Iterable[str]) -> int:
        """Delete objects, a thousand a request, and return how many were asked for.

        Raises:
            DeniedError: some may not be deleted; the others of the same thousand are.
        """
        remaining, count = iter(paths), 0
        while batch := list(islice(remaining, DELETE_BATCH)):
            answer = self._transport.post(
                *self._branch("objects", "delete"), body={"paths": batch}, repeatable=True
            )
            errors = decode(answer, _ObjectErrors).errors
            if errors:
                raise DeniedError(
                    ErrorKind.PERMISSION_DENIED,
                    f"{len(errors)} of {len(batch)} objects were not deleted; "
                    f"the first is {errors[0].path}: {errors[0].message}",
                )
            count += len(batch)
        return count

    def start_import(
        self,
        source: str,
        destination: str = "",
        *,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        is_object: bool = False,
    ) -> Import:
        """Begin to import what lies at `source` (an address such as `s3://bucket/prefix/`) without copying it."""
        location = {
            "type": "object" if is_object else "common_prefix",
            "path": source,
            "destination": destination,
        }
        commit = {"message": message or f"Import {source}", "metadata": metadata}
        answer = self._transport.post(*self._branch("import"), body={"paths": [location], "commit": commit})
        return Import(self._transport, self._branch("import"), decode(answer, _Started).id)

    def _change_head(self, what: str, *, body: Any) -> Any:
        return self._transport.post(
            *self._branch(what), body=body, timeout_seconds=CLIENT_HEAD_TIMEOUT_SECONDS
        )

    def _merge_of(self, source: Ref | str) -> tuple[str, ...]:
        return ("repositories", self.repo, "refs", str(source), "merge", self.name)

    def _branch(self, *below: str) -> tuple[str, ...]:
        return ("repositories", self.repo, "branches", self.name, *below)


def _commit_body(
    message: str,
    metadata: Mapping[str, str] | None,
    *,
    allow_empty: bool,
    take_staged: bool,
    date: int | None,
) -> dict[str, Any]:
    body = {"message": message, "metadata": metadata, "allow_empty": allow_empty, "date": date}
    # A word of ours, which another server need not know.
    return {**body, "take_staged": True} if take_staged else body


def _merge_body(
    message: str, metadata: Mapping[str, str] | None, *, strategy: Strategy, squash: bool, allow_empty: bool
) -> dict[str, Any]:
    return {
        "message": message,
        "metadata": metadata,
        "strategy": strategy,
        "squash_merge": squash,
        "allow_empty": allow_empty,
    }
