"""What a run decides: which slices it reads, of which kind it is, and when it refuses to go on. Pure.

Ages. An object may be a candidate if its slice was opened before

    started_at - (min_age + slice_seconds + clock slack)

and if the store wrote it before started_at - min_age - clock slack. The first covers addresses that were
given out (the last one of a slice when it closes, good for `link_seconds`), the second objects that arrived late. A
`min_age` below `link_seconds` is a trial: then slices that are still open are read as well, and only what
the server tracks (links, uploads, copies) protects what is on its way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.env.clock import SECOND, Instant, after
from lakebed.errors import ErrorKind, PreconditionError
from lakebed.format.gc import Roots, State, Summary
from lakebed.format.layout import DATA_FOLDER, OWN_FOLDER, SLICE_NAME_WIDTH, slice_time
from lakebed.format.tree_names import (
    HASH_DIGITS,
    OLD_ATTEMPT,
    OLD_HASH_DIGITS,
    OWNER_DIGITS,
    TOKEN_DIGITS,
    WRITER_DIGITS,
    owner_of,
    token_text,
    writer_of,
)
from lakebed.limits import GC_OPTIMIZED_RUNS_MAX, GC_SHARE_MAX
from lakebed.model.gc import MarkKind
from lakebed.spark.gc.ports import Slices, Started

SPECIAL_FOLDERS: Final = frozenset({"_lakebed", "_lakefs", ".lakebed"})
"""Folders of a namespace that are not users' objects: ours, the peer's, and what the local driver keeps."""
SPECIAL_NAMES: Final = frozenset({"dummy"})
"""Objects that the peer leaves in the root of a namespace."""

PLAIN_NAME: Final = r"^[0-9A-Za-z_.,=\-]+(/[0-9A-Za-z_.,=\-]+)*$"
"""Names that every store spells as they are. Others are left alone: a name that a listing spells in another way than
an entry does would look like garbage."""

IN_A_SLICE: Final = r"^data/[0-9a-v]{20}/"
"""Addresses in what may be a slice of ours; `Slices` says in which."""
IN_A_FOLDER: Final = r"^data/[^/]+/"

TREE_FILE: Final = (
    r"^_lakebed/(?:ranges|metaranges)/"
    rf"(?:[0-9a-f]{{{HASH_DIGITS}}}([0-9a-f]{{{WRITER_DIGITS}}})|[0-9a-f]{{{OLD_HASH_DIGITS}}}-([0-9A-Za-z_-]+))\.parquet$"
)
"""Keys of ranges and metaranges, and who wrote them, in one of two groups; what is called otherwise is left alone."""

ATTEMPTS: Final = (rf"^([0-9a-f]{{{OWNER_DIGITS}}})([0-9a-f]{{{TOKEN_DIGITS}}})$", OLD_ATTEMPT)
"""How writers read that are attempts of compaction, in names of now and of earlier versions: owner and token."""
OLD_TOKEN_WIDTH: Final = 19
"""Tokens of earlier versions are decimal; with zeros in front their texts have their order, too."""

AGES: Final[tuple[tuple[str, int | None], ...]] = (
    ("under a day", 1),
    ("1 to 7 days", 7),
    ("7 to 30 days", 30),
    ("30 to 90 days", 90),
    ("90 to 365 days", 365),
    ("over a year", None),
)
"""Ages of objects in reports: each up to so many days."""
LOOSE_PREFIX: Final = "outside of slices"

# Names that would be opened later than this after now are no slices of ours; the peer's look like that.
_FLOOR_SECONDS: Final = 365 * 24 * 3600.0
_DAY: Final = 24 * 3600 * SECOND
_BASE32: Final = frozenset("0123456789abcdefghijklmnopqrstuv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a caller asks of a run."""

    min_age_seconds: float
    grace_seconds: float
    clean: bool = False
    """Whether an optimized run will not do."""
    allow_large: bool = False
    share_max: float = GC_SHARE_MAX
    """How much of a namespace may go at once."""
    quarantine_days: float | None = None
    rate: float | None = None
    """Objects to delete in a second, at most."""


def held_writers(roots: Roots) -> list[str]:
    """Return the writers that may still refer to their files, as names have them and as earlier versions had."""
    attempts = [f"{a.incarnation}-{token}" for a in roots.attempts for token in a.held]
    return [text for nonce in (*roots.nonces, *attempts) for text in (nonce, writer_of(nonce))]


