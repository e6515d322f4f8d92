"""Use cases that clients know and this version does not have yet.

They ask the caller and look for the repository like all others, so that who may not
is told so, and whoever may learns what is missing. Hooks have run nothing and there
are no pull requests: their lists are empty, and that is true.
"""

from typing import NoReturn

from lakebed.auth.actions import Action
from lakebed.auth.arns import repository_arn, user_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine
from lakebed.errors import ErrorKind, InvalidInputError, NotFoundError, quoted


class Planned:
    """Use cases that are answered honestly."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def list_runs(self, repo_name: str) -> None:
        """Raise unless the caller may see the runs of hooks, of which there are none."""
        self._caller.require(Action.READ_ACTION, repository_arn(repo_name))
        await self._engine.repo(repo_name)

    async def run(self, repo_name: str, run_id: str) -> NoReturn:
        """Look for a run of hooks, of which there are none."""
        await self.list_runs(repo_name)
        raise NotFoundError(ErrorKind.KEY_NOT_FOUND, f"there is no run {quoted(run_id)} in {repo_name}")

    async def list_pulls(self, repo_name: str) -> None:
        """Raise unless the caller may see pull requests, of which there are none."""
        self._caller.require(Action.LIST_PULL_REQUESTS, repository_arn(repo_name))
        await self._engine.repo(repo_name)

    async def pull(self, repo_name: str, pull_id: str) -> NoReturn:
        """Look for a pull request, of which there are none."""
        self._caller.require(Action.READ_PULL_REQUEST, repository_arn(repo_name))
        await self._engine.repo(repo_name)
        raise NotFoundError(
            ErrorKind.KEY_NOT_FOUND, f"there is no pull request {quoted(pull_id)} in {repo_name}"
        )

    async def write_pull(self, repo_name: str) -> NoReturn:
        """Refuse to make or change a pull request."""
        self._caller.require(Action.WRITE_PULL_REQUEST, repository_arn(repo_name))
        await self._engine.repo(repo_name)
        raise unsupported("pull requests are not supported yet: merge the branch directly")

    def read_principal(self) -> NoReturn:
        """Refuse to look for an identity of another system."""
        self._caller.require(Action.READ_EXTERNAL_PRINCIPAL, "*")
        raise unsupported(_PRINCIPALS)

    def list_principals(self, user: str) -> NoReturn:
        """Refuse to list a user's identities in other systems."""
        self._caller.require(Action.READ_EXTERNAL_PRINCIPAL, user_arn(user))
        raise unsupported(_PRINCIPALS)

    def create_principal(self, user: str) -> NoReturn:
        """Refuse to give a user an identity in another system."""
        self._caller.require(Action.CREATE_USER_EXTERNAL_PRINCIPAL, user_arn(user))
        raise unsupported(_PRINCIPALS)

    def delete_principal(self, user: str) -> NoReturn:
        """Refuse to take an identity in another system from a user."""
        self._caller.require(Action.DELETE_USER_EXTERNAL_PRINCIPAL, user_arn(user))
        raise unsupported(_PRINCIPALS)


_PRINCIPALS = "external principals are not supported: use access keys"


def unsupported(message: str) -> InvalidInputError:
    """Return the error for what this version does not do."""
    return InvalidInputError(ErrorKind.UNSUPPORTED, message)
