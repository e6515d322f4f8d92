"""Buckets, and what tools ask about them before they use them."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.s3.conftest import Endpoint
from tests.s3.test_objects import code

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("s3")]


def test_buckets_are_repositories(endpoint: Endpoint, s3: Any, lake: str) -> None:
    listed = s3.list_buckets()["Buckets"]
    assert lake in [each["Name"] for each in listed]
    assert all(each["CreationDate"] for each in listed)
    assert [each["Name"] for each in s3.list_buckets(Prefix=lake)["Buckets"]] == [lake]
    pages = s3.get_paginator("list_buckets").paginate(PaginationConfig={"PageSize": 1})
    assert [each["Name"] for page in pages for each in page["Buckets"]] == [each["Name"] for each in listed]


def test_a_bucket_is_there_or_not(s3: Any, lake: str) -> None:
    assert s3.head_bucket(Bucket=lake)["BucketRegion"] == "us-east-1"
    assert s3.get_bucket_location(Bucket=lake)["LocationConstraint"] is None
    for missing in ("no-such-repository", "Not.A.Name"):
        with pytest.raises(ClientError) as refused:
            s3.head_bucket(Bucket=missing)
        assert code(refused)[1] == 404


def test_questions_are_answered_as_for_a_bucket_that_was_given_nothing(s3: Any, lake: str) -> None:
    assert "Status" not in s3.get_bucket_versioning(Bucket=lake)
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket=lake)
    assert s3.get_bucket_request_payment(Bucket=lake)["Payer"] == "BucketOwner"
    assert s3.get_bucket_acl(Bucket=lake)["Grants"][0]["Permission"] == "FULL_CONTROL"
    assert s3.get_bucket_notification_configuration(Bucket=lake)
    assert s3.get_bucket_accelerate_configuration(Bucket=lake)
    for call, told in (
        (s3.get_bucket_policy, "NoSuchBucketPolicy"),
        (s3.get_bucket_policy_status, "NoSuchBucketPolicy"),
        (s3.get_bucket_tagging, "NoSuchTagSet"),
        (s3.get_bucket_lifecycle_configuration, "NoSuchLifecycleConfiguration"),
        (s3.get_bucket_cors, "NoSuchCORSConfiguration"),
        (s3.get_bucket_encryption, "ServerSideEncryptionConfigurationNotFoundError"),
        (s3.get_bucket_website, "NoSuchWebsiteConfiguration"),
        (s3.get_object_lock_configuration, "ObjectLockConfigurationNotFoundError"),
        (s3.get_bucket_replication, "ReplicationConfigurationNotFoundError"),
        (s3.get_public_access_block, "NoSuchPublicAccessBlockConfiguration"),
        (s3.get_bucket_ownership_controls, "OwnershipControlsNotFoundError"),
    ):
        with pytest.raises(ClientError) as refused:
            call(Bucket=lake)
        assert code(refused) == (told, 404)