def last_tokens(roots: Roots) -> list[tuple[str, str]]:
    """Return for each owner of attempts the last token: what was written under a later one may be installed yet."""
    new = [(owner_of(a.incarnation), token_text(a.last_token)) for a in roots.attempts]
    return new + [(a.incarnation, f"{a.last_token:0{OLD_TOKEN_WIDTH}}") for a in roots.attempts]


def slices_of(started: Started, options: Options, previous: State | None) -> Slices:
    """Return which slices are too new for this run; `previous` is the state that an optimized one goes on from.

    What was read stays read, whatever the ages are now, and what was no slice stays none: of both, nobody has kept
    which addresses are committed.
    """
    seconds = options.min_age_seconds
    if not is_trial(started, options):
        seconds += started.slice_seconds + started.clock_slack_seconds
    bound = slice_time(after(started.now, -seconds))
    if previous is not None:
        return Slices(min(bound, previous.bound), previous.floor)
    return Slices(bound, slice_time(after(started.now, _FLOOR_SECONDS)))


def is_trial(started: Started, options: Options) -> bool:
    """Return whether the ages are too short to cover an address that was given out and not used yet."""
    return options.min_age_seconds < started.link_seconds


def warnings_of(started: Started, options: Options) -> list[str]:
    """Return what whoever chose these ages should know."""
    found = []
    if is_trial(started, options):
        found.append(
            f"objects younger than {options.min_age_seconds:.0f} s are kept, while addresses are good for "
            f"{started.link_seconds:.0f} s: uploads that are on their way may be lost. For trials only"
        )
    if options.grace_seconds < started.grace_seconds:
        found.append(
            f"the second mark may come {options.grace_seconds:.0f} s after the first, while readers may hold on to what "
            f"they have read for {started.grace_seconds:.0f} s: work in progress may be lost. For trials only"
        )
    return found


def written_at_most(started: Started, options: Options) -> Instant:
    """Return the latest time of the store at which a candidate was written."""
    slack = 0.0 if is_trial(started, options) else started.clock_slack_seconds
    return after(started.now, -(options.min_age_seconds + slack))


def confirms_at_most(started: Started, scanned_at: Instant, options: Options) -> Instant:
    """Return the latest first mark that this run confirms: a grace before it began. With no grace, its own."""
    if options.grace_seconds == 0:
        return scanned_at
    return after(started.now, -options.grace_seconds)


def is_slice(name: str, slices: Slices) -> bool:
    """Return whether a folder of `data/` is a slice of ours, whose name tells the time."""
    return len(name) == SLICE_NAME_WIDTH and name >= slices.floor and _BASE32.issuperset(name)


def is_newer(name: str, slices: Slices) -> bool:
    """Return whether a folder of `data/` is a slice that is not read yet."""
    return is_slice(name, slices) and name < slices.bound


def folders_to_read(names: Sequence[str], slices: Slices, previous: State | None) -> list[str]:
    """Return the folders of `data/` that this run lists: all that are not too new, or of those the ones that
    were too new for the state it starts from.
    """
    ready = [name for name in names if not is_newer(name, slices)]
    if previous is None:
        return ready
    before = Slices(previous.bound, slices.floor)
    return [name for name in ready if is_newer(name, before)]


def with_plainness(listed: pa.Table) -> pa.Table:
    """Return the listed objects (address, size, mtime) and whether their names are `plain`: such that every store spells
    them alike. Every listing is put through this.
    """
    return listed.append_column("plain", pc.match_substring_regex(listed.column("address"), PLAIN_NAME))


def loose_objects(listed: pa.Table) -> pa.Table:
    """Return what may be a user's object of what lies directly in the namespace or in `data/`."""
    special = pc.is_in(listed.column("address"), value_set=pa.array(sorted(SPECIAL_NAMES), pa.string()))
    return with_plainness(listed.filter(pc.invert(special)))


def prefix_of(address: str) -> str:
    """Return the heading under which a report counts an address."""
    if address.startswith(OWN_FOLDER):
        return "/".join(address.split("/")[:2]) + "/"
    inside = address.startswith(DATA_FOLDER) and address.count("/") >= 2
    return DATA_FOLDER if inside else LOOSE_PREFIX


def age_edges(now: Instant) -> list[tuple[str, int]]:
    """Return the ages of a report with the earliest time of each; the last has none."""
    return [(age, now - days * _DAY) for age, days in AGES if days is not None]


