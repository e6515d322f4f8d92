"""Errors that nobody foresaw."""

from structlog.testing import capture_logs

from lakebed.api.errors import unexpected_reply

SECRET = "wJalrXUtnFEMI"


def _broken(secret: str) -> None:
    try:
        {}[secret]  # type: ignore[index]  # it is there to fail
    except KeyError as error:
        raise RuntimeError(f"cannot use {secret}") from error


def test_a_bug_is_a_500_with_the_id_of_its_request_and_a_traceback_without_secrets() -> None:
    with capture_logs() as logged:
        try:
            _broken(SECRET)
        except RuntimeError as error:
            reply = unexpected_reply(error, request_id="r-1")

    assert reply.status == 500
    assert reply.headers == ((b"content-type", b"application/json"), (b"x-content-type-options", b"nosniff"))
    assert isinstance(reply.body, bytes)
    assert b'"message"' in reply.body
    assert b"r-1" in reply.body
    (line,) = logged
    assert (line["event"], line["log_level"], line["request_id"]) == ("request_failed", "error", "r-1")
    assert line["error"] == "RuntimeError from KeyError"
    assert "_broken" in line["traceback"]
    assert SECRET not in str(logged) + reply.body.decode()
