"""`Sieve`: which of a branch's sealed layers may hold a path, answered in one step for all of them.

A missing path is looked for in every layer, so what a layer costs there counts as often as there are layers. A sieve
is made for the layers of a branch record: the bounds of all segments cut the keys into intervals, each with the
segments that reach into it, and the Bloom filters that are at hand, of segments and of tokens, stand in one stack. It may
say yes for nothing; it never says no for a path that is there.

Making one costs as much as some lookups without it, and a record that changes with every write would need a new
one each time. So `Sieves` makes it for layers that have been asked for before, and holds those used last, up to a
number of bytes: their filters are copies.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from lakebed.format.bloom import Bloom
from lakebed.format.bloom_stack import BloomStack
from lakebed.limits import SIEVE_BYTES_MAX, SIEVES_BYTES_MAX
from lakebed.model.branch import Branch
from lakebed.model.ids import BranchName, RepoUid, StagingToken
from lakebed.model.layers import Layer, SegmentLayer, TokenLayer
from lakebed.model.repository import Repository
from lakebed.staging.port import Segments
from lakebed.staging.token_filters import TokenFilters

# With so few layers, or so few lookups of the same ones, a sieve is not worth making.
FEW_LAYERS = 12
_FEW_LOOKUPS = 4
# What one takes beside its filters.
_OBJECTS_BYTES = 16 * 1024


class Sieve:
    """The sealed layers of one branch record. Sets of them are bits: segments first, then tokens, each newest first."""

    __slots__ = (
        "_bounds",
        "_layers",
        "_others",
        "_reach",
        "_stack",
        "_stacked",
        "_token_bits",
        "_tokens",
        "is_whole",
        "size_bytes",
    )

    def __init__(
        self,
        sealed: Sequence[Layer],
        segment_blooms: Sequence[Bloom | None],
        token_blooms: Sequence[Bloom | None],
    ) -> None:
        """Make the sieve of sealed layers, with the filters of the segments and the tokens, as far as they are known."""
        self._tokens = tuple(layer.token for layer in sealed if isinstance(layer, TokenLayer))
        blooms = (*segment_blooms, *token_blooms)
        self._layers = layers = [layer for layer in sealed if isinstance(layer, SegmentLayer)]
        self._bounds = sorted({bound for layer in layers for bound in (layer.min_key, layer.max_key)})
        self._reach = _reach(layers, self._bounds)
        stacked: dict[int, Bloom] = {}
        size = 0
        for index, bloom in enumerate(blooms):
            if bloom is not None and size + len(bloom.bits) <= SIEVE_BYTES_MAX:
                stacked[index] = bloom
                size += len(bloom.bits)
        self._stacked = list(stacked)
        self._stack = BloomStack(list(stacked.values()))
        self._others = sum(1 << index for index in range(len(blooms)) if index not in stacked)
        self._token_bits = (1 << len(blooms)) - (1 << len(layers))
        self.is_whole = None not in blooms
        self.size_bytes = size + _OBJECTS_BYTES

    def reaching(self, path: str) -> int:
        """Return the segments whose bounds `path` lies between, and all tokens."""
        at = bisect_left(self._bounds, path)
        is_bound = at < len(self._bounds) and self._bounds[at] == path
        return self._reach[2 * at + is_bound] | self._token_bits

    def may_hold(self, reaching: int, key_hash: int) -> int:
        """Return those of the layers that may hold a key of that hash; whose filter is not here may."""
        yes = reaching & self._others
        for place in self._stack.may_hold(key_hash):
            yes |= reaching & 1 << self._stacked[place]
        return yes

    def tokens(self, branch: Branch, yes: int) -> list[StagingToken]:
        """Return the staging token of a branch record that has these sealed layers, and the sealed ones among `yes`."""
        staging = [branch.staging_token] if branch.staging_token is not None else []
        return staging + [self._tokens[at] for at in _places(yes >> len(self._layers))]

    def segments(self, yes: int) -> list[SegmentLayer]:
        """Return the segments among `yes`, newest first."""
        return [self._layers[at] for at in _places(yes & ~self._token_bits)]


class Sieves:
    """The sieves of branches that are being read."""

    def __init__(
        self, segments: Segments, tokens: TokenFilters, *, bytes_max: int = SIEVES_BYTES_MAX
    ) -> None:
        self._segments = segments
        self._tokens = tokens
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[tuple[RepoUid, BranchName], _Kept] = OrderedDict()

    def find(self, repo: Repository, branch: Branch) -> Sieve | None:
        """Return the sieve of a branch record's sealed layers; None if it is not worth one yet."""
        key = (repo.uid, branch.name)
        kept = self._kept.get(key)
        if kept is None or (kept.sealed is not branch.sealed and kept.sealed != branch.sealed):
            if len(branch.sealed) <= FEW_LAYERS:
                return None
            self._keep(key, _Kept(branch.sealed))
            return None
        if kept.sieve is None or not kept.sieve.is_whole:
            kept.lookups += 1
            # One that lacks filters is made again while they come in: those of segments at longer and longer intervals,
            # those of tokens all at once.
            is_due = kept.lookups >= kept.due
            if is_due or (kept.sieve is not None and kept.learned != self._tokens.learned):
                made = _Kept(kept.sealed, self._make(repo, kept.sealed), kept.lookups)
                made.due = 2 * kept.due if is_due else kept.due
                made.learned = self._tokens.learned
                self._keep(key, made)
        self._kept.move_to_end(key)
        return self._kept[key].sieve

    def _make(self, repo: Repository, sealed: tuple[Layer, ...]) -> Sieve:
        return Sieve(
            sealed,
            [self._segments.bloom(repo, layer) for layer in sealed if isinstance(layer, SegmentLayer)],
            [self._tokens.find(layer.token) for layer in sealed if isinstance(layer, TokenLayer)],
        )

    def _keep(self, key: tuple[RepoUid, BranchName], kept: "_Kept") -> None:
        self._drop(key)
        self._kept[key] = kept
        self._bytes += kept.size_bytes
        while self._bytes > self._bytes_max and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[RepoUid, BranchName]) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= kept.size_bytes


class _Kept:
    """A branch's sealed layers, how often they were asked for, and their sieve once there is one."""

    __slots__ = ("due", "learned", "lookups", "sealed", "sieve")

    def __init__(self, sealed: tuple[Layer, ...], sieve: Sieve | None = None, lookups: int = 0) -> None:
        self.sealed = sealed
        self.sieve = sieve
        self.lookups = lookups
        self.due = _FEW_LOOKUPS
        self.learned = 0

    @property
    def size_bytes(self) -> int:
        return self.sieve.size_bytes if self.sieve is not None else _OBJECTS_BYTES


def _places(bits: int) -> Iterator[int]:
    """Yield which bits are set, the lowest first."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _reach(layers: Sequence[SegmentLayer], bounds: list[str]) -> list[int]:
    """Return the layers that reach into each interval: before bound i at 2 * i, at bound i itself at 2 * i + 1."""
    place = {bound: index for index, bound in enumerate(bounds)}
    begin, end = [0] * len(bounds), [0] * len(bounds)
    for index, layer in enumerate(layers):
        begin[place[layer.min_key]] |= 1 << index
        end[place[layer.max_key]] |= 1 << index
    reach, active = [0], 0
    for at in range(len(bounds)):
        active |= begin[at]
        reach.append(active)
        active &= ~end[at]
        reach.append(active)
    return reach
