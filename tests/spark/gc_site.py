"""A repository with every kind of garbage in it and everything that looks like it, all of it long ago.

It is made by an engine whose clock is behind: what a server keeps for a day, or for a grace, is over when a real one
starts on the folder.
"""

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

import msgspec

from lakebed.catalog.links import Issued, Linked
from lakebed.env.clock import Instant, SystemClock, after
from lakebed.limits import DELETE_BATCH
from lakebed.model.entries import Entry
from lakebed.model.gc_rules import GcRules
from lakebed.model.ids import BranchName, parse_path
from lakebed.server.config import Config
from lakebed.server.installation import open_installation
from lakebed.server.wiring import Wired
from lakebed.testing.lake import COMMIT

REPO = "shop"
DAY = 24 * 3600.0
MANY = DELETE_BATCH + DELETE_BATCH // 2
"""Objects that were deleted: more than a sweep deletes at once, so that it can be met in the middle."""


class LongAgo(SystemClock):
    """The machine's clock, ten days behind."""

    def now(self) -> Instant:
        return after(super().now(), -10 * DAY)


@dataclass(frozen=True)
class Site:
    """A folder for a server, and what of its namespace is garbage and what is not."""

    folder: Path
    imported: Path
    """An object outside the namespace."""
    garbage: set[str] = field(default_factory=set)
    live: set[str] = field(default_factory=set)
    paths: dict[str, set[str]] = field(default_factory=dict)
    """What a reader sees, by ref."""

    @property
    def namespace(self) -> Path:
        return self.folder / "data" / "objects" / REPO

    def copied_to(self, folder: Path) -> "Site":
        """Return the same in another folder, for a test to collect."""
        shutil.copytree(self.folder, folder)
        return replace(self, folder=folder)

    def put(self, address: str, content: bytes = b"x") -> str:
        path = self.namespace / address
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return address

    def stored(self) -> set[str]:
        """Return everything in the namespace that is not lakebed's own."""
        found = {
            path.relative_to(self.namespace).as_posix()
            for path in self.namespace.rglob("*")
            if path.is_file()
        }
        return {name for name in found if not name.startswith(("_lakebed/", ".lakebed/"))}

    def is_being_swept(self) -> bool:
        """Return whether some of what there is much of is gone: a look that costs little."""
        (folder,) = {(self.namespace / each).parent for each in self.garbage if "/many" in each}
        return sum(path.name.startswith("many") for path in folder.iterdir()) < MANY

    def check_nothing_live_is_gone(self) -> None:
        assert self.live - self.stored() == set()
        assert self.imported.read_bytes() == b"outside"


async def make_site(folder: Path) -> Site:
    """Make a repository, ten days ago."""
    site = Site(folder, folder / "imports" / "outside")
    site.imported.parent.mkdir(parents=True)
    site.imported.write_bytes(b"outside")
    config = Config(data=folder / "data", import_prefixes=(f"local://{site.imported.parent}",))
    with patch("lakebed.server.installation.SystemClock", LongAgo):
        async with open_installation(config) as wired:
            await wired.catalog.repositories.create(REPO, f"local://{REPO}")
            await _Maker(site, wired).make()
    async with open_installation(config) as wired:
        # A server would do so in its first minutes: what has left its place is kept no longer.
        assert (await wired.cleaner.clean_once(await wired.engine.parts.kv.now())).failed == 0
    return site


