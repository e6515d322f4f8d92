"""Buckets, which are repositories: ListBuckets, HeadBucket and what tools ask about a bucket before they use it.

A bucket here has no versions, no policy, no encryption of its own and so on. Whoever asks
gets the answer of a bucket that was never given any; whoever wants to set one is told that
it is not implemented.
"""

from typing import Final

from lakebed.errors import NotFoundError
from lakebed.http.numbers import whole_number
from lakebed.http.reply import Reply
from lakebed.limits import LIST_PAGE_MAX
from lakebed.s3.call import Call
from lakebed.s3.dates import iso_date
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.operation import Handler
from lakebed.s3.reply import xml_reply
from lakebed.s3.xml import document, element

# Where no region is named: what Amazon calls its first one, by saying nothing.
_FIRST_REGION: Final = "us-east-1"


async def list_buckets(call: Call) -> Reply:
    """List the repositories that the caller may see."""
    query = call.request.query
    most = whole_number(query.get("max-buckets", ""), most=99_999) or None
    parts: list[str] = []
    after, prefix = query.get("continuation-token", ""), query.get("prefix", "")
    has_more = False
    while most is None or len(parts) < most:
        amount = LIST_PAGE_MAX if most is None else min(most - len(parts), LIST_PAGE_MAX)
        page = await call.session.repositories.list(prefix=prefix, after=after, amount=amount)
        parts += [
            f"<Bucket>{element('Name', repo.name)}{element('CreationDate', iso_date(repo.created_at))}</Bucket>"
            for repo in page.results
        ]
        has_more = page.has_more
        if not has_more:
            break
        after = page.results[-1].name
    user = call.session.caller.id
    owner = f"<Owner>{element('ID', user)}{element('DisplayName', user)}</Owner>"
    more = element("ContinuationToken", after) if has_more else ""
    return xml_reply(
        document("ListAllMyBucketsResult", (owner, "<Buckets>", *parts, "</Buckets>", more)),
    )


async def head_bucket(call: Call) -> Reply:
    """Say that the bucket is there, and where."""
    await call.session.repositories.get(call.bucket)
    return Reply(200, b"", ((b"x-amz-bucket-region", call.region.encode()),))


async def get_location(call: Call) -> Reply:
    """Say where the bucket is."""
    await call.session.repositories.get(call.bucket)
    return xml_reply(
        document("LocationConstraint", () if call.region == _FIRST_REGION else (call.region,)),
    )


async def create_bucket(call: Call) -> Reply:
    """Refuse: a repository needs a namespace in the storage, which S3 has no word for."""
    try:
        await call.session.repositories.get(call.bucket)
    except NotFoundError as error:
        raise S3Error(
            Code.NOT_IMPLEMENTED,
            "A repository cannot be created here: use `lakebed repo create` or the REST API, "
            "which also say where its objects go.",
            BucketName=call.bucket,
        ) from error
    raise S3Error(
        Code.BUCKET_ALREADY_OWNED_BY_YOU,
        "Your previous request to create the named bucket succeeded and you already own it.",
        BucketName=call.bucket,
    )


async def delete_bucket(call: Call) -> Reply:
    """Refuse: who empties a bucket and removes it means its objects, not the history of all branches."""
    await call.session.repositories.get(call.bucket)
    raise S3Error(
        Code.NOT_IMPLEMENTED,
        "A repository cannot be deleted here: use `lakebed repo delete` or the REST API.",
        BucketName=call.bucket,
    )


async def get_acl(call: Call) -> Reply:
    """Say that whoever may ask owns it: permissions are policies of users here."""
    if call.key:
        ref, path = call.readable()
        await call.session.objects.stat(call.bucket, ref, path)
    else:
        await call.session.repositories.get(call.bucket)
    user = call.session.caller.id
    grantee = (
        '<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser">'
        f"{element('ID', user)}{element('DisplayName', user)}</Grantee>"
    )
    return xml_reply(
        document(
            "AccessControlPolicy",
            (
                f"<Owner>{element('ID', user)}{element('DisplayName', user)}</Owner>",
                f"<AccessControlList><Grant>{grantee}<Permission>FULL_CONTROL</Permission></Grant></AccessControlList>",
            ),
        )
    )


def constant(root: str, *parts: str) -> Handler:
    """Return a handler that says what is the case with every bucket."""
    text = document(root, parts)

    async def answer(call: Call) -> Reply:
        await call.session.repositories.get(call.bucket)
        return xml_reply(text)

    return answer


def without(code: Code, message: str) -> Handler:
    """Return a handler that says that the bucket has no such thing."""

    async def answer(call: Call) -> Reply:
        await call.session.repositories.get(call.bucket)
        raise S3Error(code, message, BucketName=call.bucket)

    return answer
