"""Branches and tags against a dict, while replies and requests get lost."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.refs.world import Call, Fault, World, bare_repo

from lakebed.errors import AlreadyExistsError, ErrorKind, NotFoundError, UnavailableError
from lakebed.model.ids import BranchName, CommitId, TagName

NAMES = st.sampled_from(["a", "b", "b-1", "c"])
FAULTS = st.sampled_from([None, None, Fault.LOST_REQUEST, Fault.LOST_REPLY, Fault.CONFLICT, Fault.REFUSED])


class Refs(RuleBasedStateMachine):
    """One name space for branches and tags; deleted names come back with their counters."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[str, tuple[str, CommitId]] = {}
        self.versions: dict[str, int] = {}

    @initialize(fences=st.booleans())
    def begin(self, fences: bool) -> None:
        self.world = World(fences=fences)
        self.repo = bare_repo()

    def run_spoiled(
        self,
        fault: Fault | None,
        at: int,
        call: Awaitable[Any],
        *,
        may_stay_unknown: tuple[Fault, ...] = (Fault.REFUSED,),
    ) -> Any:
        """Return what `call` does when write number `at` goes wrong; None if it did nothing, `...` if nobody knows."""
        writes = 0

        async def hook(_call: Call) -> Fault | None:
            nonlocal writes
            writes += 1
            return fault if writes == at else None

        async def spoiled() -> Any:
            self.world.kv.hook = hook
            try:
                return await call
            finally:
                self.world.kv.hook = None

        try:
            return asyncio.run(spoiled())
        except UnavailableError as error:
            assert fault in may_stay_unknown, "nobody else is here: every other outcome can be found out"
            return None if error.kind is ErrorKind.STORE_UNAVAILABLE else ...

    @rule(name=NAMES, kind=st.sampled_from(["branch", "tag"]), fault=FAULTS, at=st.integers(1, 2))
    def create(self, name: str, kind: str, fault: Fault | None, at: int) -> None:
        commit = asyncio.run(self.world.commit(self.repo))
        call: Awaitable[Any] = (
            self.world.branches.create(self.repo, BranchName(name), commit.id)
            if kind == "branch"
            else self.world.tags.create(self.repo, TagName(name), commit.id)
        )
        # A name without a record looks the same before a creation and after one that was deleted and dropped.
        unknown = (Fault.REFUSED, Fault.LOST_REQUEST)
        try:
            created = self.run_spoiled(fault, at, call, may_stay_unknown=unknown)
        except AlreadyExistsError:
            assert name in self.model
            return
        assert name not in self.model
        if created is ... and fault is Fault.LOST_REQUEST:
            created = None
        if created is ...:
            assert not self.world.memory.capabilities.fences, "one swap is never half done"
            created = asyncio.run(self.world.resolver.resolve(self.repo, name))
        if created is not None:
            self.model[name] = (kind, commit.id)

    @rule(name=NAMES, kind=st.sampled_from(["branch", "tag"]), fault=FAULTS, at=st.integers(1, 2))
    def delete(self, name: str, kind: str, fault: Fault | None, at: int) -> None:
        call: Awaitable[Any] = (
            self.world.branches.delete(self.repo, BranchName(name))
            if kind == "branch"
            else self.world.tags.delete(self.repo, TagName(name))
        )
        there = self.model.get(name, ("", ""))[0] == kind
        try:
            deleted = self.run_spoiled(fault, at, call)
        except NotFoundError:
            assert not there
            return
        assert there
        if deleted is not None:
            del self.model[name]

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @invariant()
    def listings_and_expressions_show_the_model(self) -> None:
        async def check() -> None:
            branches = (await self.world.branches.list(self.repo)).results
            tags = (await self.world.tags.list(self.repo)).results
            found = {b.name: ("branch", b.commit_id) for b in branches}
            found.update({t.name: ("tag", t.commit_id) for t in tags})
            assert found == self.model
            for name, (kind, commit_id) in self.model.items():
                resolved = await self.world.resolver.resolve(self.repo, name)
                assert (resolved.type.value, resolved.commit_id) == (kind, commit_id)

        asyncio.run(check())

    @invariant()
    def versions_of_a_branch_never_go_back(self) -> None:
        async def check() -> None:
            for name in ("a", "b", "b-1", "c"):
                found = await self.world.branches.find(self.repo, BranchName(name))
                if found is not None:
                    assert found.version >= self.versions.get(name, 0)
                    self.versions[name] = found.version

        asyncio.run(check())


TestRefs = Refs.TestCase
TestRefs.settings = settings(max_examples=40, stateful_step_count=30)
