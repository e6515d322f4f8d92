"""`Uploads`: which objects were on their way while a collector was at work.

An upload stores its bytes first and stages its entry second, and until then nothing in the database names it. What
protects it in between is its age: a run leaves alone what is younger than an address is good for, unless it is a trial with
shorter ages. Such a run may list an upload that is under way, once: the next mark that could confirm it comes a grace
later, and meets the entry.

Only what was really on its way counts: stored before the run listed the store, and named by nobody before the run
began. Whoever moves (a link, a copy, an upload in parts) was named before, and a run must see it wherever it goes.
"""

from collections.abc import Iterable

from lakebed.format.gc import run_folder


class Uploads:
    """The objects of one repository, by the run that went on when each was named for the first time."""

    def __init__(self) -> None:
        self._run = ""
        self._first_named: dict[str, str] = {}
        self._has_listed = False
        """Whether the newest run has listed the store."""
        self._stored: set[str] = set()
        self._late: set[str] = set()
        """Objects that were stored after that, for the first time."""

    def began(self, run: str) -> None:
        """Note that a run has the lease, perhaps for some time already."""
        if run != self._run:
            self._run, self._has_listed, self._late = run, False, set()

    def stored(self, key: str) -> None:
        """Note that something was stored."""
        # The store is listed before anything is asked of the server.
        self._has_listed = self._has_listed or key.startswith(f"{run_folder(self._run)}uncommitted/")
        if self._has_listed and key not in self._stored:
            self._late.add(key)
        self._stored.add(key)

    def named(self, addresses: Iterable[str]) -> None:
        """Note that the database names objects."""
        for address in addresses:
            self._first_named.setdefault(address, self._run)

    def under_way(self, run: str) -> set[str]:
        """Return what was on its way when a run began, and has come to its end since."""
        return {address for address, first in self._first_named.items() if first == run} - self._late
