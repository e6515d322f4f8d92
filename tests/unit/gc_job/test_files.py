"""Golden bytes in tests/golden/gc hold version 1 of every file of garbage collection for ever."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from lakebed.env.clock import Instant
from lakebed.errors import CorruptError, ErrorKind
from lakebed.format import gc
from lakebed.format.gc import (
    CANDIDATES_FILE,
    COMMITS_FILE,
    NAMES_FILE,
    OBJECTS_FILE,
    QUARANTINED,
    ROOTS,
    STATE,
    SWEEP_STARTED,
    UNCOMMITTED_FILE,
    Amount,
    Attempts,
    DataFile,
    Phase,
    Quarantined,
    Roots,
    Share,
    State,
    Summary,
    SweepStarted,
    UncommittedSource,
)
from lakebed.format.owners import OWNER, Owner
from lakebed.format.parquet import FileKind
from lakebed.model.gc import MarkKind
from lakebed.model.ids import RepoName, RepoUid
from lakebed.spark.gc.printing import print_summary

GOLDEN = Path(__file__).parents[2] / "golden" / "gc"
NOW = Instant(1_700_000_000_000_000)
UID = RepoUid("00000000000000000uid")
FILES = (DataFile("_lakebed/gc/r/x/00000000.parquet", 3),)

TABLES: dict[str, tuple[FileKind, dict[str, list[Any]]]] = {
    "commits": (
        COMMITS_FILE,
        {
            "commit_id": ["1" * 64, "2" * 64],
            "metarange_id": ["", f"{'a' * 64}-n"],
            "live": [False, True],
            "reachable": [True, True],
        },
    ),
    "uncommitted": (
        UNCOMMITTED_FILE,
        {
            "address": ["data/vvv/a", "s3://elsewhere/é"],
            "creation_date": [1_700_000_000, 0],
            "source": [UncommittedSource.ROW, UncommittedSource.LINK],
        },
    ),
    "objects": (OBJECTS_FILE, {"address": ["data/vvv/a"], "size": [2**40], "mtime": [NOW]}),
    "candidates": (
        CANDIDATES_FILE,
        {"address": ["data/vvv/a"], "size": [0], "mtime": [NOW], "first_marked_at": [NOW + 1]},
    ),
    "names": (NAMES_FILE, {"name": ["a", "é"]}),
}

DOCUMENTS: dict[str, tuple[Any, Any]] = {
    "roots": (
        ROOTS,
        Roots(
            uid=UID,
            commits=FILES,
            nonces=("n1", "n2"),
            attempts=(Attempts("i", 7, (3, 5)), Attempts("j", 0)),
            trees=(f"{'b' * 64}-n",),
        ),
    ),
    "state": (
        STATE,
        State(
            uid=UID,
            run="r",
            kind=MarkKind.OPTIMIZED,
            optimized_since_clean=4,
            started_at=NOW,
            scanned_at=Instant(NOW + 5),
            bound="vup000000000",
            floor="vu0000000000",
            objects=10,
            bytes=1000,
            candidates=FILES,
            metadata=FILES,
            watched=(),
            ahead=FILES,
            live=FILES,
            ranges=FILES,
        ),
    ),
    "quarantine": (QUARANTINED, Quarantined(uid=UID, run="r", since=NOW, until=Instant(NOW + 7))),
    "sweep_started": (SWEEP_STARTED, SweepStarted(uid=UID, mark="m", run="r", at=NOW)),
    "owner": (
        OWNER,
        Owner(generation=2, uid=UID, repository=RepoName("lake"), installation="host é", at=NOW),
    ),
}

SUMMARY = Summary(
    run="r",
    repository="lake",
    uid=UID,
    kind=MarkKind.CLEAN,
    reason="the first run",
    engine="polars",
    started_at=NOW,
    marked_at=Instant(NOW + 9),
    min_age_seconds=86400.0,
    grace_seconds=86400.0,
    listed=Amount(10, 1000),
    namespace=Amount(10, 1000),
    live_commits=3,
    commits=4,
    ranges=5,
    uncommitted=6,
    candidates=Amount(2, 200),
    marked=Amount(2, 150),
    marked_objects=Amount(1, 100),
    by_prefix_and_age=(Share("data/", "1 to 7 days", 1, 100),),
    skipped_slices=2,
    unknown_folders=1,
    marked_files=FILES,
    phases=(Phase("list", 1.5, 10),),
    warnings=("look",),
    deleted=Amount(1, 100),
    swept_at=Instant(NOW + 20),
)


def table(kind: FileKind, columns: dict[str, list[Any]]) -> pa.Table:
    return pa.table(
        [pa.array(v, f.type) for v, f in zip(columns.values(), kind.schema, strict=True)], kind.schema
    )


@pytest.mark.parametrize("name", TABLES)
def test_version_1_of_every_table_is_read_for_ever(name: str):
    kind, columns = TABLES[name]

    assert gc.decode_table(kind, (GOLDEN / f"{name}.v1.parquet").read_bytes()).equals(table(kind, columns))


@pytest.mark.parametrize("name", TABLES)
def test_what_is_encoded_comes_back(name: str):
    kind, columns = TABLES[name]

    assert gc.decode_table(kind, gc.encode_table(kind, table(kind, columns))).equals(table(kind, columns))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_version_1_of_every_document_is_read_for_ever(name: str):
    document, body = DOCUMENTS[name]

    assert document.open((GOLDEN / f"{name}.v1.json").read_bytes()) == body


@pytest.mark.parametrize(
    ("name", "golden"),
    [*((name, name) for name in ("roots", "quarantine", "sweep_started", "owner")), ("state", "state_trees")],
)
def test_documents_are_written_as_ever(name: str, golden: str):
    document, body = DOCUMENTS[name]
    if golden == "state_trees":
        body = msgspec.structs.replace(body, trees=Amount(7, 700))
    data = (GOLDEN / f"{golden}.v1.json").read_bytes()

    assert document.open(data) == body
    assert document.seal(body) == data


def test_version_1_of_a_summary_is_read_for_ever():
    assert gc.decode_summary((GOLDEN / "summary.v1.json").read_bytes()) == SUMMARY


def test_a_summary_is_written_as_ever():
    summary = msgspec.structs.replace(SUMMARY, trees=Amount(7, 700), odd_names=3)
    golden = (GOLDEN / "summary_trees.v1.json").read_bytes()

    assert gc.decode_summary(golden) == summary
    assert gc.encode_summary(summary) == golden


@pytest.mark.parametrize(("golden", "says"), [("summary", False), ("summary_trees", True)])
def test_a_report_says_of_ranges_and_metaranges_only_what_was_counted(
    golden: str, says: bool, capsys: pytest.CaptureFixture[str]
):
    print_summary(gc.decode_summary((GOLDEN / f"{golden}.v1.json").read_bytes()))

    shown = capsys.readouterr().out
    assert "10% of the objects" in shown
    assert ("7 ranges and metaranges" in shown) is ("of all files" in shown) is says


@pytest.mark.parametrize("name", DOCUMENTS)
def test_any_changed_byte_of_a_document_is_found(name: str):
    document, body = DOCUMENTS[name]
    sealed = document.seal(body)

    for at in range(len(sealed)):
        damaged = bytearray(sealed)
        damaged[at] ^= 0x01
        if sealed[at : at + 1].isdigit() and sealed[:at].endswith(b'"version":'):
            continue  # An older or newer version is another matter.
        with pytest.raises(CorruptError):
            document.open(bytes(damaged))


@pytest.mark.parametrize("cut", [0, 1, 40, -1])
def test_a_document_that_was_cut_short_is_found(cut: int):
    with pytest.raises(CorruptError):
        STATE.open(STATE.seal(DOCUMENTS["state"][1])[:cut])


def test_a_document_of_another_kind_is_refused():
    with pytest.raises(CorruptError, match="gc-quarantine"):
        STATE.open(QUARANTINED.seal(DOCUMENTS["quarantine"][1]))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_newer_version_asks_for_an_upgrade(name: str):
    document, body = DOCUMENTS[name]
    newer = {**msgspec.json.decode(document.seal(body)), "version": 2}

    with pytest.raises(CorruptError, match="upgrade") as caught:
        document.open(msgspec.json.encode(newer))
    assert caught.value.kind is ErrorKind.NEWER_VERSION


def test_a_table_with_other_rows_than_expected_is_refused():
    kind, columns = TABLES["names"]

    with pytest.raises(CorruptError, match="holds 2 rows, not 3"):
        gc.decode_table(kind, gc.encode_table(kind, table(kind, columns)), rows=3)


def test_a_report_that_is_no_report_is_refused():
    with pytest.raises(CorruptError):
        gc.decode_summary(b"{}")


def test_the_record_of_a_deletion_has_the_name_of_its_chunk():
    assert gc.deleted_key("_lakebed/gc/r/marked/00000003.parquet") == "_lakebed/gc/r/deleted/00000003.parquet"
