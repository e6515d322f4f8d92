"""Compaction as operators see and steer it over REST."""

from dataclasses import replace

from lakebed.model.compaction import JobState, Schedule
from lakebed.testing.rest import Rest

REPO = "/repositories/lake"
STATE = f"{REPO}/compaction"
BRANCH = f"{REPO}/branches/main/compaction"


async def test_a_branch_that_was_asked_for_has_a_job_and_its_layers_are_shown(rest: Rest) -> None:
    await rest.lake.put("main", a="1")
    assert (await rest.admin("GET", BRANCH)).json() == {
        "branch": "main",
        "staging": True,
        "sealed_layers": 0,
        "compacted": False,
        "changes": None,
    }
    started = await rest.admin("POST", BRANCH)
    assert started.status == 202
    job = started.json()["job"]
    assert (job["kind"], job["state"], job["reason"], job["layers"]) == ("l2", "queued", "asked for", 1)
    state = (await rest.admin("GET", STATE)).json()
    assert state["sealed_layers"] == 1
    assert state["jobs"] == [job]
    assert [each["branch"] for each in state["branches"]] == ["main"]


async def test_a_branch_without_changes_has_nothing_to_compact(rest: Rest) -> None:
    assert (await rest.admin("POST", BRANCH)).json() == {"job": None}
    assert (await rest.admin("POST", f"{REPO}/branches/nowhere/compaction")).status == 404


async def test_compaction_is_paused_and_resumed(rest: Rest) -> None:
    for path, paused in (("pause", True), ("pause", True), ("resume", False), ("resume", False)):
        assert (await rest.admin("POST", f"{STATE}/{path}")).status == 204
        assert (await rest.admin("GET", STATE)).json()["paused"] == paused


async def test_parked_jobs_are_tried_again(rest: Rest) -> None:
    await rest.lake.put("main", a="1")
    job = (await rest.admin("POST", BRANCH)).json()["job"]["id"]
    await rest.lake.engine.compaction.jobs.change(rest.lake.repo, _parked)
    assert (await rest.admin("GET", STATE)).json()["jobs"][0]["state"] == JobState.PARKED
    assert (await rest.admin("POST", f"{STATE}/retry", json={"jobs": ["another"]})).status == 404
    retried = await rest.admin("POST", f"{STATE}/retry", json={"jobs": [job], "max_failures": 9})
    assert retried.json() == {"retried": 1}
    assert (await rest.admin("GET", STATE)).json()["jobs"][0]["state"] == JobState.QUEUED
    assert (await rest.admin("POST", f"{STATE}/retry")).json() == {"retried": 0}


async def test_what_makes_no_sense_is_refused(rest: Rest) -> None:
    for body in ({"jobs": []}, {"max_failures": -1}, {"jobs": "all"}):
        assert (await rest.admin("POST", f"{STATE}/retry", json=body)).status == 400


async def test_developers_may_look_and_not_steer(rest: Rest) -> None:
    client = await rest.user("ada", "Developers")
    assert (await client("GET", STATE)).status == 200
    assert (await client("POST", f"{STATE}/pause")).status == 401
    viewer = await rest.user("bob", "Viewers")
    assert (await viewer("GET", STATE)).status == 401


def _parked(schedule: Schedule, update: str) -> Schedule:
    jobs = tuple(replace(job, state=JobState.PARKED, failures=9) for job in schedule.jobs)
    return replace(schedule, jobs=jobs, version=schedule.version + 1, update=update)
