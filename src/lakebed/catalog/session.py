"""`Session`: every use case, by resource, on behalf of one caller.

The edges call this and nothing below it. Each use case asks the caller before it
touches anything, so no edge can forget to. A session is cheap: one for each request.
"""

from lakebed.auth.auth import Auth
from lakebed.auth.caller import Caller
from lakebed.catalog.adoption import Adoptions
from lakebed.catalog.background import Background
from lakebed.catalog.branches import Branches
from lakebed.catalog.commit_records import CommitRecords
from lakebed.catalog.commits import Commits
from lakebed.catalog.compaction import Compaction
from lakebed.catalog.copies import Copies
from lakebed.catalog.credentials import Credentials
from lakebed.catalog.diffs import Diffs
from lakebed.catalog.dumps import Dumps
from lakebed.catalog.engine import Engine
from lakebed.catalog.gc import Collections
from lakebed.catalog.groups import Groups
from lakebed.catalog.imports import Imports
from lakebed.catalog.links import Links
from lakebed.catalog.metadata_files import MetadataFiles
from lakebed.catalog.multipart import Multipart
from lakebed.catalog.objects import Objects
from lakebed.catalog.part_uploads import PartUploads
from lakebed.catalog.planned import Planned
from lakebed.catalog.policies import Policies
from lakebed.catalog.repositories import Repositories
from lakebed.catalog.sample import Samples
from lakebed.catalog.segments import Segments
from lakebed.catalog.settings import Settings
from lakebed.catalog.stashes import Stashes
from lakebed.catalog.symlinks import Symlinks
from lakebed.catalog.tags import Tags
from lakebed.catalog.tasks import Tasks
from lakebed.catalog.users import Users


class Session:
    """The use cases with the permissions of `caller`."""

    __slots__ = ("_auth", "_engine", "_tasks", "caller")

    def __init__(self, engine: Engine, tasks: Tasks, caller: Caller, *, auth: Auth | None = None) -> None:
        self._engine = engine
        self._tasks = tasks
        self._auth = auth
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
    def copies(self) -> Copies:
        return Copies(self._engine, self.caller)

    @property
    def part_uploads(self) -> PartUploads:
        return PartUploads(self._engine, self.caller)

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
    def adoptions(self) -> Adoptions:
        return Adoptions(self._engine, self.caller, self._tasks)

    @property
    def imports(self) -> Imports:
        return Imports(self._engine, self.caller, self._tasks)

    @property
    def background(self) -> Background:
        return Background(self._engine, self.caller, self._tasks)

    @property
    def settings(self) -> Settings:
        return Settings(self._engine, self.caller)

    @property
    def segments(self) -> Segments:
        return Segments(self._engine, self.caller)

    @property
    def compaction(self) -> Compaction:
        return Compaction(self._engine, self.caller)

    @property
    def gc(self) -> Collections:
        return Collections(self._engine, self.caller, self._tasks)

    @property
    def samples(self) -> Samples:
        return Samples(self._engine, self.caller)

    @property
    def commit_records(self) -> CommitRecords:
        return CommitRecords(self._engine, self.caller)

    @property
    def metadata_files(self) -> MetadataFiles:
        return MetadataFiles(self._engine, self.caller)

    @property
    def links(self) -> Links:
        return Links(self._engine, self.caller)

    @property
    def multipart(self) -> Multipart:
        return Multipart(self._engine, self.caller)

    @property
    def symlinks(self) -> Symlinks:
        return Symlinks(self._engine, self.caller)

    @property
    def planned(self) -> Planned:
        return Planned(self._engine, self.caller)

    @property
    def users(self) -> Users:
        return Users(self._users(), self.caller)

    @property
    def groups(self) -> Groups:
        return Groups(self._users(), self.caller)

    @property
    def policies(self) -> Policies:
        return Policies(self._users(), self.caller)

    @property
    def credentials(self) -> Credentials:
        return Credentials(self._users(), self.caller)

    def _users(self) -> Auth:
        assert self._auth is not None, "sessions that manage users are made with `with_auth`"
        return self._auth


class Sessions:
    """Where sessions come from, and the tasks that outlive them."""

    def __init__(self, engine: Engine, *, auth: Auth | None = None, tasks: Tasks | None = None) -> None:
        self._engine = engine
        self._auth = auth
        self.tasks = tasks or Tasks(engine.parts)

    def with_auth(self, auth: Auth) -> "Sessions":
        """Return sessions with the same tasks that can also manage users: an engine has none of its own."""
        return Sessions(self._engine, auth=auth, tasks=self.tasks)

    def of(self, caller: Caller) -> Session:
        """Return the use cases on behalf of `caller`."""
        return Session(self._engine, self.tasks, caller, auth=self._auth)
