"""Scenarios about garbage collection: mixes of work, each about one way to lose something.

Ages are short in most of them: then nothing but what the server lists, and the two marks, protects what is on its way. So
no process stands still there for as long as a grace. Where ages are as long as they should be, some do.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lakebed.limits import GRACE_SECONDS, SLICE_SECONDS
from lakebed.testing.simulation.gc_play import RULES, Habits, play_gc
from lakebed.testing.simulation.network import Weather
from lakebed.testing.simulation.stage import Conditions
from lakebed.testing.simulation.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class GcScenario:
    """A play, and what its world is like."""

    play: Callable[[World], Coroutine[Any, Any, None]]
    reaches: tuple[str, ...]
    segments: bool = False
    compaction: bool = False


def _collected(
    conditions: Conditions,
    habits: Habits,
    *reaches: str,
    segments: bool = False,
    compaction: bool = False,
    branches: tuple[str, ...] = ("main", "dev", "exp"),
    **work: float,
) -> GcScenario:
    play = partial(play_gc, conditions=conditions, habits=habits, work=tuple(work.items()), branches=branches)
    return GcScenario(play=play, reaches=reaches, segments=segments, compaction=compaction)


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

GC_SCENARIOS: Mapping[str, GcScenario] = {
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
    "gc-refs": _collected(
        replace(_SHORT, calls=60),
        Habits(rules=(RULES[1], RULES[1], RULES[3], None), clean=0.7),
        "commits condemned",
        "create_tag commit-not-found",
        write=4,
        commit=5,
        merge=2,
        revert=1,
        cherry_pick=1,
        hard_reset=4,
        create_branch=5,
        delete_branch=4,
        create_tag=6,
        delete_tag=5,
        set_rules=1.5,
        copy=2,
        read=2,
        collect=4,
    ),
    "gc-slices": _collected(
        replace(_SHORT, kills=4.0, blows=40),
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
            patience=150.0,
            pauses=3.0,
            blows=40,
            pause_seconds=((120.0, 3), (2 * GRACE_SECONDS, 3)),
            ambush_at=(("writer", "upload"),),
            ambush_share=0.2,
            ambushes=20,
            ambush_pauses=1.0,
            ambush_least=GRACE_SECONDS,
            ambush_seconds=(2 * GRACE_SECONDS,),
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
}
