"""A list of PostgreSQL variants that names a test which does not exist ends the run."""

from tests.statements import find_missing


def test_only_missing_tests_of_collected_files_are_found() -> None:
    listed = ["tests/a.py::test_old[postgresql]", "tests/a.py::test_new[postgresql]", "tests/b.py::test_other"]

    assert find_missing(listed, ["tests/a.py::test_new[postgresql]"]) == ["tests/a.py::test_old[postgresql]"]
