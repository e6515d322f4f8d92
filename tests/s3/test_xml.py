"""Documents: what is written can be read, and what is read holds no surprises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.limits import S3_XML_ELEMENTS_MAX
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.xml import DECLARATION, all_escaped, document, element, escaped, parse

# What XML 1.0 can hold: other control characters are written as Amazon writes them, and no parser takes that.
texts = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff")
)


@given(st.lists(texts))
def test_text_comes_back_as_it_was(values: list[str]) -> None:
    written = DECLARATION + document("Delete", [element("Key", value) for value in values])
    assert [child.text for child in parse(written.encode(), root="Delete").children] == values


@given(st.lists(st.text()))
def test_escaping_all_is_escaping_each(values: list[str]) -> None:
    assert all_escaped(values) == [escaped(value) for value in values]


@pytest.mark.parametrize("text", ["a\nb\tc\rd", "\x01\x1f", "<&>\"'"])
def test_controls_and_markup_become_references(text: str) -> None:
    assert not set(escaped(text)) & set("\n\t\r\x01\x1f<>\"'")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nothing",
        b"<Delete>",
        b"<Other/>",
        b"<Delete></Delete><Delete/>",
        b'<!DOCTYPE Delete [<!ENTITY a "b">]><Delete>&a;</Delete>',
        b"<!DOCTYPE Delete><Delete/>",
        b"<Delete>&undefined;</Delete>",
        b"<Delete>" + b"<a>" * 20 + b"</a>" * 20 + b"</Delete>",
        b"\xff\xfe<Delete/>",
        b"<Delete>\xff</Delete>",
        b'<?xml version="1.0" encoding="x"?><Delete/>',
        b'<?xml version="1.0" encoding="idna"?><Delete/>',
        b'<?xml version="1.0" encoding="zlib"?><Delete/>',
        '<?xml version="1.0" encoding="utf-16"?><Delete/>'.encode("utf-16"),
        b"<Delete>" + b"<a/>" * S3_XML_ELEMENTS_MAX + b"</Delete>",
        b"<Delete " + b" ".join(b"a%d=''" % number for number in range(100_000)) + b"/>",
    ],
)
def test_what_is_no_document_is_refused(body: bytes) -> None:
    with pytest.raises(S3Error) as refused:
        parse(body, root="Delete")
    assert refused.value.code is Code.MALFORMED_XML


def test_namespaces_do_not_matter() -> None:
    for head in (b"<Delete>", b'<Delete xmlns="x">', b'<s3:Delete xmlns:s3="x">'):
        tail = b"</s3:Delete>" if head.startswith(b"<s3") else b"</Delete>"
        assert parse(head + b"<Quiet>true</Quiet>" + tail, root="Delete").value("Quiet") == "true"


def test_text_in_many_pieces_is_joined_in_order() -> None:
    text = parse(b"<Delete>a&amp;b<!-- -->c<Key/>d<![CDATA[<e>]]>\nf</Delete>", root="Delete").text
    assert text == "a&bcd<e>\nf"
    long = "".join(map(str, range(50_000)))
    assert parse(f"<Delete><Key>{long}</Key></Delete>".encode(), root="Delete").value("Key") == long
