"""Object tags, kept in an entry's metadata: PutObjectTagging, GetObjectTagging, DeleteObjectTagging."""

from typing import Final
from urllib.parse import parse_qsl, urlencode

from lakebed.http.reply import Reply
from lakebed.s3.call import Call
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.metadata import TAGGING
from lakebed.s3.reply import xml_reply
from lakebed.s3.xml import document, element, malformed

_TAGS_MAX: Final = 10
_KEY_MAX: Final = 128
_VALUE_MAX: Final = 256


async def get_tagging(call: Call) -> Reply:
    """List an object's tags."""
    ref, path = call.readable()
    entry = await call.session.objects.stat(call.bucket, ref, path)
    tags = parse_qsl(entry.metadata.get(TAGGING, ""), keep_blank_values=True)
    listed = "".join(f"<Tag>{element('Key', key)}{element('Value', value)}</Tag>" for key, value in tags)
    return xml_reply(document("Tagging", ("<TagSet>", listed, "</TagSet>")))


async def put_tagging(call: Call) -> Reply:
    """Replace an object's tags."""
    tag_set = (await call.document(root="Tagging")).find("TagSet")
    if tag_set is None:
        raise malformed()
    tags = _checked([(tag.value("Key"), tag.value("Value")) for tag in tag_set.all("Tag")])
    await _store(call, tags)
    return Reply(200)


async def delete_tagging(call: Call) -> Reply:
    """Remove an object's tags."""
    await _store(call, {})
    return Reply(204)


def tags_of_header(header: str) -> dict[str, str]:
    """Return the metadata that keeps the tags of an `x-amz-tagging` header.

    Raises:
        S3Error: `InvalidTag`.
    """
    return _checked(parse_qsl(header, keep_blank_values=True)) if header else {}


async def _store(call: Call, tags: dict[str, str]) -> None:
    branch, path = call.writable()
    entry = await call.session.objects.stat(call.bucket, branch, path)
    kept = {key: value for key, value in entry.metadata.items() if key != TAGGING}
    await call.session.objects.set_metadata(call.bucket, branch, path, {**kept, **tags})


def _checked(tags: list[tuple[str, str]]) -> dict[str, str]:
    if len(tags) > _TAGS_MAX:
        raise S3Error(Code.INVALID_TAG, f"Object tags cannot be greater than {_TAGS_MAX}")
    if len({key for key, _ in tags}) != len(tags):
        raise S3Error(Code.INVALID_TAG, "Cannot provide multiple Tags with the same key")
    for key, value in tags:
        if not 1 <= len(key) <= _KEY_MAX or key.startswith("aws:"):
            raise S3Error(Code.INVALID_TAG, "The TagKey you have provided is invalid", TagKey=key)
        if len(value) > _VALUE_MAX:
            raise S3Error(Code.INVALID_TAG, "The TagValue you have provided is invalid", TagKey=key)
    return {TAGGING: urlencode(tags)} if tags else {}
