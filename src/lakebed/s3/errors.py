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
    NOT_IMPLEMENTED = ("NotImplemented", 501)
    REQUEST_TIME_TOO_SKEWED = ("RequestTimeTooSkewed", 403)
    SIGNATURE_DOES_NOT_MATCH = ("SignatureDoesNotMatch", 403)
    X_AMZ_CONTENT_SHA256_MISMATCH = ("XAmzContentSHA256Mismatch", 400)

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
