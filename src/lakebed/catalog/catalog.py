"""`Catalog`: every use case, by resource. The edges call this and nothing below it."""

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


class Catalog:
    """The use cases of one installation, one attribute a resource."""

    def __init__(self, engine: Engine) -> None:
        self.tasks = Tasks(engine.parts)
        self.repositories = Repositories(engine)
        self.branches = Branches(engine)
        self.tags = Tags(engine)
        self.commits = Commits(engine)
        self.objects = Objects(engine)
        self.diffs = Diffs(engine)
        self.stashes = Stashes(engine)
        self.dumps = Dumps(engine, self.tasks)
        self.imports = Imports(engine, self.tasks)