def choose_kind(previous: State | None, why_not: str, options: Options) -> tuple[MarkKind, str]:
    """Return the kind of a run, and why."""
    if previous is None:
        return MarkKind.CLEAN, why_not
    if options.clean:
        return MarkKind.CLEAN, "it was asked for"
    if previous.trees is None:
        return (
            MarkKind.CLEAN,
            f"the state of run {previous.run} does not say how many ranges and metaranges there are",
        )
    if previous.optimized_since_clean >= GC_OPTIMIZED_RUNS_MAX:
        return MarkKind.CLEAN, f"{previous.optimized_since_clean} optimized runs since the last clean one"
    return MarkKind.OPTIMIZED, f"it goes on from run {previous.run}"


def require_clocks(*, server: Instant, store: Instant, job: Instant, slack_seconds: float) -> None:
    """Refuse to decide by age when nobody knows what time it is."""
    clocks = {"the server": server, "the store": store, "this machine": job}
    first, last = min(clocks, key=lambda c: clocks[c]), max(clocks, key=lambda c: clocks[c])
    apart = (clocks[last] - clocks[first]) / SECOND
    if apart > slack_seconds:
        raise _unsafe(
            f"the clock of {last} is {apart:.0f} s ahead of that of {first}, and {slack_seconds:.0f} s are allowed:"
            " ages cannot be trusted. Set the clocks, then run again"
        )


def require_uid(found: str, started: Started, *, what: str) -> None:
    """Refuse what was written for another repository."""
    if found != started.uid:
        raise _unsafe(
            f"{what} belongs to another repository (uid {found}, this one is {started.uid}): "
            "does the namespace belong to two repositories?"
        )


def require_quick(began: Instant, ended: Instant, started: Started) -> None:
    """Refuse a scan that took so long that what was read first may be out of date."""
    seconds = (ended - began) / SECOND
    if started.grace_seconds and seconds > started.grace_seconds / 2:
        raise _unsafe(
            f"listing what is referenced took {seconds:.0f} s, more than half of the server's grace of "
            f"{started.grace_seconds:.0f} s: what was read first may be out of date. Run again at a quieter time"
        )


def require_live(*, commits: int, live: int, ranges: int, addresses: int) -> None:
    """Refuse to believe that nothing committed is live."""
    if not commits:
        raise _unsafe(
            "there are no commits, so everything would be garbage: restore the refs of this bare repository, or commit "
            "something, then run again"
        )
    if not live:
        raise _unsafe(
            f"of {commits} commits none is said to be live: a branch always has one that is. Run again, and if it stays so, "
            "look with lakebed verify"
        )
    if ranges and not addresses:
        raise _unsafe(
            f"{ranges} ranges are live, and no address was read from them: look with lakebed verify what is wrong with them"
        )


def require_whole(*, saved: int, marked: int) -> None:
    """Refuse a list of what is marked that lacks rows, or has some twice."""
    if saved != marked:
        raise _unsafe(f"{marked} objects are marked and {saved} were saved: run again")


def require_share(summary: Summary, options: Options) -> None:
    """Refuse to delete an unlikely part of a namespace, unless somebody expects it."""
    if options.allow_large:
        return
    wholes = [("objects", summary.marked_objects, summary.namespace)]
    # Trees are no users' objects, and do not make a large part of those small. Old reports do not count them.
    if summary.trees is not None:
        wholes.append(("files", summary.marked, summary.namespace + summary.trees))
    share = options.share_max
    for noun, going, whole in wholes:
        counted = (noun, going.objects, whole.objects)
        weighed = (f"bytes of the {noun}", going.bytes, whole.bytes)
        for what, part, everything in (counted, weighed):
            if part > share * everything:
                raise _unsafe(
                    f"{part:,} of {everything:,} {what} would go ({percent(part, everything)}), and more than {share:.0%} is "
                    f"unlikely: look at the report of run {summary.run}, then say --allow-large"
                )


def require_fresh(summary: Summary, started: Started) -> None:
    """Refuse a mark of which objects may have been on their way: by now somebody may have got them."""
    seconds = (started.now - summary.marked_at) / SECOND
    trial = summary.min_age_seconds < started.link_seconds or summary.grace_seconds < started.grace_seconds
    if trial and seconds > started.grace_seconds:
        raise _unsafe(
            f"run {summary.run} was a trial (--min-age {summary.min_age_seconds:.0f}, --grace {summary.grace_seconds:.0f}), "
            f"{seconds:.0f} s ago: what was on its way then may be in use now. Mark again"
        )


def percent(part: int, whole: int) -> str:
    """Return a share as people read it."""
    return f"{part / whole:.0%}" if whole else "all"


def _unsafe(message: str) -> PreconditionError:
    return PreconditionError(ErrorKind.GC_UNSAFE, message)
