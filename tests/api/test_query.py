"""What stands in a query is decoded once, and wholly, whatever is escaped in it."""

from urllib.parse import unquote_to_bytes

import msgspec
import pytest

from lakebed.api.query import Parameters


class Query(msgspec.Struct):
    path: str = ""


@pytest.mark.parametrize(
    "sent",
    [
        b"a%2Fb%2Fc",
        b"a%2fb",
        b"%252F",
        b"%%2F",
        b"%2%2F",
        b"%2F%",
        b"a%2",
        b"%2F%2B",
        b"a b%2F%C3%A9",
        b"plain/slash",
    ],
)
def test_a_value_is_decoded_as_the_library_does(sent: bytes) -> None:
    parameters = Parameters(Query, where="query")

    assert parameters.from_query(b"path=" + sent).path == unquote_to_bytes(sent).decode()
