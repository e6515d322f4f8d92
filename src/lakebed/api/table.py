"""The table of operations: every module of `resources`, in the order of the documentation."""

from typing import Final

from lakebed.api.operation import Operation
from lakebed.api.resources import (
    adoption,
    background,
    branches,
    commits,
    compaction,
    config,
    dumps,
    gc,
    gc_runs,
    groups,
    imports,
    login,
    metadata,
    multipart,
    objects,
    policies,
    principals,
    pulls,
    refs,
    repositories,
    runs,
    segments,
    settings,
    staging,
    stashes,
    statistics,
    tags,
    users,
)

_MODULES = (
    repositories,
    settings,
    branches,
    tags,
    commits,
    refs,
    background,
    objects,
    staging,
    segments,
    multipart,
    stashes,
    compaction,
    imports,
    metadata,
    dumps,
    adoption,
    gc,
    gc_runs,
    runs,
    pulls,
    users,
    groups,
    policies,
    principals,
    login,
    config,
    statistics,
)

OPERATIONS: Final[tuple[Operation, ...]] = tuple(
    operation for module in _MODULES for operation in module.operations.rows
)
