"""A scenario of writes to a folder, and what must be left of them after a power cut."""

import asyncio
import gc
import random  # noqa: TID251  seeds of luck
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from lakebed.env.ids import SeededIds
from lakebed.env.work import InlineWorkers
from lakebed.errors import InvalidInputError, NotFoundError
from lakebed.limits import SMALL_OBJECT_BYTES_MAX
from lakebed.objects.drivers.local import LocalObjects
from lakebed.objects.port import ETag, Part, PutMode
from lakebed.testing.fake_disk import ForgetfulDisk, Luck

LARGE = b"large" * (SMALL_OBJECT_BYTES_MAX // 5 + 1)
GONE = None
_DEATHS = count()


@dataclass
class Promises:
    """What has been acknowledged, and what is under way."""

    kept: dict[str, tuple[bytes, ETag]] = field(default_factory=dict)
    pending: dict[str, bytes | None] = field(default_factory=dict)
    uploads: dict[str, tuple[str, list[Part], bytes]] = field(default_factory=dict)


class Scenario:
    """Writes of every kind, one after another. Small journals, so that they are replaced often."""

    def __init__(self, base: Path, disk: ForgetfulDisk) -> None:
        self.promises = Promises()
        self.store = open_root(base, disk)

    async def run(self) -> AsyncIterator[str]:
        """Do everything; yield after each acknowledged step."""
        for name, step in self._steps():
            await step()
            await self._rotated()
            yield name

    def _steps(self) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        return [
            ("small", lambda: self.put("data/s/1", b"one")),
            ("small again", lambda: self.put("data/s/1", b"uno", when=PutMode.OVERWRITE)),
            ("several", lambda: self.put_several(["data/s/2", "data/s/3", "data/t/4", "a//b"])),
            ("large in new folders", lambda: self.put("data/u/v/5", LARGE)),
            ("large over small", lambda: self.put("data/s/1", LARGE, when=PutMode.OVERWRITE)),
            ("deleted", lambda: self.delete("data/s/1", "data/s/2")),
            ("large after deleted", lambda: self.put("data/s/2", LARGE + b"2")),
            ("small after deleted", lambda: self.put("data/s/1", b"eins")),
            ("fill the journal", lambda: self.put_several([f"fill/{n}" for n in range(8)])),
            (
                "over what only the old journal knew",
                lambda: self.put("data/s/3", b"3", when=PutMode.OVERWRITE),
            ),
            ("copied", lambda: self.copy("data/s/1", "data/copy")),
            ("a file where a folder was", lambda: self.delete("fill/1", *[f"fill/{n}" for n in range(8)])),
            ("named like it", lambda: self.put("fill", b"a file now")),
            ("and below it", lambda: self.put("fill/1", b"hidden")),
            ("upload", self.begin_upload),
            ("part", lambda: self.put_part(1, b"first")),
            ("another part", lambda: self.put_part(2, b"second")),
            ("large below a file", lambda: self.put("data/copy/x", LARGE)),
            ("fill it again", lambda: self.put_several([f"more/{n}" for n in range(8)])),
            ("small over large", lambda: self.put("data/u/v/5", b"small", when=PutMode.OVERWRITE)),
            ("completed", self.complete),
            ("deleted for good", lambda: self.delete("data/copy/x", "data/copy", "more/0")),
            ("once more", lambda: self.put_several([f"again/{n}" for n in range(8)])),
            ("last", lambda: self.put("data/s/1", b"last", when=PutMode.OVERWRITE)),
        ]

    async def run_again_and_again(self) -> None:
        """Change the same keys often enough for several journals."""
        for n in range(4):
            await self.put("k", b"%d" % n * 300, when=PutMode.OVERWRITE)
            await self.put("gone", b"%d" % n * 300)
            await self.delete("gone")
            await self.put("large", LARGE + b"%d" % n, when=PutMode.OVERWRITE)
            await self._rotated()

    async def put(self, key: str, data: bytes, *, when: PutMode = PutMode.CREATE) -> None:
        self.promises.pending[key] = data
        etag = await self.store.put(key, data, when=when)
        self.promises.kept[key] = data, etag
        del self.promises.pending[key]

    async def put_several(self, keys: list[str]) -> None:
        await asyncio.gather(*[self.put(key, key.encode() * 20) for key in keys])

    async def delete(self, *keys: str) -> None:
        self.promises.pending |= dict.fromkeys(keys, GONE)
        await self.store.delete(keys)
        for key in set(keys):
            self.promises.kept.pop(key, None)
            del self.promises.pending[key]

    async def copy(self, source: str, target: str) -> None:
        data, _ = self.promises.kept[source]
        self.promises.pending[target] = data
        self.promises.kept[target] = data, await self.store.copy(source, target)
        del self.promises.pending[target]

    async def begin_upload(self) -> None:
        self.promises.uploads["up/load"] = await self.store.create_upload("up/load"), [], b""

    async def put_part(self, number: int, data: bytes) -> None:
        upload, parts, before = self.promises.uploads["up/load"]
        part = await self.store.put_part("up/load", upload, number, data)
        self.promises.uploads["up/load"] = upload, [*parts, part], before + data

    async def complete(self) -> None:
        upload, parts, data = self.promises.uploads.pop("up/load")
        self.promises.pending["up/load"] = data
        self.promises.kept["up/load"] = data, await self.store.complete_upload("up/load", upload, parts)
        del self.promises.pending["up/load"]

    async def _rotated(self) -> None:
        if self.store._rotation is not None:
            await self.store._rotation


def open_root(base: Path, disk: ForgetfulDisk) -> LocalObjects:
    return LocalObjects(
        base / "new" / "root",
        disk=disk,
        workers=InlineWorkers(),
        ids=SeededIds(id(disk)),
        journal_bytes_max=800,
    )


def die(store: LocalObjects) -> None:
    """Let go of a store as a dying process does: its files close, and nothing else happens."""
    store._opened = None
    if next(_DEATHS) % 20 == 0:
        gc.collect()  # Tracebacks of the power cut keep files open in cycles.


async def broken_promises(base: Path, disk: ForgetfulDisk, promises: Promises) -> list[str]:
    """Open what a power cut left at `base`; return what is not as it was acknowledged."""
    store = open_root(base, disk)
    found = {info.key: info.etag async for page in store.list() for info in page}
    broken = []
    for key in found.keys() | promises.kept.keys():
        data = await store.get(key) if key in found else None
        kept = promises.kept.get(key)
        if key in promises.pending and data == promises.pending[key]:
            continue  # What was under way may count, if it counts whole.
        if kept is None and data is not None:
            broken.append(f"{key} is there")
        elif kept is not None and (data != kept[0] or found[key] != kept[1]):
            broken.append(f"{key} is {'gone' if data is None else data[:20]}, not {kept[0][:20]!r}")
    for key, (upload, parts, data) in promises.uploads.items():
        broken += await _broken_upload(store, key, upload, parts, data)
    await store.close()
    return broken


async def _broken_upload(
    store: LocalObjects, key: str, upload: str, parts: list[Part], data: bytes
) -> list[str]:
    try:
        parts = parts or [await store.put_part(key, upload, 1, data)]
        await store.complete_upload(key, upload, parts)
    except (InvalidInputError, NotFoundError) as error:
        return [f"the upload of {key}: {error}"]
    return [] if await store.get(key) == data else [f"the upload of {key} is spoilt"]


def lucks(seeds: int) -> list[Luck]:
    """No luck at all, and so many kinds of it."""
    return [lambda: False, *[_luck(seed) for seed in range(seeds)]]


def _luck(seed: int) -> Luck:
    chance = random.Random(seed)
    return lambda: chance.random() < 0.5
