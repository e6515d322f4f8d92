"""Every S3 operation there is here, one row each."""

from typing import Final

from lakebed.s3 import attributes, buckets, copies, deletes, lists, multipart, objects, tagging
from lakebed.s3.errors import Code
from lakebed.s3.operation import Handler, Level, Operation


def _service(name: str, method: str, handler: Handler) -> Operation:
    return Operation(name=name, method=method, level=Level.SERVICE, handler=handler)


def _bucket(name: str, method: str, handler: Handler, *keys: str) -> Operation:
    return Operation(name=name, method=method, level=Level.BUCKET, handler=handler, keys=frozenset(keys))


def _object(name: str, method: str, handler: Handler, *keys: str, is_copy: bool = False) -> Operation:
    return Operation(
        name=name,
        method=method,
        level=Level.OBJECT,
        handler=handler,
        keys=frozenset(keys),
        is_copy=is_copy,
    )


OPERATIONS: Final = (
    _service("ListBuckets", "GET", buckets.list_buckets),
    _bucket("HeadBucket", "HEAD", buckets.head_bucket),
    _bucket("CreateBucket", "PUT", buckets.create_bucket),
    _bucket("DeleteBucket", "DELETE", buckets.delete_bucket),
    _bucket("ListObjects", "GET", lists.list_objects),
    _bucket("ListObjectsV2", "GET", lists.list_objects_v2, "list-type"),
    _bucket("DeleteObjects", "POST", deletes.delete_objects, "delete"),
    _bucket("ListMultipartUploads", "GET", multipart.list_uploads, "uploads"),
    _bucket("GetBucketLocation", "GET", buckets.get_location, "location"),
    _bucket("GetBucketAcl", "GET", buckets.get_acl, "acl"),
    _bucket("GetBucketVersioning", "GET", buckets.constant("VersioningConfiguration"), "versioning"),
    _bucket("GetBucketLogging", "GET", buckets.constant("BucketLoggingStatus"), "logging"),
    _bucket(
        "GetBucketNotificationConfiguration",
        "GET",
        buckets.constant("NotificationConfiguration"),
        "notification",
    ),
    _bucket(
        "GetBucketAccelerateConfiguration", "GET", buckets.constant("AccelerateConfiguration"), "accelerate"
    ),
    _bucket(
        "GetBucketRequestPayment",
        "GET",
        buckets.constant("RequestPaymentConfiguration", "<Payer>BucketOwner</Payer>"),
        "requestPayment",
    ),
    _bucket(
        "GetBucketPolicy",
        "GET",
        buckets.without(Code.NO_SUCH_BUCKET_POLICY, "The bucket policy does not exist"),
        "policy",
    ),
    _bucket(
        "GetBucketPolicyStatus",
        "GET",
        buckets.without(Code.NO_SUCH_BUCKET_POLICY, "The bucket policy does not exist"),
        "policyStatus",
    ),
    _bucket(
        "GetBucketTagging",
        "GET",
        buckets.without(Code.NO_SUCH_TAG_SET, "The TagSet does not exist"),
        "tagging",
    ),
    _bucket(
        "GetBucketLifecycleConfiguration",
        "GET",
        buckets.without(Code.NO_SUCH_LIFECYCLE, "The lifecycle configuration does not exist"),
        "lifecycle",
    ),
    _bucket(
        "GetBucketCors",
        "GET",
        buckets.without(Code.NO_SUCH_CORS, "The CORS configuration does not exist"),
        "cors",
    ),
    _bucket(
        "GetBucketEncryption",
        "GET",
        buckets.without(Code.NO_SUCH_ENCRYPTION, "The server side encryption configuration was not found"),
        "encryption",
    ),
    _bucket(
        "GetBucketWebsite",
        "GET",
        buckets.without(Code.NO_SUCH_WEBSITE, "The specified bucket does not have a website configuration"),
        "website",
    ),
    _bucket(
        "GetObjectLockConfiguration",
        "GET",
        buckets.without(Code.NO_SUCH_OBJECT_LOCK, "Object Lock configuration does not exist for this bucket"),
        "object-lock",
    ),
    _bucket(
        "GetBucketReplication",
        "GET",
        buckets.without(Code.NO_SUCH_REPLICATION, "The replication configuration was not found"),
        "replication",
    ),
    _bucket(
        "GetPublicAccessBlock",
        "GET",
        buckets.without(
            Code.NO_SUCH_PUBLIC_ACCESS_BLOCK, "The public access block configuration was not found"
        ),
        "publicAccessBlock",
    ),
    _bucket(
        "GetBucketOwnershipControls",
        "GET",
        buckets.without(Code.NO_SUCH_OWNERSHIP_CONTROLS, "The bucket ownership controls were not found"),
        "ownershipControls",
    ),
    _object("GetObject", "GET", objects.get_object),
    _object("GetObjectPart", "GET", objects.get_object, "partNumber"),
    _object("HeadObject", "HEAD", objects.head_object),
    _object("HeadObjectPart", "HEAD", objects.head_object, "partNumber"),
    _object("PutObject", "PUT", objects.put_object),
    _object("CopyObject", "PUT", copies.copy_object, is_copy=True),
    _object("DeleteObject", "DELETE", deletes.delete_object),
    _object("GetObjectAttributes", "GET", attributes.get_attributes, "attributes"),
    _object("GetObjectAcl", "GET", buckets.get_acl, "acl"),
    _object("GetObjectTagging", "GET", tagging.get_tagging, "tagging"),
    _object("PutObjectTagging", "PUT", tagging.put_tagging, "tagging"),
    _object("DeleteObjectTagging", "DELETE", tagging.delete_tagging, "tagging"),
    _object("CreateMultipartUpload", "POST", multipart.create_upload, "uploads"),
    _object("UploadPart", "PUT", multipart.upload_part, "partNumber", "uploadId"),
    _object("UploadPartCopy", "PUT", multipart.upload_part_copy, "partNumber", "uploadId", is_copy=True),
    _object("ListParts", "GET", multipart.list_parts, "uploadId"),
    _object("CompleteMultipartUpload", "POST", multipart.complete_upload, "uploadId"),
    _object("AbortMultipartUpload", "DELETE", multipart.abort_upload, "uploadId"),
)
