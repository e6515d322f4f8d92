from dataclasses import replace

import pytest
from tests.unit.compaction.examples import NOW, branch

from lakebed.errors import InvalidInputError
from lakebed.model.branch import Slot
from lakebed.model.ids import Nonce
from lakebed.model.segments import (
    SegmentName,
    attempt_nonce,
    era_at,
    is_orphan,
    parse_segment_id,
    protects,
    segment_key,
)

OWN = SegmentName(472_222, Nonce("gqk3l0v8n2c4tq8vb0e0"))
OUTPUT = SegmentName(472_222, Nonce("i"), 7)
HELD = branch(fold_slot=Slot(job="j", token=7), last_token=9)


@pytest.mark.parametrize("name", [OWN, OUTPUT])
def test_a_name_says_who_wrote_it_and_when(name):
    assert parse_segment_id(str(name)) == name
    assert segment_key(str(name)) == f"_lakebed/segments/{name}.parquet"


@pytest.mark.parametrize(
    "text", ["", "1-n", "00000001", "00000001-", "00000001-n-x", "00000001-a/b", "../00000001-n"]
)
def test_other_texts_are_no_names(text):
    with pytest.raises(InvalidInputError):
        parse_segment_id(text)


def test_an_era_is_an_hour():
    assert era_at(NOW) == OWN.era
    assert era_at(NOW) + 1 == era_at(type(NOW)(NOW + 3600 * 1_000_000))


def test_what_an_attempt_writes_has_no_nonce_that_an_operation_could_draw():
    assert "-" in attempt_nonce(Nonce("i"), 7)


def test_an_attempt_is_protected_while_it_may_install_and_no_longer():
    assert protects(HELD, 7)
    assert protects(HELD, 10)
    assert not protects(HELD, 8)
    assert not protects(replace(HELD, fold_slot=None), 7)


def test_a_segment_that_something_refers_to_is_no_orphan():
    for name in (OWN, OUTPUT):
        assert not is_orphan(name, referenced={str(name)}, branches={}, min_era=OWN.era + 9)


def test_a_writers_segment_is_an_orphan_once_no_branch_would_take_it():
    assert not is_orphan(OWN, referenced=set(), branches={}, min_era=OWN.era)
    assert is_orphan(OWN, referenced=set(), branches={}, min_era=OWN.era + 1)


def test_a_jobs_segment_is_an_orphan_once_its_token_cannot_install():
    def orphan(owner):
        return is_orphan(OUTPUT, referenced=set(), branches={Nonce("i"): owner}, min_era=0)

    assert not orphan(HELD)
    assert orphan(replace(HELD, fold_slot=None))
    assert is_orphan(OUTPUT, referenced=set(), branches={}, min_era=0)
