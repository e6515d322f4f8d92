"""Requests with signatures of version 2, as clients sent them to a server: what `make test-clients` runs, without the clients.

`recorded_v2.json` has one request of each kind that minio-go, the AWS CLI 1.22 (`signature_version = s3`) and version 1
of Amazon's SDK for Java (`S3SignerType`: Hadoop's s3a up to 3.3) made with the key of `make run`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from lakebed.env.clock import SECOND, Instant, after
from lakebed.http.dates import parse_http_date
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.operation import Level, Table
from lakebed.s3.request import Request
from lakebed.s3.table import OPERATIONS
from tests.s3.signatures.signing import as_seen, verify

RECORDED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "recorded_v2.json").read_text(encoding="utf-8")
)
IDS = [f"{each['client']} {each['method']} {each['target'][:60]}" for each in RECORDED]
# What a holder of a presigned URL, or a proxy, would add to it to make another request of it.
ADDED = (
    "acl",
    "delete",
    "tagging",
    "uploads",
    "uploadId=v",
    "partNumber=2",
    "response-content-type=text/html",
)


def seen(recorded: dict[str, Any]) -> tuple[Request, Instant]:
    """Return a request, and when it was sent."""
    request = as_seen(recorded["method"], f"http://host{recorded['target']}", recorded["headers"])
    sent_at = parse_http_date(request.headers.get("date", ""))
    if sent_at is None:
        sent_at = after(Instant(int(request.query["Expires"]) * SECOND), -1)
    return request, sent_at


@pytest.mark.parametrize("recorded", RECORDED, ids=IDS)
def test_what_a_client_signed_is_accepted(recorded: dict[str, Any]) -> None:
    request, sent_at = seen(recorded)

    assert verify(request, at=sent_at).access_key == "AKIAIOSFOLQUICKSTART"


@pytest.mark.parametrize("recorded", RECORDED, ids=IDS)
def test_a_recorded_request_that_was_changed_is_refused(recorded: dict[str, Any]) -> None:
    for added in ADDED:
        if added.partition("=")[0] in recorded["target"]:
            continue
        mark = "&" if "?" in recorded["target"] else "?"
        changed, sent_at = seen({**recorded, "target": f"{recorded['target']}{mark}{added}"})
        with pytest.raises(S3Error) as refused:
            verify(changed, at=sent_at)
        assert refused.value.code is Code.SIGNATURE_DOES_NOT_MATCH


def test_every_recorded_request_is_one_of_the_operations() -> None:
    table = Table(OPERATIONS)
    for recorded in RECORDED:
        request, _ = seen(recorded)
        bucket, _, key = request.raw_path[1:].partition("/")
        table.find(request, Level.OBJECT if key else Level.BUCKET if bucket else Level.SERVICE)
