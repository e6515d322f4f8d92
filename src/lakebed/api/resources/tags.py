"""Tags."""

import msgspec

from lakebed.api.arns import TAG, on_repository
from lakebed.api.call import Call
from lakebed.api.operation import Operations, Permission
from lakebed.api.pages import PageOf, PageQuery, page_of, wanted
from lakebed.api.reply import empty_reply, json_reply
from lakebed.api.resources.branches import RefBody
from lakebed.api.resources.repositories import ForceQuery
from lakebed.auth.actions import Action
from lakebed.http.reply import Reply

operations = Operations("tags")


class TagCreation(msgspec.Struct):
    """A name for the commit of `ref`."""

    id: str
    ref: str
    force: bool = False


@operations.add(
    "GET",
    "/repositories/{repository}/tags",
    "listTags",
    query=PageQuery,
    replies={200: PageOf[RefBody]},
    permissions=on_repository(Action.LIST_TAGS),
)
async def list_tags(call: Call) -> Reply:
    """List tags."""
    query = call.query(PageQuery)
    found = await call.session.tags.list(
        call.path["repository"], prefix=query.prefix, after=query.after, amount=wanted(query.amount)
    )
    results = [RefBody(tag.name, tag.commit_id) for tag in found.results]
    return json_reply(200, page_of(results, has_more=found.has_more, last=results[-1].id if results else ""))


@operations.add(
    "POST",
    "/repositories/{repository}/tags",
    "createTag",
    body=TagCreation,
    replies={201: RefBody},
    permissions=(
        Permission(
            action=Action.CREATE_TAG, resource="arn:lakefs:fs:::repository/{repository}/tag/{body.id}"
        ),
    ),
)
async def create_tag(call: Call) -> Reply:
    """Name a commit."""
    body = call.body(TagCreation)
    tag = await call.session.tags.create(call.path["repository"], body.id, body.ref, force=body.force)
    return json_reply(201, RefBody(tag.name, tag.commit_id))


@operations.add(
    "GET",
    "/repositories/{repository}/tags/{tag}",
    "getTag",
    replies={200: RefBody},
    permissions=(Permission(action=Action.READ_TAG, resource=TAG),),
)
async def get_tag(call: Call) -> Reply:
    """Get a tag."""
    tag = await call.session.tags.get(call.path["repository"], call.path["tag"])
    return json_reply(200, RefBody(tag.name, tag.commit_id))


@operations.add(
    "DELETE",
    "/repositories/{repository}/tags/{tag}",
    "deleteTag",
    query=ForceQuery,
    replies={204: None},
    permissions=(Permission(action=Action.DELETE_TAG, resource=TAG),),
)
async def delete_tag(call: Call) -> Reply:
    """Delete a tag; its commit stays."""
    await call.session.tags.delete(
        call.path["repository"], call.path["tag"], force=call.query(ForceQuery).force
    )
    return empty_reply(204)
