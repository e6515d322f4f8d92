"""A page of a listing is the same JSON whichever way it was written."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lakebed.api.listing_bodies import listing_json
from lakebed.api.object_bodies import stats_page
from lakebed.env.clock import Instant
from lakebed.format.blocks import entry_block
from lakebed.model.entries import Entry
from lakebed.model.ids import Path
from lakebed.versioning.paging import BlockPage

# Plain names go column by column; one that needs escaping sends the whole page the other way.
_PLAIN = st.text(st.characters(codec="utf-8", exclude_characters='"\\', min_codepoint=32), max_size=8)
_ANY = st.text(st.characters(codec="utf-8"), max_size=8)


def _entries(texts: st.SearchStrategy[str]) -> st.SearchStrategy[list[Entry]]:
    entry = st.builds(
        Entry,
        path=texts.filter(bool).map(Path),
        address=st.one_of(texts, texts.map(lambda text: f"s3://{text}")),
        checksum=texts,
        size_bytes=st.integers(0, 2**62),
        mtime=st.integers(0, 2**62).map(Instant),
        content_type=texts,
        metadata=st.dictionaries(_ANY, _ANY, max_size=2),
    )
    return st.lists(entry, max_size=6, unique_by=lambda each: each.path)


@given(
    entries=st.one_of(_entries(_PLAIN), _entries(_ANY)),
    prefixes=st.lists(_ANY.filter(bool), max_size=4, unique=True),
    namespace=_ANY,
    has_more=st.booleans(),
    with_metadata=st.booleans(),
)
def test_a_page_written_by_columns_says_what_its_values_say(
    entries: list[Entry], prefixes: list[str], namespace: str, has_more: bool, with_metadata: bool
) -> None:
    ordered = sorted(entries, key=lambda each: each.path)
    taken = {each.path for each in ordered}
    folders = tuple(sorted(name for name in prefixes if name not in taken))
    page = BlockPage(rows=entry_block(ordered), prefixes=folders, has_more=has_more)
    by_values = msgspec.json.encode(stats_page(page, namespace, with_metadata=with_metadata))
    by_columns = listing_json(page, namespace, with_metadata=with_metadata)
    assert msgspec.json.decode(by_columns) == msgspec.json.decode(by_values)