class _Maker:
    def __init__(self, site: Site, wired: Wired) -> None:
        self._site = site
        self._catalog = wired.catalog
        self._wired = wired

    async def make(self) -> None:
        await self._commits()
        await self._staging()
        await self._links()
        await self._old_layouts()
        await self._special_paths()
        site = self._site
        for number in range(MANY):
            site.garbage.add(site.put(f"data/{self._slice()}/many{number:016}"))
        rules = GcRules(default_days=1)
        await self._catalog.settings.set_gc_rules(REPO, rules)

    async def _commits(self) -> None:
        """Commits that expire, that a tag holds, and that nothing reaches."""
        site, catalog = self._site, self._catalog
        await self._upload("main", "kept", live=True)
        await self._upload("main", "changed", live=False)
        await self._commit("main")
        await self._upload("main", "changed", live=True)
        tagged = await self._commit("main")
        await catalog.tags.create(REPO, "v1", tagged)
        await self._upload("main", "changed", live=False)
        await self._commit("main")
        await self._upload("main", "changed", live=True)
        await self._commit("main")
        await catalog.branches.create(REPO, "deleted", "main")
        await self._upload("deleted", "committed", live=False)
        await self._commit("deleted")
        await self._upload("deleted", "staged", live=False)
        await catalog.branches.delete(REPO, "deleted")
        await catalog.branches.create(REPO, "moved", "main")
        await self._upload("moved", "dangling", live=False)
        await self._commit("moved")
        await catalog.branches.hard_reset(REPO, "moved", "main")
        await catalog.branches.create(REPO, "unseen", "main", hidden=True)
        await self._upload("unseen", "committed", live=True)
        await self._commit("unseen")
        await self._upload("unseen", "staged", live=True)
        site.paths["unseen"] = {"kept", "changed", "committed", "staged"}
        site.paths["v1"] = site.paths["moved"] = {"kept", "changed"}

    async def _staging(self) -> None:
        """Objects that were staged and are no longer, that are in two places, and one that is not ours."""
        site, catalog = self._site, self._catalog
        await self._upload("main", "gone", live=False)
        await catalog.objects.delete(REPO, "main", ["gone"])
        await self._upload("main", "overwritten", live=False)
        await self._upload("main", "overwritten", live=True)
        await catalog.branches.create(REPO, "reset", "main")
        await self._upload("reset", "staged", live=False)
        await catalog.branches.reset(REPO, "reset")
        await self._upload("main", "original", live=True)
        await catalog.objects.copy(REPO, "main", "copied", source_path="original", shallow=True)
        await catalog.objects.delete(REPO, "main", ["original"])
        entry = Entry(
            path=parse_path("outside"),
            address=f"local://{site.imported}",
            checksum="c",
            size_bytes=7,
            mtime=Instant(0),
            content_type="",
            metadata={},
        )
        await catalog.objects.stage(REPO, "main", [entry])
        site.paths["main"] = {"kept", "changed", "overwritten", "copied", "outside"}

    async def _links(self) -> None:
        """Addresses that were given out: one never used, one used twice."""
        site, catalog = self._site, self._catalog
        site.garbage.add(self._written(await catalog.links.issue(REPO, "main", "never")))
        issued = await catalog.links.issue(REPO, "main", "linked")
        site.live.add(self._written(issued))
        linked = Linked(address=issued.address, checksum="c", size_bytes=1, content_type="", metadata={})
        for _ in range(2):
            await catalog.links.link(REPO, "main", "linked", linked)
        site.paths["main"].add("linked")

    async def _old_layouts(self) -> None:
        """Objects that lie in no slice."""
        site, wired = self._site, self._wired
        site.garbage.update({site.put("data/loose"), site.put("loose"), site.put("data/folder/loose")})
        site.live.update({site.put("data/used"), site.put("used"), site.put("data/folder/used")})
        repo = await self._catalog.repositories.get(REPO)
        like = await self._catalog.objects.stat(REPO, "main", "kept")
        for number, address in enumerate(["data/used", "used", "data/folder/used"]):
            path = parse_path(f"old{number}")
            entry = msgspec.structs.replace(like, path=path, address=address)
            await wired.engine.parts.staging.write(repo, BranchName("main"), [entry])
            site.paths["main"].add(path)
        await self._commit("main")

    async def _special_paths(self) -> None:
        """What others keep in a namespace."""
        site = self._site
        site.live.update({site.put("dummy"), site.put("_lakefs/retention/x"), site.put("theirs/object")})

    async def _upload(self, branch: str, path: str, *, live: bool) -> None:
        entry = await self._catalog.objects.upload(REPO, branch, path, b"%d" % len(self._all()))
        (self._site.live if live else self._site.garbage).add(entry.address)

    def _all(self) -> set[str]:
        return self._site.live | self._site.garbage

    async def _commit(self, branch: str) -> str:
        return (await self._catalog.commits.commit(REPO, branch, COMMIT)).id

    def _written(self, issued: Issued) -> str:
        address: str = issued.address.partition(f"/{REPO}/")[2]
        return self._site.put(address)

    def _slice(self) -> str:
        (some, *_) = (address for address in self._site.live if address.count("/") == 2)
        return some.split("/")[1]
