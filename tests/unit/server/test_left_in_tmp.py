"""What killed processes left in `tmp/` goes when the data folder is opened, and nothing else."""

from pathlib import Path

from lakebed.server.data_folder import DataFolder


def test_files_of_killed_processes_are_removed_under_the_lock(tmp_path: Path) -> None:
    DataFolder.open(tmp_path).close()
    left = tmp_path / "tmp"
    (left / "spool-abc").write_bytes(b"x")
    (left / "import-abc" / "below").mkdir(parents=True)
    (left / "import-abc" / "below" / "run").write_bytes(b"x")
    (left / "adopt-abc").mkdir()
    (left / "verify-abc").mkdir()
    (left / "mine").write_bytes(b"x")
    (tmp_path / "secret").mkdir()
    (left / "import-link").symlink_to(tmp_path / "secret")

    DataFolder.open(tmp_path).close()

    assert sorted(path.name for path in left.iterdir()) == ["mine", "verify-abc"]
    assert (tmp_path / "secret").is_dir(), "a link is removed, not what it leads to"
