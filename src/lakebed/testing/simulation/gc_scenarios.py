"""Scenarios about garbage collection: mixes of work, each about one way to lose something.

Ages are short in most of them: then nothing but what the server lists, and the two marks, protects what is on its way. So
no process stands still there for as long as a grace. Where ages are as long as they should be, some do.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from lakebed.compaction.limits import CompactionLimits
from lakebed.limits import GRACE_SECONDS, SLICE_SECONDS
from lakebed.testing.simulation.adoption_play import play_adoption
from lakebed.testing.simulation.gc_clients import Manners
from lakebed.testing.simulation.gc_dump_play import play_gc_dumps
from lakebed.testing.simulation.gc_play import RULES, Habits, play_gc
from lakebed.testing.simulation.gc_race_play import play_gc_race
from lakebed.testing.simulation.network import Weather
from lakebed.testing.simulation.process import EAGER_LIMITS
from lakebed.testing.simulation.scenario import Scenario
from lakebed.testing.simulation.stage import Conditions
from lakebed.testing.simulation.steps import GC_POINTS


def _collected(
    conditions: Conditions,
    habits: Habits,
    *reaches: str,
    fences: bool = True,
    segments: bool = False,
    compaction: bool = False,
    limits: CompactionLimits | None = None,
    branches: tuple[str, ...] = ("main", "dev", "exp"),
    **work: float,
) -> Scenario:
    play = partial(play_gc, conditions=conditions, habits=habits, work=tuple(work.items()), branches=branches)
    return Scenario(
        play=play, reaches=reaches, fences=fences, segments=segments, compaction=compaction, limits=limits
    )


_SHORT = Conditions(
    clients=6,
    calls=40,
    processes=3,
    kills=0.5,
    pauses=0.5,
    pause_seconds=((1.0, 6), (120.0, 3), (300.0, 1)),
    ambush_seconds=(120.0, 300.0),
    patience=40.0,
    cleaning_seconds=1000.0,
    works=False,
    weather=Weather(refused=0.003, lost=0.003, unanswered=0.01, late=0.01, slow=0.02),
)

# Commits expire as fast as they are made, and everybody wants a name on one of them.
_REFS: dict[str, Any] = {
    "write": 5.0,
    "commit": 7.0,
    "merge": 1.0,
    "revert": 0.5,
    "cherry_pick": 0.5,
    "hard_reset": 2.0,
    "create_branch": 5.0,
    "delete_branch": 4.0,
    "create_tag": 14.0,
    "delete_tag": 9.0,
    "set_rules": 0.3,
    "copy": 1.0,
    "read": 1.0,
    "collect": 5.0,
}
_REFS_MET = ("commits condemned", "create_tag commit-not-found")
# Everybody is at work just when commits are condemned.
_CONDEMNING = (("gc prepare_commits", "attempt"), ("gc prepare_commits", "condemn"))
_REFS_CONDITIONS = replace(_SHORT, clients=8, rush_at=_CONDEMNING, rush_seconds=6.0)
# Collectors are slow, and whoever wants a name is not.
_REFS_HABITS = Habits(rules=(RULES[1], RULES[1], RULES[3], None), clean=0.7)

# Collectors and the servers that they ask die, or stand still, at any step of what they do.
_CRASHES = replace(
    _SHORT,
    processes=4,
    clients=8,
    kills=0.0,
    pauses=0.1,
    ambush_everywhere=True,
    ambush_share=0.06,
    ambush_pauses=0.3,
    ambushes=40,
)
_MANNERS = Manners(
    quarantine=0.5, careful=0.8, store_ahead=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 100.0, 1000.0, -1000.0)
)


def _points(*protocols: str) -> tuple[tuple[str, str], ...]:
    return tuple((protocol, step) for protocol in protocols for step in GC_POINTS[protocol])


GC_SCENARIOS: Mapping[str, Scenario] = {
    "gc": _collected(
        _SHORT,
        Habits(ages=(0.0, 0.0, 300.0)),
        "clean mark",
        "optimized mark",
        "garbage deleted",
        "commits condemned",
        "linked",
        "copied",
        "stash done",
        "pop done",
        "collect gc-running",
        "collect gc-unsafe",
        "process killed",
        "process paused",
        compaction=True,
        write=10,
        delete=2,
        read=3,
        commit=4,
        merge=1,
        revert=0.5,
        hard_reset=0.7,
        reset_branch=0.5,
        reset_path=0.3,
        stash=1,
        pop=1,
        list_stashes=0.3,
        sweep=0.3,
        create_branch=1.5,
        delete_branch=1,
        create_tag=1.5,
        delete_tag=1,
        set_rules=0.7,
        issue=2,
        link=2,
        copy=2,
        move=1,
        compact=1,
        collect=4,
        clean=0.5,
    ),
    "gc-compacted": _collected(
        # So long that what was compacted is referred to by the compacted tree only.
        replace(_SHORT, calls=12, patience=120.0, kills=0.1, pauses=0.1, cleaning_seconds=200.0),
        Habits(rules=(None,), sluggish=False),
        "clean mark",
        "tree installed",
        segments=True,
        compaction=True,
        limits=EAGER_LIMITS,
        branches=("main", "dev"),
        write=10,
        delete=2,
        commit=0.7,
        compact=4,
        collect=5,
    ),
    "gc-moves": _collected(
        replace(_SHORT, calls=60),
        Habits(rules=(None,)),
        "linked",
        "copied",
        "pop done",
        segments=True,
        write=6,
        delete=1,
        commit=1,
        reset_branch=0.5,
        stash=2,
        pop=2,
        issue=6,
        link=8,
        move=5,
        copy=2,
        collect=3,
    ),
    "gc-refs": _collected(_REFS_CONDITIONS, _REFS_HABITS, *_REFS_MET, **_REFS),
    "gc-refs-without-fences": _collected(
        _REFS_CONDITIONS, _REFS_HABITS, *_REFS_MET, fences=False, segments=True, **_REFS
    ),
    "gc-heads": _collected(
        replace(
            _SHORT,
            processes=5,
            clients=10,
            calls=25,
            ambush_at=(("commit", "seal"), ("commit", "upload ranges"), ("commit", "metarange")),
            ambush_everywhere=True,
            ambush_share=0.15,
            ambushes=25,
            ambush_pauses=1.0,
            ambush_least=70.0,
            ambush_seconds=(200.0,),
        ),
        Habits(rules=(RULES[1], RULES[1], None), clean=0.9, sluggish=False),
        "commits condemned",
        "taken for dead",
        write=6,
        commit=4,
        merge=3,
        revert=1,
        cherry_pick=1,
        hard_reset=5,
        create_branch=2,
        delete_branch=2,
        set_rules=0.5,
        collect=6,
    ),
    "gc-trees": _collected(
        # So long that what was committed is referred to by commits only.
        replace(
            _SHORT,
            calls=30,
            patience=120.0,
            cleaning_seconds=200.0,
            weather=replace(_SHORT.weather, slow=0.3),
            rush_at=_CONDEMNING,
        ),
        Habits(rules=(RULES[1], RULES[1], RULES[3], None), clean=0.7, sluggish=False),
        "commits condemned",
        "head moved by commit_tree",
        "head moved by import",
        "commit_tree commit-not-found",
        write=4,
        commit=5,
        commit_tree=9,
        import_prefix=3,
        create_branch=2,
        delete_branch=2,
        set_rules=0.5,
        collect=6,
    ),
    "gc-copies": _collected(
        # What is moved while branches are listed is on none of them when its turn comes.
        replace(
            _SHORT,
            clients=8,
            kills=0.2,
            pauses=0.2,
            rush_at=(("gc prepare_uncommitted", "pin"),),
            rush_seconds=6.0,
        ),
        Habits(rules=(None,)),
        "copied",
        branches=("main", "dev", "exp", "old"),
        write=8,
        move=20,
        copy=1,
        commit=0.3,
        collect=4,
    ),
    "gc-readers": _collected(
        replace(_SHORT, patience=60.0, pauses=0.1, kills=0.1),
        Habits(rules=(RULES[1],), clean=0.7, sluggish=False),
        "read done",
        "garbage deleted",
        branches=("main", "dev"),
        write=10,
        delete=3,
        commit=3,
        reset_branch=1,
        read=8,
        collect=6,
    ),
    "gc-leases": _collected(
        replace(
            _SHORT,
            processes=4,
            clients=8,
            calls=25,
            kills=0.0,
            pauses=2.0,
            pause_seconds=((200.0, 1),),
            ambush_at=tuple(("gc mark", step) for step in ("commits", "read", "lists", "report", "state")),
            ambush_everywhere=True,
            ambush_share=0.2,
            ambushes=20,
            ambush_pauses=1.0,
            ambush_least=70.0,
            ambush_seconds=(200.0,),
        ),
        Habits(rules=(RULES[1], None), clean=0.7, sluggish=False),
        "collect lease-lost",
        "commits condemned",
        write=4,
        commit=5,
        hard_reset=2,
        create_tag=2,
        delete_tag=1,
        set_rules=5,
        collect=10,
    ),
    "gc-storms": _collected(
        replace(_SHORT, weather=Weather(refused=0.01, lost=0.02, unanswered=0.03, late=0.03, reads=0.5)),
        Habits(rules=(None,), lost=0.03, manners=Manners(unreadable=0.3)),
        "clean mark",
        "collect outcome-unknown",
        write=8,
        delete=1,
        commit=5,
        merge=1,
        hard_reset=1,
        issue=1,
        link=1,
        collect=8,
    ),
    "gc-unreadable": _collected(
        # So long that what was committed is referred to by commits only.
        replace(_SHORT, calls=30, patience=120.0, kills=0.1, pauses=0.1, cleaning_seconds=200.0),
        Habits(rules=(None,), sluggish=False, manners=Manners(unreadable=0.5)),
        "clean mark",
        "optimized mark",
        "collect store-unavailable",
        write=8,
        delete=1,
        commit=4,
        merge=1,
        hard_reset=1,
        collect=6,
    ),
    "gc-slices": _collected(
        replace(_SHORT, kills=4.0, blows=40, patience=120.0, cleaning_seconds=200.0),
        Habits(ages=(300.0,), rules=(None,), clean=0.1, sluggish=False),
        "optimized mark",
        write=10,
        delete=2,
        commit=5,
        merge=0.5,
        hard_reset=0.5,
        collect=5,
    ),
    "gc-pauses": _collected(
        replace(
            _SHORT,
            processes=5,
            clients=8,
            calls=30,
            patience=150.0,
            kills=0.1,
            pauses=0.1,
            ambush_at=(("writer", "upload"),),
            ambush_share=0.3,
            ambushes=8,
            ambush_pauses=1.0,
            ambush_least=2 * GRACE_SECONDS,
            ambush_seconds=(4 * GRACE_SECONDS,),
        ),
        Habits(ages=(SLICE_SECONDS,), link_seconds=SLICE_SECONDS, rules=(None,)),
        "clean mark",
        write=10,
        delete=1,
        commit=2,
        issue=1,
        link=1,
        collect=6,
    ),
    "gc-crashes": _collected(
        replace(_CRASHES, ambush_at=_points("gc mark", "gc prepare_uncommitted", "gc prepare_commits")),
        Habits(
            rules=(RULES[1], RULES[1], None),
            clean=0.7,
            lost=0.02,
            sluggish=False,
            manners=Manners(takeover=0.1),
        ),
        "lease taken over",
        "lease taken from the living",
        "clean mark",
        "commits condemned",
        write=5,
        delete=1,
        commit=6,
        hard_reset=2,
        create_tag=1,
        delete_tag=1,
        collect=9,
    ),
    "gc-crashed-sweeps": _collected(
        replace(_CRASHES, ambush_at=_points("gc sweep", "gc restore"), ambush_share=0.15, patience=60.0),
        Habits(rules=(None,), clean=0.7, sluggish=False, manners=Manners(quarantine=0.6, careful=0.4)),
        "put aside",
        "put back",
        "garbage deleted",
        "quarantine over",
        "too large a share",
        write=8,
        delete=5,
        commit=1,
        reset_branch=1,
        restore_run=4,
        collect=9,
    ),
    "gc-repeats": _collected(
        replace(
            _SHORT,
            calls=60,
            kills=2.0,
            weather=Weather(refused=0.01, lost=0.02, unanswered=0.05, late=0.05, slow=0.02),
        ),
        Habits(rules=(None,)),
        "linked",
        "upload completed",
        "relink done",
        "relink outcome-unknown",
        "relink link-refused",
        "recomplete done",
        branches=("main", "dev"),
        write=4,
        delete=2,
        commit=0.5,
        issue=6,
        link=6,
        relink=8,
        begin_upload=6,
        complete_upload=6,
        recomplete=8,
        collect=1,
    ),
    "gc-manners": _collected(
        replace(_SHORT, calls=40, kills=0.2, patience=80.0),
        Habits(
            rules=(None,),
            clean=0.6,
            sluggish=False,
            manners=_MANNERS,
        ),
        "clocks apart",
        "write too-late",
        "relink done",
        "relink link-refused",
        "upload completed",
        "upload given up",
        segments=True,
        write=6,
        delete=4,
        commit=0.5,
        reset_branch=3,
        stash=0.5,
        pop=0.5,
        issue_long_ago=3,
        link=3,
        relink=2,
        begin_upload=4,
        complete_upload=3,
        give_upload_up=0.5,
        move=2,
        restore_run=0.7,
        collect=8,
    ),
    "gc-race-refs": Scenario(
        play=partial(
            play_gc_race,
            moment=("gc prepare_commits", "attempt"),
            acts=("create_tag", "create_tag", "create_branch", "delete_tag"),
            work=(
                ("write", 4.0),
                ("commit", 6.0),
                ("delete_tag", 2.0),
                ("delete_branch", 0.5),
                ("create_branch", 1.0),
            ),
            rules=RULES[1],
        ),
        reaches=("everybody came", "commits condemned", "create_tag done"),
    ),
    "gc-race-trees": Scenario(
        play=partial(
            play_gc_race,
            moment=("gc prepare_commits", "condemn"),
            acts=("commit_tree",),
            work=(("write", 6.0), ("commit", 6.0), ("hard_reset", 1.0)),
            rules=RULES[1],
        ),
        reaches=("everybody came", "commits condemned", "head moved by commit_tree"),
    ),
    "gc-race-moves": Scenario(
        play=partial(
            play_gc_race,
            moment=("gc prepare_uncommitted", "pin"),
            acts=("move",),
            work=(("write", 12.0), ("commit", 0.3), ("move", 1.0)),
            branches=("main", "dev", "exp", "old"),
        ),
        reaches=("everybody came", "clean mark", "copied"),
    ),
    "adoption": Scenario(
        play=partial(
            play_adoption,
            conditions=Conditions(
                processes=2,
                clients=0,
                kills=0.0,
                pauses=0.0,
                ambushes=0,
                works=False,
                cleaning_seconds=1000.0,
            ),
        ),
        reaches=("adopted: live", "two adopted at once", "old owner: repo-taken-over", "adopted as expired"),
    ),
    "gc-dumps": Scenario(
        play=partial(
            play_gc_dumps,
            conditions=Conditions(
                processes=3,
                clients=0,
                kills=0.0,
                pauses=0.0,
                ambushes=0,
                works=False,
                cleaning_seconds=1000.0,
            ),
        ),
        reaches=("restored between two marks", "restored during a mark", "marks discarded", "clean mark"),
    ),
}
