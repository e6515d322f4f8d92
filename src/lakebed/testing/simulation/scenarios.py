"""The scenarios, by name: what is played, and what must have been met for it to count."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from lakebed.limits import GRACE_SECONDS, PENDING_TIMEOUT_SECONDS
from lakebed.testing.simulation.lake_play import play_lake
from lakebed.testing.simulation.network import Weather
from lakebed.testing.simulation.ref_play import play_refs
from lakebed.testing.simulation.repository_play import play_repositories
from lakebed.testing.simulation.stage import Conditions
from lakebed.testing.simulation.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A play, and the parts of it that a few seeds together must reach."""

    play: Callable[[World], Coroutine[Any, Any, None]]
    reaches: tuple[str, ...]
    fences: bool = True
    segments: bool = False
    """Whether most processes stage by segment."""


def _lake(
    conditions: Conditions,
    *reaches: str,
    segments: bool = False,
    branches: tuple[str, ...] = ("main", "dev"),
    conditional: float = 0.35,
    tidy: float = 0.6,
    **work: float,
) -> Scenario:
    play = partial(
        play_lake,
        conditions=conditions,
        work=tuple(work.items()),
        branches=branches,
        conditional=conditional,
        tidy=tidy,
    )
    return Scenario(play=play, reaches=reaches, segments=segments)


SCENARIOS: Mapping[str, Scenario] = {
    "staging": _lake(
        Conditions(),
        "applied, unanswered",
        "applied, late",
        "write condition-failed",
        "process killed",
        "process paused",
        "head moved under new layers",
        write=10,
        delete=3,
        stat=4,
        list=3,
        commit=3,
        reset_path=0.5,
        reset_prefix=0.5,
        reset_branch=0.5,
        clean=0.3,
    ),
    "segments": _lake(
        Conditions(clients=8, patience=0.5),
        "written by segment, unanswered",
        "written by segment, late",
        "written",
        "process killed",
        "process paused",
        "head moved under new layers",
        "stash done",
        "pop done",
        segments=True,
        write=14,
        delete=4,
        stat=8,
        list=4,
        scan=1,
        commit=2,
        merge=0.5,
        reset_path=0.5,
        reset_prefix=0.5,
        reset_branch=0.3,
        stash=0.7,
        pop=0.7,
        create_branch=0.5,
        delete_branch=0.3,
        clean=0.5,
    ),
    "segment-conditions": _lake(
        Conditions(clients=8, processes=3, patience=0.1, kills=1, pauses=1),
        "written by segment",
        "written",
        "write condition-failed",
        segments=True,
        branches=("main",),
        conditional=0.9,
        write=10,
        delete=3,
        commit=1,
        reset_path=0.5,
    ),
    "slow-segments": _lake(
        Conditions(kills=0.5, pauses=3, patience=120.0),
        "written by segment",
        "reader met a moved layer",
        "scan done",
        "stat done",
        segments=True,
        write=8,
        delete=2,
        scan=3,
        slow_stat=5,
        commit=4,
        reset_branch=0.5,
        clean=1,
    ),
    "heads": _lake(
        Conditions(calls=20),
        "head moved, unanswered",
        "applied, late",
        "head moved by merge",
        "head moved by revert",
        "head moved by hard_reset",
        "started over",
        write=8,
        delete=2,
        commit=6,
        merge=4,
        revert=3,
        cherry_pick=1,
        hard_reset=2,
        reset_branch=1,
        stat=1,
        clean=0.2,
    ),
    "conditions": _lake(
        Conditions(clients=8, patience=0.3, kills=1, pauses=1, cleaning_seconds=2.0),
        "write condition-failed",
        "head moved under new layers",
        "head moved by hard_reset",
        conditional=0.9,
        write=10,
        delete=2,
        commit=2,
        merge=3,
        hard_reset=5,
        reset_path=1,
    ),
    "stashes": _lake(
        Conditions(calls=20, pauses=3),
        "applied, unanswered",
        "applied, late",
        "stash done",
        "pop done",
        branches=("main", "dev", "exp"),
        write=8,
        delete=2,
        commit=2,
        stash=4,
        pop=4,
        list_stashes=2,
        sweep=1,
        clean=1,
        reset_branch=0.5,
        merge=1,
        stat=2,
        create_branch=1,
        delete_branch=0.6,
    ),
    "slow-stashes": _lake(
        Conditions(
            processes=3,
            calls=20,
            kills=0.5,
            pauses=10,
            pause_seconds=((2 * GRACE_SECONDS, 1),),
            blows=40,
            patience=15.0,
            weather=Weather(unanswered=0.02, late=0.02, slow=0.5),
        ),
        "stash done",
        "pop done",
        "process paused",
        "stash given up",
        branches=("main", "dev", "exp"),
        write=5,
        commit=1,
        merge=1,
        stash=6,
        pop=5,
        list_stashes=0.5,
        sweep=4,
        create_branch=3,
        delete_branch=1.5,
    ),
    "branches": _lake(
        Conditions(),
        "applied, unanswered",
        "deleted, unanswered",
        "write branch-not-found",
        "create_branch branch-exists",
        branches=("main", "dev", "exp"),
        write=8,
        delete=2,
        stat=3,
        list=2,
        commit=3,
        create_branch=3,
        delete_branch=2,
        merge=1,
        clean=1,
    ),
    "slow-readers": _lake(
        Conditions(kills=0.5, pauses=1, patience=40.0),
        "reader met a moved layer",
        "scan done",
        "stat done",
        write=8,
        delete=2,
        scan=3,
        slow_stat=5,
        commit=4,
        reset_branch=0.5,
    ),
    "stand-stills": _lake(
        Conditions(
            processes=3,
            kills=0,
            pauses=20,
            pause_seconds=((2 * PENDING_TIMEOUT_SECONDS, 1),),
            blows=60,
            patience=10.0,
            weather=Weather(unanswered=0.01, late=0.01, slow=0.3),
        ),
        "taken for dead",
        "process paused",
        "head moved",
        tidy=0.1,
        branches=("main", "dev"),
        write=6,
        commit=3,
        merge=6,
        hard_reset=3,
    ),
    "repositories": Scenario(
        play=partial(play_repositories, conditions=Conditions(patience=40.0)),
        reaches=(
            "applied, unanswered",
            "applied, late",
            "work in a deleted repository",
            "write branch-not-found",
        ),
    ),
    "refs": Scenario(
        play=partial(play_refs, conditions=Conditions()),
        reaches=("created, unanswered", "applied, late", "collector found a ref", "commit collected"),
    ),
    "refs-without-fences": Scenario(
        play=partial(play_refs, conditions=Conditions()),
        reaches=("created, unanswered", "applied, late", "collector found a ref", "commit collected"),
        fences=False,
    ),
}
