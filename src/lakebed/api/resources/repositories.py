"""Repositories and their metadata."""

from typing import Annotated

import msgspec

from lakebed.api.arns import on_repository
from lakebed.api.call import Call
from lakebed.api.operation import Operations, Permission
from lakebed.api.pages import PageOf, PageQuery, page_of, wanted
from lakebed.api.reply import empty_reply, json_reply
from lakebed.auth.actions import Action
from lakebed.env.clock import SECOND
from lakebed.errors import ErrorKind, InvalidInputError, quoted
from lakebed.http.reply import Reply
from lakebed.model.repository import Repository
from lakebed.refs.leftovers import StorageUse

operations = Operations("repositories")


class RepositoryBody(msgspec.Struct, rename={"name": "id"}):
    """A repository."""

    name: str
    creation_date: int
    default_branch: str
    storage_namespace: str
    storage_id: str = ""
    read_only: bool = False


class RepositoryCreation(msgspec.Struct):
    """What a new repository is to be."""

    name: str
    storage_namespace: str
    storage_id: str = ""
    default_branch: str = "main"
    sample_data: bool = False
    read_only: bool = False


class CreateQuery(msgspec.Struct):
    """`bare` makes a repository without a branch, to restore refs into."""

    bare: bool = False


class ListQuery(PageQuery):
    """`search` may be anywhere in a name."""

    search: str = ""


class ForceQuery(msgspec.Struct):
    """`force` also changes a read-only repository."""

    force: bool = False


class DeleteQuery(ForceQuery):
    """`with_data` also deletes the objects, after the grace."""

    with_data: bool = False


class StorageUseBody(msgspec.Struct):
    """What a namespace holds: users' `objects`, the engine's own `files`, the bytes of both; freed `grace_seconds`
    after a deletion. Without `complete` there is more: counting took too long.
    """

    objects: int
    files: int
    bytes: int
    complete: bool
    grace_seconds: float


class Purge(msgspec.Struct):
    """A namespace of a repository that was deleted without its data. A dry run only counts."""

    storage_namespace: str
    dry_run: bool = False


class MetadataSet(msgspec.Struct):
    """Metadata to add or replace."""

    metadata: dict[str, str]


class MetadataKeys(msgspec.Struct):
    """Keys to remove."""

    keys: list[Annotated[str, msgspec.Meta(min_length=1)]]


@operations.add(
    "GET", "/repositories", "listRepositories", query=ListQuery, replies={200: PageOf[RepositoryBody]}
)
async def list_repositories(call: Call) -> Reply:
    """List the repositories that the caller may see."""
    query = call.query(ListQuery)
    found = await call.session.repositories.list(
        prefix=query.prefix, after=query.after, search=query.search, amount=wanted(query.amount)
    )
    results = [_body(repo) for repo in found.results]
    return json_reply(
        200, page_of(results, has_more=found.has_more, last=results[-1].name if results else "")
    )


@operations.add(
    "POST",
    "/repositories",
    "createRepository",
    query=CreateQuery,
    body=RepositoryCreation,
    replies={201: RepositoryBody},
    permissions=(
        Permission(action=Action.CREATE_REPOSITORY, resource="arn:lakefs:fs:::repository/{body.name}"),
        Permission(
            action=Action.ATTACH_STORAGE_NAMESPACE,
            resource="arn:lakefs:fs:::namespace/{body.storage_namespace}",
        ),
    ),
)
async def create_repository(call: Call) -> Reply:
    """Create a repository in an empty namespace; `sample_data` commits a table of lakes to its branch."""
    body, bare = call.body(RepositoryCreation), call.query(CreateQuery).bare
    if body.storage_id:
        raise InvalidInputError(
            ErrorKind.INVALID_ARGUMENT,
            f"there is no storage {quoted(body.storage_id)}: leave `storage_id` out, and name the place in `storage_namespace`",
        )
    repo = await call.session.repositories.create(
        body.name,
        body.storage_namespace,
        default_branch=body.default_branch or "main",
        bare=bare,
        read_only=body.read_only,
    )
    # A bare repository waits for refs to be restored into it: there is no branch to fill.
    if body.sample_data and not bare:
        await call.session.samples.fill(repo.name, repo.default_branch)
    return json_reply(201, _body(repo))


