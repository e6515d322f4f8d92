"""What the client says of an error: our server's detail, or the phrase of another server of this API."""

import pytest

from lakebed.client.errors import error_of
from lakebed.errors import AlreadyExistsError, ErrorKind


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            b'{"message": "branch not found", "detail": "branch \'dev\' not found in lake"}',
            "branch 'dev' not found in lake",
        ),
        (b'{"message": "branch not found"}', "branch not found"),
        (b"<html>", "GET /x was answered with status 404"),
    ],
)
def test_detail_is_shown_before_the_message(body: bytes, said: str) -> None:
    error = error_of(404, body, kind="branch-not-found", asked="GET /x")

    assert (str(error), error.kind) == (said, ErrorKind.BRANCH_NOT_FOUND)


@pytest.mark.parametrize("phrase", ["error creating repository: not unique", "Already exists"])
def test_a_name_that_is_taken_is_known_by_the_phrase_of_a_server_without_kinds(phrase: str) -> None:
    error = error_of(409, b'{"message": "%s"}' % phrase.encode(), asked="POST /x")

    assert isinstance(error, AlreadyExistsError)
