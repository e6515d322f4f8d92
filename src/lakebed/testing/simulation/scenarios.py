"""The scenarios, by name."""

from collections.abc import Mapping

from lakebed.testing.simulation.drama import Plot

SCENARIOS: Mapping[str, Plot] = {
    "staging": Plot(
        work=[
            ("write", 10),
            ("delete", 3),
            ("stat", 4),
            ("list", 3),
            ("commit", 3),
            ("reset_path", 0.5),
            ("reset_prefix", 0.5),
            ("reset_branch", 0.5),
            ("clean", 0.3),
        ],
        kills=2,
        pauses=2,
    ),
    "heads": Plot(
        work=[
            ("write", 8),
            ("delete", 2),
            ("commit", 6),
            ("merge", 4),
            ("revert", 2),
            ("cherry_pick", 1),
            ("hard_reset", 2),
            ("reset_branch", 1),
            ("stat", 1),
            ("clean", 0.2),
        ],
        kills=2,
        pauses=2,
        calls=20,
    ),
    "stashes": Plot(
        work=[
            ("write", 8),
            ("delete", 2),
            ("commit", 2),
            ("stash", 4),
            ("pop", 4),
            ("list_stashes", 2),
            ("sweep", 1),
            ("clean", 1),
            ("reset_branch", 0.5),
            ("merge", 1),
            ("stat", 2),
            ("create_branch", 1),
            ("delete_branch", 0.6),
        ],
        branches=("main", "dev", "exp"),
        kills=2,
        pauses=3,
        calls=20,
    ),
    "branches": Plot(
        work=[
            ("write", 8),
            ("delete", 2),
            ("stat", 3),
            ("list", 2),
            ("commit", 3),
            ("create_branch", 3),
            ("delete_branch", 2),
            ("merge", 1),
            ("clean", 1),
        ],
        branches=("main", "dev", "exp"),
        kills=2,
        pauses=2,
    ),
    "slow-readers": Plot(
        work=[
            ("write", 8),
            ("delete", 2),
            ("scan", 4),
            ("stat", 3),
            ("commit", 4),
            ("reset_branch", 0.5),
            ("clean", 2),
        ],
        kills=0.5,
        pauses=1,
        hurry=0.2,
    ),
}
