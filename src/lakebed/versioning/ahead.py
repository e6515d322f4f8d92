"""`ReadAhead`: what a ref in use shows anew is fetched before somebody waits for it.

Compaction and other processes put files under a branch that this process has never seen: a new tree, new segments. The
next reader would fetch and decode them, a tenth of a second for each range. So a server looks once in a while, beside
its requests, whether refs that it was lately asked for show something new, and opens the files that came with it.

It only saves time, so it is bounded and forgetful: refs of the last minute, some files each round, those in the place of
files that are open first. What does not fit is left to whoever reads it; a file that cannot be had is theirs to report.
"""

from bisect import bisect_left
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from itertools import islice

from lakebed.committed.pipeline import in_order
from lakebed.committed.trees import Trees
from lakebed.errors import LakebedError
from lakebed.format.metaranges import RangeInfo
from lakebed.limits import (
    READ_AHEAD_AT_ONCE,
    READ_AHEAD_BYTES_MAX,
    READ_AHEAD_FILES_MAX,
    READ_AHEAD_REFS_MAX,
    READ_AHEAD_SECONDS,
    READ_AHEAD_USE_SECONDS,
)
from lakebed.model.branch import Branch
from lakebed.model.ids import MetarangeId
from lakebed.model.layers import SegmentLayer, layer_name
from lakebed.model.repository import Repository
from lakebed.telemetry.log import get_logger
from lakebed.versioning.parts import Parts
from lakebed.versioning.readings import Reading, Readings, Ref

log = get_logger(__name__)

Fetch = Callable[[], Awaitable[object]]


class ReadAhead:
    """Fetches for the readers of one process."""

    def __init__(self, parts: Parts, readings: Readings) -> None:
        self._parts = parts
        self._readings = readings
        self._used: dict[Ref, float] = {}
        self._shown: dict[Ref, Reading] = {}

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            await self._parts.clock.sleep(READ_AHEAD_SECONDS * self._parts.ids.jitter())
            try:
                await self.once()
            except LakebedError as error:
                log.debug("read_ahead_failed", kind=error.kind, error=str(error))

    async def once(self) -> int:
        """Fetch what refs in use show anew, and return how many files were asked for."""
        current = await self._readings.current(self._in_use())
        before, self._shown = self._shown, current
        fetches: list[Fetch] = []
        for ref, reading in current.items():
            shown = before.get(ref)
            if shown is not None and shown.repo.uid == reading.repo.uid and shown.source != reading.source:
                fetches += await self._fresh(shown, reading)
        for reading in current.values():
            if reading.source.branch is not None:
                await self._parts.staging.reader.learn(reading.source.branch)
        del fetches[READ_AHEAD_FILES_MAX:]
        async for _ in in_order(_each(fetches), _attempt, ahead=READ_AHEAD_AT_ONCE):
            pass
        return len(fetches)

    def _in_use(self) -> list[Ref]:
        """Return the refs that were read lately, the last ones first."""
        now = self._parts.clock.monotonic()
        used = dict.fromkeys(self._readings.take_used(), now)
        for ref, at in self._used.items():
            if now - at < READ_AHEAD_USE_SECONDS:
                used.setdefault(ref, at)
        self._used = dict(islice(used.items(), READ_AHEAD_REFS_MAX))
        return list(self._used)

    async def _fresh(self, before: Reading, after: Reading) -> list[Fetch]:
        """Return what to fetch for what `after` shows and `before` did not: segments, newest first, then ranges."""
        repo = after.repo
        fetches: list[Fetch] = [
            self._segment(repo, layer) for layer in _fresh_segments(before.source.branch, after.source.branch)
        ]
        if before.source.tree == after.source.tree:
            return fetches
        trees = await self._parts.trees_of(repo)
        old = await _ranges(trees, before.source.tree)
        new = await _ranges(trees, after.source.tree)
        return fetches + [_range(trees, info) for info in fresh_ranges(old, new, trees.is_open)]

    def _segment(self, repo: Repository, layer: SegmentLayer) -> Fetch:
        return lambda: self._parts.segments.open(repo, layer)


def fresh_ranges(
    old: Sequence[RangeInfo], new: Sequence[RangeInfo], is_open: Callable[[RangeInfo], bool]
) -> list[RangeInfo]:
    """Return the ranges of a tree that the one before it did not have: those in the place of open ones first."""
    known = {info.id for info in old}
    max_keys = [info.max_key for info in old]

    def replaces_open(info: RangeInfo) -> bool:
        # A range that begins after the last old one has taken what was added at its end.
        first = min(bisect_left(max_keys, info.min_key), len(old) - 1)
        return any(is_open(each) for each in _reaching(old, first, info.max_key))

    fresh = [info for info in new if info.id not in known]
    warm = [bool(old) and replaces_open(info) for info in fresh]
    return [
        info
        for wanted in (True, False)
        for info, is_warm in zip(fresh, warm, strict=True)
        if is_warm is wanted
    ]


def _reaching(old: Sequence[RangeInfo], first: int, max_key: str) -> Iterator[RangeInfo]:
    yield old[first]
    for info in islice(old, first + 1, None):
        if info.min_key > max_key:
            return
        yield info


def _fresh_segments(before: Branch | None, after: Branch | None) -> list[SegmentLayer]:
    if after is None:
        return []
    known = set(map(layer_name, before.sealed)) if before is not None else set()
    return [
        layer
        for layer in after.sealed
        if isinstance(layer, SegmentLayer)
        and layer.bytes <= READ_AHEAD_BYTES_MAX
        and layer_name(layer) not in known
    ]


def _range(trees: Trees, info: RangeInfo) -> Fetch:
    return lambda: trees.range(info)


async def _ranges(trees: Trees, tree: MetarangeId) -> Sequence[RangeInfo]:
    try:
        return await trees.ranges(tree)
    except LakebedError:
        return ()


async def _attempt(fetch: Fetch) -> None:
    try:
        await fetch()
    except LakebedError as error:
        log.debug("not_read_ahead", kind=error.kind, error=str(error))


async def _each(fetches: Sequence[Fetch]) -> AsyncGenerator[Fetch, None]:
    for fetch in fetches:
        yield fetch