@operations.add(
    "GET",
    "/repositories/{repository}",
    "getRepository",
    replies={200: RepositoryBody},
    permissions=on_repository(Action.READ_REPOSITORY),
)
async def get_repository(call: Call) -> Reply:
    """Get a repository."""
    return json_reply(200, _body(await call.session.repositories.get(call.path["repository"])))


@operations.add(
    "DELETE",
    "/repositories/{repository}",
    "deleteRepository",
    query=DeleteQuery,
    replies={204: None},
    permissions=on_repository(Action.DELETE_REPOSITORY),
)
async def delete_repository(call: Call) -> Reply:
    """Delete a repository; its objects stay in storage unless `with_data`, which also needs
    `retention:RunGarbageCollection` on the repository.
    """
    query = call.query(DeleteQuery)
    await call.session.repositories.delete(
        call.path["repository"], delete_data=query.with_data, force=query.force
    )
    return empty_reply(204)


@operations.add(
    "GET",
    "/repositories/{repository}/storage",
    "getRepositoryStorage",
    replies={200: StorageUseBody},
    permissions=on_repository(Action.RUN_GC),
    tag="experimental",
)
async def get_storage(call: Call) -> Reply:
    """Count what deleting a repository with its data would free."""
    use = await call.session.repositories.storage_use(call.path["repository"])
    return json_reply(200, _use(use, call))


@operations.add(
    "POST",
    "/storage/purge",
    "purgeStorage",
    body=Purge,
    replies={200: StorageUseBody},
    permissions=(
        Permission(action=Action.RUN_GC, resource="arn:lakefs:fs:::repository/*"),
        Permission(
            action=Action.ATTACH_STORAGE_NAMESPACE,
            resource="arn:lakefs:fs:::namespace/{body.storage_namespace}",
        ),
    ),
    tag="experimental",
)
async def purge_storage(call: Call) -> Reply:
    """Delete what a repository that was deleted without its data has left in a namespace, after the grace."""
    body = call.body(Purge)
    use = await call.session.repositories.purge(body.storage_namespace, dry_run=body.dry_run)
    return json_reply(200, _use(use, call))


@operations.add(
    "GET",
    "/repositories/{repository}/metadata",
    "getRepositoryMetadata",
    replies={200: dict[str, str]},
    permissions=on_repository(Action.READ_REPOSITORY),
)
async def get_metadata(call: Call) -> Reply:
    """Get a repository's metadata."""
    return json_reply(200, await call.session.repositories.metadata(call.path["repository"]))


@operations.add(
    "POST",
    "/repositories/{repository}/metadata",
    "setRepositoryMetadata",
    body=MetadataSet,
    replies={204: None},
    permissions=on_repository(Action.UPDATE_REPOSITORY),
    tag="internal",
)
async def set_metadata(call: Call) -> Reply:
    """Add or replace metadata of a repository."""
    await call.session.repositories.set_metadata(call.path["repository"], call.body(MetadataSet).metadata)
    return empty_reply(204)


@operations.add(
    "DELETE",
    "/repositories/{repository}/metadata",
    "deleteRepositoryMetadata",
    body=MetadataKeys,
    replies={204: None},
    permissions=on_repository(Action.UPDATE_REPOSITORY),
    tag="internal",
)
async def delete_metadata(call: Call) -> Reply:
    """Remove metadata of a repository."""
    await call.session.repositories.delete_metadata(call.path["repository"], call.body(MetadataKeys).keys)
    return empty_reply(204)


def _use(use: StorageUse, call: Call) -> StorageUseBody:
    return StorageUseBody(
        use.objects, use.files, use.size, use.complete, call.services.lifetimes.grace_seconds
    )


def _body(repo: Repository) -> RepositoryBody:
    return RepositoryBody(
        name=repo.name,
        creation_date=repo.created_at // SECOND,
        default_branch=repo.default_branch,
        storage_namespace=repo.namespace,
        read_only=repo.read_only,
    )
