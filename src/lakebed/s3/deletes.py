"""DeleteObject and DeleteObjects."""

from collections import defaultdict

from lakebed.errors import ErrorKind, LakebedError
from lakebed.http.reply import Reply
from lakebed.limits import DELETE_BATCH
from lakebed.s3.call import Call
from lakebed.s3.conditions import write_condition
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.kinds import s3_error
from lakebed.s3.reply import xml_reply
from lakebed.s3.xml import document, element, malformed
from lakebed.staging.conditions import IfAbsent


async def delete_object(call: Call) -> Reply:
    """Delete an object; one that is not there is no error."""
    branch, _, path = call.key.partition("/")
    if not path:
        # Only tools that make folders of their own send it: no such object can be there.
        await call.session.branches.get(call.bucket, branch)
        return Reply(204)
    condition = write_condition(call.request.headers)
    if isinstance(condition, IfAbsent):
        raise S3Error(Code.NOT_IMPLEMENTED, "A deletion takes If-Match only.")
    await call.session.objects.delete(call.bucket, branch, [path], condition=condition)
    return Reply(204)


async def delete_objects(call: Call) -> Reply:
    """Delete many objects; what could not be deleted is answered one by one."""
    root = await call.document(root="Delete")
    listed = root.all("Object")
    if not 1 <= len(listed) <= DELETE_BATCH:
        raise malformed()
    quiet = root.value("Quiet").strip() == "true"
    failed: dict[str, S3Error] = {}
    by_branch: dict[str, list[str]] = defaultdict(list)
    for each in listed:
        key = each.value("Key")
        branch, _, path = key.partition("/")
        if each.find("VersionId") is not None and each.value("VersionId") not in ("", "null"):
            failed[key] = S3Error(Code.NOT_IMPLEMENTED, "Objects have no versions here.")
        elif not path:
            failed[key] = S3Error(Code.INVALID_ARGUMENT, "A key is <branch>/<path>.")
        elif not call.session.objects.may_delete(call.bucket, path):
            failed[key] = S3Error(Code.ACCESS_DENIED, "Access Denied")
        else:
            by_branch[branch].append(path)
    for branch, paths in by_branch.items():
        error = await _delete(call, branch, paths)
        if error is not None:
            failed |= dict.fromkeys([f"{branch}/{path}" for path in paths], error)
    parts: list[str] = []
    for each in listed:
        key = each.value("Key")
        refused = failed.get(key)
        if refused is not None:
            parts.append(
                f"<Error>{element('Key', key)}{element('Code', refused.code.text)}"
                f"{element('Message', refused.message)}</Error>"
            )
        elif not quiet:
            parts.append(f"<Deleted>{element('Key', key)}</Deleted>")
    return xml_reply(document("DeleteResult", parts))


async def _delete(call: Call, branch: str, paths: list[str]) -> S3Error | None:
    """Delete objects of one branch; return why not, unless the repository is the reason."""
    try:
        await call.session.objects.delete(call.bucket, branch, paths)
    except LakebedError as error:
        if error.kind is ErrorKind.REPO_NOT_FOUND:
            raise
        return s3_error(error)
    return None
