"""`S3Error`: an answer that S3 clients understand, by the code that Amazon gives.

Clients act on the code and the status (retry, create the bucket, ask for another key),
people read the message: both come from one table.
"""

from enum import Enum


class Code(Enum):
    """A code of Amazon's and the status that goes with it."""

    ACCESS_DENIED = ("AccessDenied", 403)
    AUTHORIZATION_HEADER_MALFORMED = ("AuthorizationHeaderMalformed", 400)
    AUTHORIZATION_QUERY_PARAMETERS_ERROR = ("AuthorizationQueryParametersError", 400)
    BAD_DIGEST = ("BadDigest", 400)
    INCOMPLETE_BODY = ("IncompleteBody", 400)
    INVALID_ACCESS_KEY_ID = ("InvalidAccessKeyId", 403)
    INVALID_ARGUMENT = ("InvalidArgument", 400)
    INVALID_DIGEST = ("InvalidDigest", 400)
    INVALID_REQUEST = ("InvalidRequest", 400)
    MALFORMED_TRAILER_ERROR = ("MalformedTrailerError", 400)
    NOT_IMPLEMENTED = ("NotImplemented", 501)
    REQUEST_TIME_TOO_SKEWED = ("RequestTimeTooSkewed", 403)
    SIGNATURE_DOES_NOT_MATCH = ("SignatureDoesNotMatch", 403)
    X_AMZ_CONTENT_SHA256_MISMATCH = ("XAmzContentSHA256Mismatch", 400)

    BUCKET_ALREADY_OWNED_BY_YOU = ("BucketAlreadyOwnedByYou", 409)
    ENTITY_TOO_LARGE = ("EntityTooLarge", 400)
    ENTITY_TOO_SMALL = ("EntityTooSmall", 400)
    INTERNAL_ERROR = ("InternalError", 500)
    INVALID_BUCKET_NAME = ("InvalidBucketName", 400)
    INVALID_PART = ("InvalidPart", 400)
    INVALID_PART_NUMBER = ("InvalidPartNumber", 416)
    INVALID_PART_ORDER = ("InvalidPartOrder", 400)
    INVALID_RANGE = ("InvalidRange", 416)
    INVALID_TAG = ("InvalidTag", 400)
    INVALID_URI = ("InvalidURI", 400)
    KEY_TOO_LONG = ("KeyTooLongError", 400)
    MALFORMED_XML = ("MalformedXML", 400)
    METADATA_TOO_LARGE = ("MetadataTooLarge", 400)
    METHOD_NOT_ALLOWED = ("MethodNotAllowed", 405)
    MISSING_CONTENT_LENGTH = ("MissingContentLength", 411)
    NO_SUCH_BUCKET = ("NoSuchBucket", 404)
    NO_SUCH_BUCKET_POLICY = ("NoSuchBucketPolicy", 404)
    NO_SUCH_CORS = ("NoSuchCORSConfiguration", 404)
    NO_SUCH_ENCRYPTION = ("ServerSideEncryptionConfigurationNotFoundError", 404)
    NO_SUCH_KEY = ("NoSuchKey", 404)
    NO_SUCH_LIFECYCLE = ("NoSuchLifecycleConfiguration", 404)
    NO_SUCH_OBJECT_LOCK = ("ObjectLockConfigurationNotFoundError", 404)
    NO_SUCH_OWNERSHIP_CONTROLS = ("OwnershipControlsNotFoundError", 404)
    NO_SUCH_PUBLIC_ACCESS_BLOCK = ("NoSuchPublicAccessBlockConfiguration", 404)
    NO_SUCH_REPLICATION = ("ReplicationConfigurationNotFoundError", 404)
    NO_SUCH_TAG_SET = ("NoSuchTagSet", 404)
    NO_SUCH_UPLOAD = ("NoSuchUpload", 404)
    NO_SUCH_WEBSITE = ("NoSuchWebsiteConfiguration", 404)
    OPERATION_ABORTED = ("OperationAborted", 409)
    PRECONDITION_FAILED = ("PreconditionFailed", 412)
    SERVICE_UNAVAILABLE = ("ServiceUnavailable", 503)
    SLOW_DOWN = ("SlowDown", 503)

    # What Amazon has no word for: people read these in the output of their tools.
    DATA_MISSING = ("ObjectDataMissing", 410)
    NO_SUCH_BRANCH = ("NoSuchBranch", 404)
    PROTECTED_BRANCH = ("ProtectedBranch", 403)
    READ_ONLY_REF = ("ReadOnlyRef", 403)
    READ_ONLY_REPOSITORY = ("ReadOnlyRepository", 403)
    WRONG_ENDPOINT = ("WrongEndpoint", 400)

    def __init__(self, text: str, status: int) -> None:
        self.text = text
        self.status = status


class S3Error(Exception):
    """A request that is refused, with what its XML answer says."""

    def __init__(self, code: Code, message: str, **details: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
