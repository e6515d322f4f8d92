"""A user who may do nothing in a repository is not told whether it exists."""

import pytest

from lakebed.s3.operation import Level, Operation
from lakebed.s3.table import OPERATIONS
from lakebed.testing.rest import open_rest
from tests.s3.site import site_of

BODIES = {
    "DeleteObjects": b"<Delete><Object><Key>main/a</Key></Object><Object><Key>main/b</Key></Object></Delete>",
    "PutObjectTagging": b"<Tagging><TagSet/></Tagging>",
    "CompleteMultipartUpload": b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>",
}
VALUES = {"list-type": "2", "partNumber": "1", "uploadId": "u"}
# Answered alike for every bucket: what is said of any of them.
ROWS = [each for each in OPERATIONS if each.level is not Level.SERVICE]


@pytest.mark.parametrize("operation", ROWS, ids=lambda each: each.name)
async def test_nobody_is_told_whether_a_bucket_exists(operation: Operation) -> None:
    async with open_rest() as rest:
        await rest.lake.commit("main", a="1")
        await rest.auth.users.create("nobody")
        site = await site_of(rest, "nobody")
        answers = []
        for bucket in ("lake", "lakf"):
            path = f"/{bucket}/main/a" if operation.level is Level.OBJECT else f"/{bucket}"
            query = "&".join(f"{key}={VALUES.get(key, '')}" for key in sorted(operation.keys))
            headers = {"x-amz-copy-source": f"/{bucket}/main/a"} if operation.is_copy else {}
            sent = site.signed(
                operation.method,
                f"{path}?{query}",
                BODIES.get(operation.name, b""),
                headers={"x-amz-object-attributes": "ETag", **headers},
            )
            status, body = await site.send(sent)
            answers.append((status, body.replace(b"/lakf", b"/lake").partition(b"<RequestId>")[0]))
        assert answers[0] == answers[1]
