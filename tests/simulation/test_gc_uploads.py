"""What a trial may list is only what was really on its way."""

from lakebed.format.gc import run_folder
from lakebed.testing.simulation.gc_uploads import Uploads

ADDRESS = "data/slice/object"
PAGE = f"{run_folder('run2')}uncommitted/00000000-try.parquet"


def an_upload_before_the_run() -> Uploads:
    uploads = Uploads()
    uploads.began("run1")
    uploads.stored(ADDRESS)
    return uploads


def test_what_is_named_for_the_first_time_while_a_run_goes_on_was_on_its_way() -> None:
    uploads = an_upload_before_the_run()

    uploads.began("run2")
    uploads.stored(PAGE)
    uploads.named([ADDRESS])

    assert uploads.under_way("run2") == {ADDRESS}
    assert uploads.under_way("run1") == set()


def test_what_was_named_before_the_run_was_not() -> None:
    uploads = an_upload_before_the_run()

    uploads.named([ADDRESS])
    uploads.began("run2")
    uploads.named([ADDRESS])

    assert uploads.under_way("run2") == set()


def test_what_was_stored_after_the_run_had_listed_the_store_was_not() -> None:
    uploads = Uploads()

    uploads.began("run2")
    uploads.stored(PAGE)
    uploads.began("run2")  # Whenever it renews its lease.
    uploads.stored(ADDRESS)
    uploads.named([ADDRESS])

    assert uploads.under_way("run2") == set()


def test_what_was_stored_before_the_run_asked_for_anything_was_though_it_is_stored_again() -> None:
    uploads = Uploads()

    uploads.began("run2")
    uploads.stored(ADDRESS)
    uploads.stored(PAGE)
    uploads.stored(ADDRESS)  # The answer was lost.
    uploads.named([ADDRESS])

    assert uploads.under_way("run2") == {ADDRESS}
