"""What every `ObjectStore` must do: one test a sentence of `objects/port.py`.

Inherit, add a `store` fixture that gives an empty store, done:

    class TestMyObjects(ObjectSuite):
        @pytest.fixture
        async def store(self) -> AsyncIterator[ObjectStore]:
            ...

`reopen` gives a second store over the same bytes, for what must survive a
process. `refuses` says which keys the store cannot keep: those must be refused,
all others must come back exactly, except those a server is known to spoil.
`is_folder_tree` is for S3 servers that keep objects in folders: they list folder
by folder, and have no `a` beside `a/b`.
"""

import asyncio
import hashlib
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterable, Sequence

import pytest

from lakebed.env.clock import SECOND, SystemClock
from lakebed.errors import (
    AlreadyExistsError,
    ErrorKind,
    InvalidInputError,
    NotFoundError,
    PreconditionError,
)
from lakebed.limits import MIB, PATH_BYTES_MAX, SMALL_OBJECT_BYTES_MAX
from lakebed.objects.port import ByteRange, ETag, IfMatch, ObjectInfo, ObjectStore, OpenUpload, Part, PutMode

LARGE = bytes(range(256)) * (SMALL_OBJECT_BYTES_MAX // 256 + 1)
"""More than goes through a journal."""

STRANGE_KEYS = {
    "empty part": "a//b",
    "slash at the end": "dir/",
    "slash at the start": "/x",
    "only a slash": "/",
    "parent": "..",
    "parent inside": "a/../b",
    "parents that would leave": "../../etc/passwd",
    "here": "./x",
    "dots that are a name": "...",
    "escapes": "+ %2F %",
    "question": "a?b=c&d#e",
    "brackets": "a[b]{c}|^`<>\"'*",
    "tilde": "~x",
    "dot file": ".hidden",
    "leading dash": "-rf",
    "backslash": "a\\b",
    "newline": "a\nb",
    "tab": "a\tb",
    "NUL": "a\0b",
    "DEL": "a\x7fb",
    "spaces": "  a  ",
    "composed": "caf\u00e9",
    "decomposed": "cafe\u0301",
    "outside the basic plane": "\U0001f600/\U00010000",
    "last of the basic plane": "\uffff",
    "long": "d/" + "k" * (PATH_BYTES_MAX - 2),
    "long part": "p" * 300 + "/x",
    "long part in two-byte letters": "é" * 200,
    "long of many parts": "/".join(["s" * 100] * 10),
    "deep": "/".join("x" * 256),
    "looks like our own files": ".lakebed/locks",
    "looks like our own folder": ".lakebed",
}

_FOLDER_TREE = (
    "this server keeps keys as folders: a key cannot be one too, and a slash sorts before everything"
)
PLAIN_ORDER = [
    "A",
    "B/x",
    "_",
    "a",
    "b/c/d",
    "b/e",
    "data/0/1",
    "data/0/2",
    "data/1/0",
    "z",
    "é",
    "\ufffd",
    "\U0001f600",
]
"""In byte order, and in the order of a walk through folders as well."""

BYTE_ORDER = ["a", "a b", "a!", "a-b", "a-b/x", "a.b", "a/", "a//b", "a/b", "a/b-c", "a/b/c", "a0", "ab"]
"""In byte order: a folder by folder listing gets this wrong."""


class ObjectSuite:
    """Inherit, add a `store` fixture, done."""

    is_folder_tree = False
    keeps_replaced_parts = False

    async def reopen(self, store: ObjectStore) -> ObjectStore:
        """Return another store over the same bytes, as a new process would open it."""
        return store

    def refuses(self, key: str) -> bool:
        """Return whether the store cannot keep `key`, and says so."""
        return False

    def is_spoilt(self, key: str) -> bool:
        """Return whether the server behind the store breaks the contract for `key`."""
        return False

    # -- put ----------------------------------------------------------------------------------------

    @pytest.mark.parametrize("data", [b"", b"x", LARGE], ids=["empty", "small", "large"])
    async def test_what_was_put_is_got(self, store: ObjectStore, data: bytes) -> None:
        await store.put("k", data)

        assert await store.get("k") == data

    @pytest.mark.parametrize("data", [b"new", LARGE], ids=["small", "large"])
    async def test_a_create_only_put_of_an_existing_key_changes_nothing(
        self, store: ObjectStore, data: bytes
    ) -> None:
        etag = await store.put("k", b"old")

        with pytest.raises(AlreadyExistsError) as raised:
            await store.put("k", data)

        assert raised.value.kind is ErrorKind.KEY_EXISTS
        assert await content(store, "k") == (b"old", etag)

    @pytest.mark.parametrize("data", [b"new", LARGE], ids=["small", "large"])
    async def test_an_overwriting_put_replaces_and_creates(self, store: ObjectStore, data: bytes) -> None:
        await store.put("k", b"old")

        first = await store.put("k", data, when=PutMode.OVERWRITE)
        second = await store.put("other", data, when=PutMode.OVERWRITE)

        assert await content(store, "k") == (data, first)
        assert await content(store, "other") == (data, second)

    @pytest.mark.parametrize("data", [b"new", LARGE], ids=["small", "large"])
    async def test_a_put_if_match_replaces_what_it_names(self, store: ObjectStore, data: bytes) -> None:
        _needs(store.capabilities.if_match)
        old = await store.put("k", b"old")

        new = await store.put("k", data, when=IfMatch(old))

        assert new != old
        assert await content(store, "k") == (data, new)

    @pytest.mark.parametrize("data", [b"late", LARGE], ids=["small", "large"])
    async def test_a_put_if_match_of_another_version_changes_nothing(
        self, store: ObjectStore, data: bytes
    ) -> None:
        _needs(store.capabilities.if_match)
        old = await store.put("k", b"old")
        new = await store.put("k", b"new", when=IfMatch(old))

        with pytest.raises(PreconditionError) as raised:
            await store.put("k", data, when=IfMatch(old))

        assert raised.value.kind is ErrorKind.CONDITION_FAILED
        assert await content(store, "k") == (b"new", new)

    async def test_a_put_if_match_of_a_missing_key_creates_nothing(self, store: ObjectStore) -> None:
        _needs(store.capabilities.if_match)
        etag = await store.put("k", b"old")
        await store.delete(["k"])

        with pytest.raises(PreconditionError):
            await store.put("k", b"new", when=IfMatch(etag))

        assert await store.head("k") is None

    async def test_an_etag_changes_whenever_the_bytes_do(self, store: ObjectStore) -> None:
        etags = [await store.put("k", b"%04d" % n, when=PutMode.OVERWRITE) for n in range(20)]

        assert len(set(etags)) == len(etags)

    async def test_of_many_create_only_puts_at_once_one_wins(self, store: ObjectStore) -> None:
        contents = [b"%d" % n for n in range(16)]

        async def put(data: bytes) -> ETag | None:
            try:
                return await store.put("k", data)
            except AlreadyExistsError:
                return None

        etags = await asyncio.gather(*map(put, contents))

        [winner] = [(data, etag) for data, etag in zip(contents, etags, strict=True) if etag is not None]
        assert await content(store, "k") == winner

    async def test_of_many_puts_if_match_at_once_one_wins(self, store: ObjectStore) -> None:
        _needs(store.capabilities.if_match)
        old = await store.put("k", b"old")
        contents = [b"%d" % n for n in range(16)]

        async def put(data: bytes) -> ETag | None:
            try:
                return await store.put("k", data, when=IfMatch(old))
            except PreconditionError:
                return None

        etags = await asyncio.gather(*map(put, contents))

        [winner] = [(data, etag) for data, etag in zip(contents, etags, strict=True) if etag is not None]
        assert await content(store, "k") == winner

    async def test_many_puts_at_once_are_all_there(self, store: ObjectStore) -> None:
        keys = [f"data/{n % 3}/{n}" for n in range(100)]

        await asyncio.gather(*[store.put(key, key.encode()) for key in keys])

        assert [await store.get(key) for key in keys] == [key.encode() for key in keys]

    async def test_what_was_put_survives_the_process(self, store: ObjectStore) -> None:
        await store.put("small", b"1")
        await store.put("large", LARGE)
        again = await self.reopen(store)

        assert (await again.get("small"), await again.get("large")) == (b"1", LARGE)

    # -- put_stream ---------------------------------------------------------------------------------

    @pytest.mark.parametrize("sizes", [[], [0], [1, 2, 3], [MIB] * 17, [20 * MIB + 1]], ids=str)
    async def test_a_stream_is_put_whole(self, store: ObjectStore, sizes: list[int]) -> None:
        pieces = [bytes([65 + n % 26]) * size for n, size in enumerate(sizes)]

        etag = await store.put_stream("k", stream_of(pieces))

        assert await content(store, "k") == (b"".join(pieces), etag)

    @pytest.mark.parametrize("size", [10, 17 * MIB], ids=["small", "large"])
    async def test_a_stream_that_fails_leaves_nothing(self, store: ObjectStore, size: int) -> None:
        with pytest.raises(ZeroDivisionError):
            await store.put_stream("k", broken_stream(size))

        assert await store.head("k") is None
        assert await keys_of(store) == []

    @pytest.mark.parametrize("size", [10, 17 * MIB], ids=["small", "large"])
    async def test_a_stream_that_fails_leaves_what_was_there(self, store: ObjectStore, size: int) -> None:
        etag = await store.put("k", b"old")

        with pytest.raises(ZeroDivisionError):
            await store.put_stream("k", broken_stream(size), when=PutMode.OVERWRITE)

        assert await content(store, "k") == (b"old", etag)

    @pytest.mark.parametrize("size", [10, 17 * MIB], ids=["small", "large"])
    async def test_a_stream_is_put_under_the_same_conditions(self, store: ObjectStore, size: int) -> None:
        _needs(store.capabilities.if_match)
        old = await store.put("k", b"old")

        with pytest.raises(AlreadyExistsError):
            await store.put_stream("k", stream_of([b"x" * size]))
        with pytest.raises(PreconditionError):
            await store.put_stream("k", stream_of([b"x" * size]), when=IfMatch(ETag("other")))
        assert await content(store, "k") == (b"old", old)

        new = await store.put_stream("k", stream_of([b"x" * size]), when=IfMatch(old))
        assert await content(store, "k") == (b"x" * size, new)

    # -- get, stream, head --------------------------------------------------------------------------

    async def test_a_missing_object_is_not_found(self, store: ObjectStore) -> None:
        with pytest.raises(NotFoundError) as raised:
            await store.get("missing")
        assert raised.value.kind is ErrorKind.KEY_NOT_FOUND

        with pytest.raises(NotFoundError):
            await anext(store.stream("missing"))

        assert await store.head("missing") is None

    @pytest.mark.parametrize(
        ("byte_range", "expected"),
        [
            (ByteRange(0, 3), b"012"),
            (ByteRange(3, 4), b"3"),
            (ByteRange(7), b"789"),
            (ByteRange(0), b"0123456789"),
            (ByteRange(9, 10), b"9"),
            (ByteRange(8, 1000), b"89"),
        ],
        ids=str,
    )
    async def test_a_range_is_cut_out(
        self, store: ObjectStore, byte_range: ByteRange, expected: bytes
    ) -> None:
        await store.put("k", b"0123456789")

        assert await store.get("k", byte_range=byte_range) == expected
        assert b"".join([c async for c in store.stream("k", byte_range=byte_range)]) == expected

    @pytest.mark.parametrize("byte_range", [ByteRange(10), ByteRange(10, 11), ByteRange(99, 100)], ids=str)
    async def test_a_range_that_starts_at_or_past_the_end_cannot_be_satisfied(
        self, store: ObjectStore, byte_range: ByteRange
    ) -> None:
        await store.put("k", b"0123456789")

        with pytest.raises(InvalidInputError) as raised:
            await store.get("k", byte_range=byte_range)
        assert raised.value.kind is ErrorKind.RANGE_NOT_SATISFIABLE

        with pytest.raises(InvalidInputError):
            await anext(store.stream("k", byte_range=byte_range))

    @pytest.mark.parametrize("byte_range", [ByteRange(-1), ByteRange(3, 3), ByteRange(3, 2)], ids=str)
    async def test_a_range_of_nothing_is_refused(self, store: ObjectStore, byte_range: ByteRange) -> None:
        await store.put("k", b"0123456789")

        with pytest.raises(InvalidInputError) as raised:
            await store.get("k", byte_range=byte_range)
        assert raised.value.kind is ErrorKind.INVALID_ARGUMENT

    async def test_a_large_object_streams_in_pieces(self, store: ObjectStore) -> None:
        data = bytes(range(256)) * (5 * MIB // 256)
        await store.put("k", data)

        pieces = [piece async for piece in store.stream("k")]

        assert b"".join(pieces) == data
        assert len(pieces) > 1
        assert await store.get("k", byte_range=ByteRange(MIB, 4 * MIB)) == data[MIB : 4 * MIB]

    async def test_a_reader_of_a_replaced_object_gets_one_version(self, store: ObjectStore) -> None:
        await store.put("k", b"a" * 300_000)
        await store.put("k", b"b" * 300_000, when=PutMode.OVERWRITE)

        assert set(await store.get("k")) == {ord("b")}

    async def test_head_tells_size_etag_and_about_when(self, store: ObjectStore) -> None:
        before = SystemClock().now()
        etag = await store.put("k", b"12345")

        found = await store.head("k")

        assert found is not None
        assert (found.key, found.size_bytes, found.etag) == ("k", 5, etag)
        assert abs(found.mtime - before) < 60 * SECOND

    # -- list ---------------------------------------------------------------------------------------

    async def test_an_empty_store_lists_no_pages(self, store: ObjectStore) -> None:
        assert [page async for page in store.list()] == []

    async def test_keys_are_listed_in_order_of_their_bytes(self, store: ObjectStore) -> None:
        await put_all(store, reversed(PLAIN_ORDER))

        assert await keys_of(store) == PLAIN_ORDER

    async def test_a_slash_is_a_byte_like_any_other_in_that_order(self, store: ObjectStore) -> None:
        if self.is_folder_tree:
            pytest.skip(_FOLDER_TREE)
        kept = [key for key in BYTE_ORDER if not self.refuses(key)]
        await put_all(store, reversed(kept))

        assert await keys_of(store) == kept
        for size in (1, 2, 5):
            assert await keys_of(store, page_items_max=size) == kept
        for index, key in enumerate(kept):
            assert await keys_of(store, start_after=key) == kept[index + 1 :]
            assert await keys_of(store, key) == [other for other in kept if other.startswith(key)]

    async def test_a_prefix_may_end_inside_a_name(self, store: ObjectStore) -> None:
        await put_all(store, ["data/ab/1", "data/abc", "data/b", "date", "x/data/ab"])

        assert await keys_of(store, "data/ab") == ["data/ab/1", "data/abc"]
        assert await keys_of(store, "dat") == ["data/ab/1", "data/abc", "data/b", "date"]
        assert await keys_of(store, "data/ab/") == ["data/ab/1"]
        assert await keys_of(store, "data/c") == []
        assert await keys_of(store, "nothing/here/") == []

    @pytest.mark.parametrize("page_items_max", [1, 2, 3, 100])
    async def test_pages_are_not_empty_and_no_longer_than_asked(
        self, store: ObjectStore, page_items_max: int
    ) -> None:
        keys = [f"k/{n}" for n in range(7)]
        await put_all(store, keys)

        pages = [page async for page in store.list("k/", page_items_max=page_items_max)]

        assert [info.key for page in pages for info in page] == keys
        assert all(1 <= len(page) <= page_items_max for page in pages)

    @pytest.mark.parametrize(
        "start_after", ["", "a", "b", "b/c/d", "b/zzz", "data/0/1", "data/0/", "é", "\U0001f601"]
    )
    async def test_a_listing_starts_after_any_text(self, store: ObjectStore, start_after: str) -> None:
        await put_all(store, PLAIN_ORDER)

        if self.is_folder_tree and start_after == "b":
            pytest.skip(_FOLDER_TREE)
        expected = [key for key in PLAIN_ORDER if key > start_after]
        assert await keys_of(store, start_after=start_after) == expected
        assert await keys_of(store, "b", start_after=start_after) == [
            k for k in expected if k.startswith("b")
        ]

    async def test_a_listing_tells_what_head_tells(self, store: ObjectStore) -> None:
        await put_all(store, ["a", "b/c"])

        infos = [info async for page in store.list() for info in page]

        assert [without_time(info) for info in infos] == [
            without_time(await head(store, info.key)) for info in infos
        ]

    async def test_a_listing_crosses_many_pages(self, store: ObjectStore) -> None:
        keys = [f"data/{n // 100:03}/{n:05}" for n in range(1050)]
        await put_all(store, keys)

        assert await keys_of(store) == keys
        assert await keys_of(store, "data/007/", start_after="data/007/00750") == keys[751:800]

    # -- delete -------------------------------------------------------------------------------------

    async def test_deleted_objects_are_gone_and_others_stay(self, store: ObjectStore) -> None:
        await put_all(store, ["a", "b", "c/d", "c/e"])

        await store.delete(["a", "c/d"])

        assert await keys_of(store) == ["b", "c/e"]
        assert await store.head("a") is None

    async def test_deleting_what_is_missing_is_no_error(self, store: ObjectStore) -> None:
        await store.put("a", b"1")

        await store.delete(["missing", "a", "a", "also/missing"])
        await store.delete([])

        assert await keys_of(store) == []

    async def test_more_keys_than_a_server_takes_at_once_are_deleted(self, store: ObjectStore) -> None:
        keys = [f"data/{n:05}" for n in range(2100)]
        await put_all(store, keys[::7])

        await store.delete(keys)

        assert await keys_of(store) == []

    async def test_a_deleted_key_can_be_created_again(self, store: ObjectStore) -> None:
        await store.put("a/b", b"old")
        await store.delete(["a/b"])

        await store.put("a/b", b"new")

        assert await store.get("a/b") == b"new"

    # -- copy ---------------------------------------------------------------------------------------

    @pytest.mark.parametrize("data", [b"", b"x", LARGE], ids=["empty", "small", "large"])
    async def test_a_copy_has_the_same_bytes_and_its_own_life(self, store: ObjectStore, data: bytes) -> None:
        await store.put("from", data)

        etag = await store.copy("from", "folder/to")
        await store.delete(["from"])

        assert await content(store, "folder/to") == (data, etag)

    async def test_a_copy_replaces_its_target(self, store: ObjectStore) -> None:
        await store.put("from", b"new")
        await store.put("to", b"old")

        await store.copy("from", "to")

        assert await store.get("to") == b"new"

    async def test_a_copy_of_nothing_is_not_found_and_makes_nothing(self, store: ObjectStore) -> None:
        with pytest.raises(NotFoundError) as raised:
            await store.copy("missing", "to")

        assert raised.value.kind is ErrorKind.KEY_NOT_FOUND
        assert await store.head("to") is None

    # -- sign ---------------------------------------------------------------------------------------

    async def test_a_signed_url_gets_and_puts_the_object(self, store: ObjectStore) -> None:
        _needs(store.capabilities.sign)
        key = "folder/caf\u00e9 +%2F&?.txt"
        url = await store.sign("PUT", key, seconds=60)
        await asyncio.to_thread(fetch, "PUT", url, b"through the door")  # noqa: TID251  a test of a URL

        url = await store.sign("GET", key, seconds=60)
        got = await asyncio.to_thread(fetch, "GET", url)  # noqa: TID251

        assert got == await store.get(key) == b"through the door"

    async def test_a_signed_url_is_good_for_one_method_and_key(self, store: ObjectStore) -> None:
        _needs(store.capabilities.sign)
        await put_all(store, ["a", "b"])
        url = await store.sign("GET", "a", seconds=60)

        for method, wrong in (("PUT", url), ("GET", url.replace("/a?", "/b?"))):
            with pytest.raises(urllib.error.HTTPError):
                await asyncio.to_thread(fetch, method, wrong)  # noqa: TID251

    async def test_a_store_that_cannot_sign_says_so(self, store: ObjectStore) -> None:
        if store.capabilities.sign:
            pytest.skip("this store can sign")

        with pytest.raises(InvalidInputError) as raised:
            await store.sign("GET", "k", seconds=60)
        with pytest.raises(InvalidInputError) as raised_for_parts:
            await store.sign_parts("k", "upload", [1], seconds=60)

        assert {raised.value.kind, raised_for_parts.value.kind} == {ErrorKind.UNSUPPORTED}

    async def test_signed_urls_of_parts_make_an_object(self, store: ObjectStore) -> None:
        _needs(store.capabilities.sign and store.capabilities.multipart)
        key = "folder/caf\u00e9 +%2F&?.txt"
        upload = await store.create_upload(key)
        pieces = {1: b"1" * PART, 7: b"last"}
        urls = await store.sign_parts(key, upload, list(pieces), seconds=60)
        for url, data in zip(urls, pieces.values(), strict=True):
            await asyncio.to_thread(fetch, "PUT", url, data)  # noqa: TID251  a test of a URL
        parts = [Part(number, md5_etag(data), len(data)) for number, data in pieces.items()]
        await store.complete_upload(key, upload, parts)

        assert await store.get(key) == b"".join(pieces.values())

    async def test_a_signed_url_of_a_part_is_good_for_that_part(self, store: ObjectStore) -> None:
        _needs(store.capabilities.sign and store.capabilities.multipart)
        upload = await store.create_upload("k")
        (url,) = await store.sign_parts("k", upload, [1], seconds=60)

        with pytest.raises(urllib.error.HTTPError):
            await asyncio.to_thread(fetch, "PUT", url.replace("partNumber=1", "partNumber=2"), b"x")  # noqa: TID251
        for number in (0, 10_001):
            with pytest.raises(InvalidInputError):
                await store.sign_parts("k", upload, [number], seconds=60)
        await store.abort_upload("k", upload)

    # -- multipart ----------------------------------------------------------------------------------

    async def test_parts_become_one_object(self, store: ObjectStore) -> None:
        _needs(store.capabilities.multipart)
        upload = await store.create_upload("k")
        pieces = {3: b"three", 1: b"1" * PART, 2: b"2" * PART}
        parts = [await store.put_part("k", upload, number, data) for number, data in pieces.items()]
        assert await store.head("k") is None

        etag = await store.complete_upload("k", upload, sorted(parts, key=lambda part: part.number))

        assert await content(store, "k") == (pieces[1] + pieces[2] + pieces[3], etag)
        assert [part.size_bytes for part in parts] == [len(data) for data in pieces.values()]

    @pytest.mark.parametrize("size", [0, 1, 3 * MIB, 9 * MIB + 1])
    async def test_a_part_can_be_streamed(self, store: ObjectStore, size: int) -> None:
        _needs(store.capabilities.multipart)
        upload = await store.create_upload("k")
        data = bytes(range(251)) * (size // 251 + 1)

        part = await store.put_part_stream("k", upload, 1, stream_of([data[:size]]), size_bytes=size)

        assert (part.number, part.size_bytes) == (1, size)
        await store.complete_upload("k", upload, [part])
        assert await store.get("k") == data[:size]

    @pytest.mark.parametrize("size", [1, MIB, 3 * MIB, 3 * MIB + 1])
    async def test_a_stream_that_breaks_at_its_end_leaves_the_part_as_it_was(
        self, store: ObjectStore, size: int
    ) -> None:
        _needs(store.capabilities.multipart)
        upload = await store.create_upload("k")
        kept = await store.put_part("k", upload, 1, b"kept")

        with pytest.raises(ZeroDivisionError):
            await store.put_part_stream("k", upload, 1, broken_stream(size), size_bytes=size)
        for wrong in (size - 1, size + 1):
            with pytest.raises(InvalidInputError):
                await store.put_part_stream("k", upload, 1, stream_of([b"x" * size]), size_bytes=wrong)

        await store.complete_upload("k", upload, [kept])
        assert await store.get("k") == b"kept"

    async def test_only_the_parts_given_count(self, store: ObjectStore) -> None:
        _needs(store.capabilities.multipart)
        upload = await store.create_upload("k")
        first, _, last = [await store.put_part("k", upload, n, b"%d" % n * PART) for n in (1, 2, 9)]

        await store.complete_upload("k", upload, [first, last])

        assert await store.get("k") == b"1" * PART + b"9" * PART

    async def test_a_part_is_copied_from_an_object(self, store: ObjectStore) -> None:
        _needs(store.capabilities.multipart)
        await store.put("folder/caf\u00e9 +%2F&?.txt", b"0" * PART + b"123456")
        upload = await store.create_upload("k")
        parts = [
            await store.copy_part("k", upload, number, "folder/caf\u00e9 +%2F&?.txt", byte_range=byte_range)
            for number, byte_range in ((1, None), (2, ByteRange(PART + 1, PART + 3)))
        ]

        await store.complete_upload("k", upload, parts)
        assert await store.get("k") == b"0" * PART + b"123456" + b"23"
        assert [part.size_bytes for part in parts] == [PART + 6, 2]

    async def test_a_part_of_no_object_or_no_upload_is_not_found(self, store: ObjectStore) -> None:
        _needs(store.capabilities.multipart)
        await store.put("source", b"x")
        upload = await store.create_upload("k")

        with pytest.raises(NotFoundError) as raised:
            await store.copy_part("k", upload, 1, "missing")
        assert raised.value.kind is ErrorKind.KEY_NOT_FOUND
        with pytest.raises(InvalidInputError) as past:
            await store.copy_part("k", upload, 1, "source", byte_range=ByteRange(1))
        assert past.value.kind is ErrorKind.RANGE_NOT_SATISFIABLE
        await store.abort_upload("k", upload)
        with pytest.raises(NotFoundError) as gone:
            await store.copy_part("k", upload, 1, "source")
        assert gone.value.kind is ErrorKind.UPLOAD_NOT_FOUND

    async def test_a_part_sent_again_replaces_the_first(self, store: ObjectStore) -> None:
        _needs(store.capabilities.multipart)
        upload = await store.create_upload("k")
        await store.put_part("k", upload, 1, b"old" * PART)
        part = await store.put_part("k", upload, 1, b"new")

        await store.complete_upload("k", upload, [part])

        assert await store.get("k") == b"new"

    async def test_a_part_that_was_replaced_does_not_complete(self, store: ObjectStore) -> None:
        _needs(store.capabilities.multipart and not self.keeps_replaced_parts)
        upload = await store.create_upload("k")
        old = await store.put_part("k", upload, 1, b"old")
        await store.put_part("k", upload, 1, b"new")

        with pytest.raises(InvalidInputError):
            await store.complete_upload("k", upload, [old])

        assert await store.head("k") is None

    async def test_parts_out_of_order_or_none_are_refused(self, store: ObjectStore) -> None:
        _needs(store.capabilities.multipart)
        upload = await store.create_upload("k")
        parts = [await store.put_part("k", upload, n, b"x" * PART) for n in (1, 2)]

        for wrong in ([], [parts[1], parts[0]], [parts[0], parts[0]]):
            with pytest.raises(InvalidInputError):
                await store.complete_upload("k", upload, wrong)
        for number in (0, -1, 10_001):
            with pytest.raises(InvalidInputError):
                await store.put_part("k", upload, number, b"x")

    async def test_an_upload_survives_the_process(self, store: ObjectStore) -> None:
        _needs(store.capabilities.multipart)
        upload = await store.create_upload("folder/k")
        first = await store.put_part("folder/k", upload, 1, b"1" * PART)
        again = await self.reopen(store)

        second = await again.put_part("folder/k", upload, 2, b"2")
        await again.complete_upload("folder/k", upload, [first, second])

        assert await again.get("folder/k") == b"1" * PART + b"2"

    async def test_an_aborted_upload_is_gone(self, store: ObjectStore) -> None:
        _needs(store.capabilities.multipart)
        upload = await store.create_upload("k")
        part = await store.put_part("k", upload, 1, b"x")

        await store.abort_upload("k", upload)
        await store.abort_upload("k", upload)

        with pytest.raises(NotFoundError):
            await store.put_part("k", upload, 2, b"x")
        with pytest.raises(NotFoundError):
            await store.complete_upload("k", upload, [part])
        assert await keys_of(store) == []

    async def test_a_completed_upload_is_gone(self, store: ObjectStore) -> None:
        _needs(store.capabilities.multipart)
        upload = await store.create_upload("k")
        part = await store.put_part("k", upload, 1, b"x")
        await store.complete_upload("k", upload, [part])

        with pytest.raises(NotFoundError):
            await store.put_part("k", upload, 1, b"y")

    async def test_open_uploads_are_listed_until_they_end(self, store: ObjectStore) -> None:
        _needs(store.capabilities.multipart)
        assert await uploads_of(store) == []
        uploads = [await store.create_upload(key) for key in ("data/a", "data/a", "data/b c+%2F", "x")]
        await store.put_part("data/a", uploads[0], 1, b"x")
        part = await store.put_part("x", uploads[3], 1, b"x")
        again = await self.reopen(store)

        opened = await uploads_of(again)
        await store.complete_upload("x", uploads[3], [part])
        await store.abort_upload("data/a", uploads[0])
        left = await uploads_of(store)
        for each in left:
            await store.abort_upload(each.key, each.upload)

        assert set(opened) == {
            OpenUpload("data/a", uploads[0]),
            OpenUpload("data/a", uploads[1]),
            OpenUpload("data/b c+%2F", uploads[2]),
            OpenUpload("x", uploads[3]),
        }
        assert set(left) == set(opened) - {each for each in opened if each.upload in uploads[::3]}
        assert await uploads_of(store) == []

    async def test_a_store_that_holds_something_is_not_removed(self, store: ObjectStore) -> None:
        assert await store.remove_if_empty()
        await store.put("data/k", b"1")

        assert await store.remove_if_empty()

        assert await store.get("data/k") == b"1"
        await store.delete(["data/k"])
        if store.capabilities.multipart:
            upload = await store.create_upload("k")
            assert await store.remove_if_empty()
            part = await store.put_part("k", upload, 1, b"x")
            await store.complete_upload("k", upload, [part])
            assert await store.get("k") == b"x"

    async def test_a_removed_store_can_be_used_again(self, store: ObjectStore) -> None:
        await store.put("k", b"1")
        await store.delete(["k"])

        assert await store.remove_if_empty()

        assert (await keys_of(store), await store.head("k")) == ([], None)
        await store.put("k", b"2")
        assert await (await self.reopen(store)).get("k") == b"2"

    @pytest.mark.parametrize("upload", ["nothing", "../../etc", "", "0" * 20, "a/b"])
    async def test_a_part_of_no_upload_is_not_found(self, store: ObjectStore, upload: str) -> None:
        _needs(store.capabilities.multipart)
        with pytest.raises(NotFoundError):
            await store.put_part("k", upload or "none", 1, b"x")
        with pytest.raises(NotFoundError):
            await store.complete_upload("k", upload or "none", [Part(1, ETag("e"), 1)])
        await store.abort_upload("k", upload or "none")

    async def test_an_upload_belongs_to_its_key(self, store: ObjectStore) -> None:
        _needs(store.capabilities.multipart)
        upload = await store.create_upload("k")

        with pytest.raises(NotFoundError):
            await store.put_part("other", upload, 1, b"x")

    async def test_an_upload_shows_in_no_listing(self, store: ObjectStore) -> None:
        _needs(store.capabilities.multipart)
        upload = await store.create_upload("k")
        await store.put_part("k", upload, 1, b"x")

        assert await keys_of(store) == []

    # -- keys ---------------------------------------------------------------------------------------

    @pytest.mark.parametrize("name", STRANGE_KEYS)
    async def test_a_strange_key_is_kept_exactly_or_refused(self, store: ObjectStore, name: str) -> None:
        key = STRANGE_KEYS[name]
        _needs(not self.is_spoilt(key))
        await store.put("other", b"other")
        if self.refuses(key):
            for call in (store.put(key, b"x"), store.copy("other", key), store.create_upload(key)):
                with pytest.raises(InvalidInputError) as raised:
                    await call
                assert raised.value.kind is ErrorKind.INVALID_KEY
            assert await keys_of(store) == ["other"]
            return

        etag = await store.put(key, b"1")

        assert await content(store, key) == (b"1", etag)
        assert sorted(await keys_of(store)) == sorted([key, "other"])
        assert await keys_of(store, key) == [key]
        with pytest.raises(AlreadyExistsError):
            await store.put(key, b"2")
        await store.copy(key, "copied")
        await store.put(key, LARGE, when=PutMode.OVERWRITE)
        assert await store.get(key) == LARGE
        await store.delete([key])
        assert await store.head(key) is None
        assert await keys_of(store) == ["copied", "other"]

    async def test_strange_keys_do_not_meet(self, store: ObjectStore) -> None:
        kept = [key for key in STRANGE_KEYS.values() if not self.refuses(key) and not self.is_spoilt(key)]
        if self.is_folder_tree:
            kept = [key for key in kept if not any(other.startswith(f"{key}/") for other in kept)]
        await put_all(store, kept)

        assert sorted(await keys_of(store)) == sorted(kept)
        if not self.is_folder_tree:
            assert await keys_of(store) == sorted(kept)
        for key in kept:
            assert await store.get(key) == key.encode()

    @pytest.mark.parametrize("key", ["", "x" * (PATH_BYTES_MAX + 1), "é" * 513, "a\udc80"], ids=ascii)
    async def test_what_is_no_key_is_refused(self, store: ObjectStore, key: str) -> None:
        calls = (
            store.put(key, b"x"),
            store.put_stream(key, stream_of([b"x"])),
            store.get(key),
            store.head(key),
            store.delete([key]),
            store.create_upload(key),
        )
        for call in calls:
            with pytest.raises(InvalidInputError) as raised:
                await call
            assert raised.value.kind is ErrorKind.INVALID_KEY

    @pytest.mark.parametrize("order", [("a", "a/b", "a/b/c"), ("a/b/c", "a/b", "a")], ids=["down", "up"])
    @pytest.mark.parametrize("data", [b"x", LARGE], ids=["small", "large"])
    async def test_a_key_and_keys_below_it_are_objects_at_once(
        self, store: ObjectStore, order: Sequence[str], data: bytes
    ) -> None:
        if self.is_folder_tree:
            pytest.skip(_FOLDER_TREE)
        for key in order:
            await store.put(key, key.encode() + data)

        assert await keys_of(store) == ["a", "a/b", "a/b/c"]
        for key in order:
            assert await store.get(key) == key.encode() + data
        await store.delete(["a/b"])
        assert await keys_of(store) == ["a", "a/b/c"]
        await store.put("a/b", b"again")
        assert await store.get("a/b") == b"again"


PART = 5 * MIB
"""The smallest part that S3 takes, except for the last one."""


def md5_etag(data: bytes) -> ETag:
    """Return the ETag that S3 gives a part."""
    return ETag(hashlib.md5(data, usedforsecurity=False).hexdigest())


async def stream_of(pieces: Sequence[bytes]) -> AsyncIterator[bytes]:
    """Yield `pieces`."""
    for piece in pieces:
        yield piece


async def broken_stream(size: int) -> AsyncIterator[bytes]:
    """Yield `size` bytes, then fail."""
    for start in range(0, size, MIB):
        yield b"x" * min(MIB, size - start)
    raise ZeroDivisionError


async def put_all(store: ObjectStore, keys: Iterable[str]) -> None:
    """Put objects whose bytes are their keys, a few at a time."""
    waiting = list(keys)
    for start in range(0, len(waiting), 50):
        await asyncio.gather(*[store.put(key, key.encode()) for key in waiting[start : start + 50]])


async def keys_of(
    store: ObjectStore, prefix: str = "", *, start_after: str = "", page_items_max: int = 1000
) -> list[str]:
    """Return the keys of a listing."""
    pages = store.list(prefix, start_after=start_after, page_items_max=page_items_max)
    return [info.key async for page in pages for info in page]


async def content(store: ObjectStore, key: str) -> tuple[bytes, ETag]:
    """Return the bytes and the ETag."""
    return await store.get(key), (await head(store, key)).etag


async def head(store: ObjectStore, key: str) -> ObjectInfo:
    """Return what is known of an object that is there."""
    found = await store.head(key)
    assert found is not None
    return found


async def uploads_of(store: ObjectStore) -> list[OpenUpload]:
    """Return the open uploads."""
    return [upload async for page in store.list_uploads() for upload in page]


def without_time(info: ObjectInfo) -> tuple[str, int, ETag]:
    """Return what does not depend on how finely a server tells time."""
    return info.key, info.size_bytes, info.etag


def fetch(method: str, url: str, data: bytes | None = None) -> bytes:
    """Do what a browser would do with a URL."""
    request = urllib.request.Request(url, data=data, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        body: bytes = answer.read()
    return body


def _needs(capability: bool) -> None:
    if not capability:
        pytest.skip("this store does not claim the capability")
