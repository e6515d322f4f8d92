"""`Session`: every use case, by resource, on behalf of one caller.

The edges call this and nothing below it. Each use case asks the caller before it
touches anything, so no edge can forget to. A session is cheap: one for each request.
"""

from lakebed.auth.caller import Caller
from lakebed.catalog.branches import Branches
from lakebed.catalog.commits import Commits
from lakebed.catalog.diffs import Diffs
from lakebed.catalog.dumps import Dumps
from lakebed.catalog.engine import Engine
from lakebed.catalog.imports import Imports
from lakebed.catalog.objects import Objects
from lakebed.catalog.repositories import Repositories
from lakebed.catalog.stashes import Stashes
from lakebed.catalog.tags import Tags
from lakebed.catalog.tasks import Tasks


class Session:
    """The use cases with the permissions of `caller`."""

    __slots__ = ("_engine", "_tasks", "caller")

    def __init__(self, engine: Engine, tasks: Tasks, caller: Caller) -> None:
        self._engine = engine
        self._tasks = tasks
        self.caller = caller

    @property
    def repositories(self) -> Repositories:
        return Repositories(self._engine, self.caller)

    @property
    def branches(self) -> Branches:
        return Branches(self._engine, self.caller)

    @property
    def tags(self) -> Tags:
        return Tags(self._engine, self.caller)

    @property
    def commits(self) -> Commits:
        return Commits(self._engine, self.caller)

    @property
    def objects(self) -> Objects:
        return Objects(self._engine, self.caller)

    @property
    def diffs(self) -> Diffs:
        return Diffs(self._engine, self.caller)

    @property
    def stashes(self) -> Stashes:
        return Stashes(self._engine, self.caller)

    @property
    def dumps(self) -> Dumps:
        return Dumps(self._engine, self.caller, self._tasks)

    @property
    def imports(self) -> Imports:
        return Imports(self._engine, self.caller, self._tasks)


class Sessions:
    """Where sessions come from, and the tasks that outlive them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.tasks = Tasks(engine.parts)

    def of(self, caller: Caller) -> Session:
        """Return the use cases on behalf of `caller`."""
        return Session(self._engine, self.tasks, caller)
