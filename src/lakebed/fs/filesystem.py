"""`LakebedFileSystem`: repositories as folders, refs below them, objects below those.

A folder is a prefix that some object has: it appears with its first object and goes
with its last, so making one does nothing. Listings are not cached unless asked for,
because a branch changes under its readers; whoever wants stability reads a commit.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, ClassVar, cast

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractFileSystem
from fsspec.utils import isfilelike

from lakebed.client.branch import Branch
from lakebed.client.client import Client
from lakebed.client.ref import Ref
from lakebed.client.replies import ObjectInfo
from lakebed.client.transfers import download_file
from lakebed.client.uploads import UploadOptions
from lakebed.client.uri import SCHEME, Uri
from lakebed.errors import NotFoundError
from lakebed.fs.deferred import DeferredWriter, LakeTransaction
from lakebed.fs.errors import os_errors

Info = dict[str, Any]


class LakebedFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """`lakebed://repo/ref/path`."""

    protocol = SCHEME
    root_marker = ""
    transaction_type: ClassVar[type] = LakeTransaction

    def __init__(
        self,
        endpoint: str | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        *,
        commit_message: str = "Write files",
        use_listings_cache: bool = False,
        **options: Any,
    ) -> None:
        """Connect as `lakebed.client.client.Client` does; `commit_message` is that of transactions."""
        super().__init__(use_listings_cache=use_listings_cache, **options)
        self.client = Client(endpoint, access_key_id, secret_access_key)
        self.commit_message = commit_message

    def ls(self, path: str, detail: bool = True, **_options: Any) -> list[Any]:  # noqa: FBT001, FBT002
        """List a folder; a file lists as itself."""
        path = self._strip_protocol(path)
        found = self._ls_from_cache(path)
        if found is None:
            with os_errors(path):
                found = list(self._list(_parse(path)))
            self.dircache[path] = found
        return found if detail else sorted(each["name"] for each in found)

    def info(self, path: str, **_options: Any) -> Info:
        """Return name, size, type, and for files checksum, ETag, time and metadata."""
        path = self._strip_protocol(path)
        uri = _parse(path)
        with os_errors(path):
            if not uri.path:
                self._require_folder(uri)
                return _folder(path)
            try:
                return _file(uri, self._ref(uri).stat(uri.path))
            except NotFoundError:
                if not any(self._ref(uri).objects(f"{uri.path}/", limit=1)):
                    raise
        return _folder(path)

    def exists(self, path: str, **_options: Any) -> bool:
        """Return whether there is a file or a folder. An error is an error, not an absence."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,  # noqa: FBT001, FBT002  fsspec's signature
        detail: bool = False,  # noqa: FBT001, FBT002
        **options: Any,
    ) -> Any:
        """Return all files below a folder: one listing, whatever lies in between."""
        path = self._strip_protocol(path)
        uri = _parse(path)
        if maxdepth is not None or not uri.ref:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **options)
        found: dict[str, Info] = {}
        with os_errors(path):
            prefix = f"{uri.path}/" if uri.path else ""
            for each in self._ref(uri).objects(prefix):
                if not each.path.endswith("/"):
                    entry = _file(uri, each)
                    found[entry["name"]] = entry
            if not found and uri.path and self.isfile(path):
                found[path] = self.info(path)
        if withdirs:
            found |= {name: _folder(name) for name in _folders(found, path)}
        names = sorted(found)
        return {name: found[name] for name in names} if detail else names

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """Return a file's bytes, or a slice of them."""
        if start is not None or end is not None:
            return cast("bytes", super().cat_file(path, start=start, end=end, **options))
        uri = self._object(path)
        with os_errors(path):
            return self._ref(uri).read(uri.path)

    def put_file(
        self,
        lpath: str,
        rpath: str,
        callback: Any = DEFAULT_CALLBACK,
        mode: str = "overwrite",
        **options: Any,
    ) -> None:
        """Upload a local file."""
        source = Path(lpath)
        if self._intrans or source.is_dir():
            super().put_file(lpath, rpath, callback=callback, mode=mode, **options)
            return
        uri = self._object(rpath)
        callback.set_size(source.stat().st_size)
        sent = UploadOptions(if_absent=mode == "create", **options)
        with os_errors(rpath):
            self._branch(uri).upload(uri.path, source, sent, on_bytes=callback.relative_update)
        self.invalidate_cache()

    def get_file(
        self,
        rpath: str,
        lpath: Any = None,
        callback: Any = DEFAULT_CALLBACK,
        outfile: Any = None,
        **options: Any,
    ) -> None:
        """Download a file; the local one is as it was unless all of it arrived."""
        if outfile is not None or isfilelike(lpath):
            super().get_file(rpath, lpath, callback=callback, outfile=outfile, **options)
            return
        target, uri = Path(lpath), self._object(rpath)
        if self.isdir(rpath):
            target.mkdir(parents=True, exist_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        with os_errors(rpath):
            info = self._ref(uri).stat(uri.path)
            callback.set_size(info.size_bytes)
            download_file(self._ref(uri), info, target, on_bytes=callback.relative_update)

    def cp_file(self, path1: str, path2: str, **_options: Any) -> None:
        """Copy a file: within a repository no bytes move."""
        source, target = self._object(path1), self._object(path2)
        with os_errors(path1):
            try:
                self._copy(source, target)
            except NotFoundError:
                if not self.isdir(path1):  # A recursive copy names folders too, and those need no copy.
                    raise
        self.invalidate_cache()

    def rm_file(self, path: str) -> None:
        """Delete one file."""
        uri = self._object(path)
        with os_errors(path):
            self._ref(uri).stat(uri.path)
            self._branch(uri).delete_object(uri.path)
        self.invalidate_cache()

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:  # noqa: FBT001, FBT002
        """Delete files; `recursive` takes folders, a thousand files a request."""
        for each in [path] if isinstance(path, str) else path:
            uri = _parse(self._strip_protocol(each))
            if not recursive or maxdepth is not None or not uri.path or "*" in each or not self.isdir(each):
                super().rm(each, recursive=recursive, maxdepth=maxdepth)
                continue
            below = self._ref(uri).objects(f"{uri.path}/")
            with os_errors(each):
                self._branch(uri).delete_objects(info.path for info in below)
        self.invalidate_cache()

    def mkdir(self, path: str, create_parents: bool = True, **_options: Any) -> None:  # noqa: FBT001, FBT002
        """Do nothing: a folder is there when a file is in it."""

    def makedirs(self, path: str, exist_ok: bool = False) -> None:  # noqa: FBT001, FBT002
        """Do nothing: a folder is there when a file is in it."""

    def rmdir(self, path: str) -> None:
        """Do nothing: a folder goes with its last file."""

    def checksum(self, path: str) -> str:
        """Return a file's checksum."""
        return cast("str", self.info(path)["checksum"])

    def ukey(self, path: str) -> str:
        """Return a text that changes when the file does."""
        return self.checksum(path)

    def modified(self, path: str) -> datetime:
        """Return when a file was written."""
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def created(self, path: str) -> datetime:
        """Return when a file was written: objects do not change, they are replaced."""
        return self.modified(path)

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forget listings."""
        self.dircache.clear()
        super().invalidate_cache(path)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,  # noqa: FBT001, FBT002  fsspec's signature
        cache_options: Any = None,  # noqa: ARG002
        **options: Any,
    ) -> IO[bytes]:
        uri = self._object(path)
        if mode == "rb":
            with os_errors(path):
                return self._ref(uri).open(uri.path, buffer_bytes=block_size)
        if mode not in ("wb", "xb"):
            raise NotImplementedError(f"mode {mode!r}: an object is written whole, with 'wb' or 'xb'")
        self.invalidate_cache()
        if autocommit:
            return self._branch(uri).open(uri.path, cast("Any", mode), **options)
        sent = UploadOptions(if_absent=mode == "xb", **options)
        return cast("IO[bytes]", DeferredWriter(self._branch(uri), uri.path, sent))

    def _list(self, uri: Uri) -> Iterator[Info]:
        if not uri.repo:
            yield from (_folder(repo.id) for repo in self.client.repositories())
            return
        if not uri.ref:
            repo = self.client.repo(uri.repo)
            for refs in (repo.branches(), repo.tags()):
                yield from (_folder(f"{uri.repo}/{ref.id}") for ref in refs)
            return
        prefix = f"{uri.path}/" if uri.path else ""
        empty = True
        for each in self._ref(uri).objects(prefix, delimiter="/"):
            empty = False
            if each.is_prefix:
                yield _folder(_name(uri, each.path.rstrip("/")))
            elif each.path != prefix:  # Some tools mark a folder by an empty object.
                yield _file(uri, each)
        if empty and uri.path:
            yield _file(uri, self._ref(uri).stat(uri.path))

    def _require_folder(self, uri: Uri) -> None:
        if uri.ref:
            self._ref(uri).head()
        elif uri.repo:
            self.client.repo(uri.repo).info()

    def _copy(self, source: Uri, target: Uri) -> None:
        if source.repo == target.repo:
            self._branch(target).copy(source.path, target.path, source_ref=source.ref)
            return
        info = self._ref(source).stat(source.path)
        kept = UploadOptions(content_type=info.content_type or None, metadata=info.metadata or {})
        self._branch(target).upload(target.path, self._ref(source).reader(info), kept)

    def _object(self, path: str) -> Uri:
        uri = _parse(self._strip_protocol(path))
        if not uri.path:
            raise IsADirectoryError(f"{path} is a folder: a file is {SCHEME}://repo/ref/path")
        return uri

    def _ref(self, uri: Uri) -> Ref:
        return self.client.repo(uri.repo).ref(uri.ref)

    def _branch(self, uri: Uri) -> Branch:
        return self.client.repo(uri.repo).branch(uri.ref)


def _parse(path: str) -> Uri:
    repo, _, below = path.partition("/")
    ref, _, rest = below.partition("/")
    return Uri(repo, ref, rest)


def _name(uri: Uri, path: str) -> str:
    return f"{uri.repo}/{uri.ref}/{path}"


def _folder(name: str) -> Info:
    return {"name": name, "size": 0, "type": "directory"}


def _file(uri: Uri, info: ObjectInfo) -> Info:
    return {
        "name": _name(uri, info.path),
        "size": info.size_bytes,
        "type": "file",
        "checksum": info.checksum,
        "ETag": f'"{info.checksum}"',
        "mtime": info.mtime,
        "content_type": info.content_type,
        "metadata": info.metadata or {},
        "physical_address": info.physical_address,
    }


def _folders(files: dict[str, Info], top: str) -> set[str]:
    """Return `top` and the folders between it and the files, if there are any files."""
    found: set[str] = set()
    for name in files:
        parent = name.rpartition("/")[0]
        while len(parent) >= len(top) and parent not in found:
            found.add(parent)
            parent = parent.rpartition("/")[0]
    return found
