from lakebed.committed.spans import Span, spans
from lakebed.committed.tree import Tree
from lakebed.format.metaranges import RangeInfo
from lakebed.model.ids import MetarangeId, RangeId


def tree(*bounds):
    """A tree of ranges given as "first-last"."""
    infos = []
    for bound in bounds:
        low, _, high = bound.partition("-")
        infos.append(
            RangeInfo(id=RangeId(bound), hash=bound, min_key=low, max_key=high or low, count=2, bytes=1)
        )
    return Tree(MetarangeId("-".join(bounds)), tuple(infos))


def shape(*trees, **bounds):
    return [tuple(info.id if info else None for info in span.ranges) for span in spans(list(trees), **bounds)]


def test_ranges_that_end_alike_share_a_span():
    assert shape(tree("a-b", "c-d"), tree("a-b", "c-d")) == [("a-b", "a-b"), ("c-d", "c-d")]


def test_a_range_that_is_split_on_one_side_is_met_twice():
    assert shape(tree("a-d"), tree("a-b", "c-d")) == [("a-d", "a-b"), ("a-d", "c-d")]


def test_ranges_behind_a_new_last_key_fall_into_step_again():
    left, right = tree("a-c", "e-f"), tree("a-d", "e-f")

    assert shape(left, right) == [("a-c", "a-d"), (None, "a-d"), ("e-f", "e-f")]


def test_a_tree_that_ended_has_nothing_in_later_spans():
    assert shape(tree("a-b"), tree("c-d", "e-f"), tree()) == [
        ("a-b", None, None),
        (None, "c-d", None),
        (None, "e-f", None),
    ]


def test_spans_cover_all_keys_without_overlap():
    found = list(spans([tree("a-c", "e-h"), tree("b-f", "g-i")]))

    assert found[0].start == b""
    assert [s.start for s in found[1:]] == [s.stop for s in found[:-1]]
    assert found[-1].stop == b"i\x00"


def test_bounds_leave_out_spans_that_hold_nothing_between_them():
    assert shape(tree("a-b", "c-d", "e-f"), start=b"c", stop=b"d") == [("c-d",)]
    assert shape(tree("a-b", "c-d", "e-f"), start=b"b\x00") == [("c-d",), ("e-f",)]
    assert shape(tree("a-b", "c-d"), start=b"x") == []


def test_a_span_holds_a_range_only_whole():
    [info] = tree("b-d").ranges

    assert Span(b"", b"d\x00", (info,)).holds(info)
    assert Span(b"b", b"d\x00", (info,)).holds(info)
    assert not Span(b"b\x00", b"d\x00", (info,)).holds(info)
    assert not Span(b"", b"d", (info,)).holds(info)
