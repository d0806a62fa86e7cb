"""The counting of tests/run: nothing that went wrong may look like a success."""

import sys

import pytest

from runner import process, results


def junit(tmp_path, cases, status=0):
    path = tmp_path / "junit.xml"
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return results.of_junit("stage", path, status)


def test_passed_failed_skipped(tmp_path):
    outcome = junit(tmp_path, '<testcase classname="m" name="a"/><testcase name="b" status="run"/>'
                    '<testcase name="c"><failure message="no"/></testcase><testcase name="d"><error message="x"/></testcase>'
                    '<testcase name="e"><skipped message="why"/></testcase>', 1)
    assert outcome.summary() == "2 passed, 2 failed, 1 skipped"
    assert outcome.failed == ["stage: c: no", "stage: d: x"]
    assert outcome.skipped == ["stage: e: why"]


def test_a_failing_check_program_is_named(tmp_path):
    outcome = junit(tmp_path, '<testcase name="unit.x" classname="unit.x" status="fail"><failure message=""/>'
                    "<system-out>Running\nx.c:7:F:core:adds:0: 1 != 2\n</system-out></testcase>", 8)
    assert outcome.failed == ["stage: unit.x: x.c:7:F:core:adds:0: 1 != 2"]


@pytest.mark.parametrize("cases, status", [
    ("", 0),                                                   # nothing was run
    ('<testcase name="a"><skipped/></testcase>', 0),           # all was skipped
    ('<testcase name="a"/>', 2),                               # the runner failed, no test did
    ('<testcase name="a"/>', None),                            # it hung
    ('<testcase name="a" status="notrun"/>', 0),               # ctest could not start it
    ('<testcase name="a" status="fail"/>', 8),
])
def test_what_counts_as_failed(tmp_path, cases, status):
    assert len(junit(tmp_path, cases, status).failed) == 1


def test_no_file_counts_as_failed(tmp_path):
    assert results.of_junit("stage", tmp_path / "none.xml", 0).summary() == "0 passed, 1 failed"


def test_summary_without_skips():
    assert results.of_status("stage", 0).summary() == "1 passed, 0 failed"
    assert results.of_status("stage", 3).summary() == "0 passed, 1 failed"
    assert results.of_status("stage", None).summary() == "0 passed, 1 failed"


def test_a_hanging_command_is_ended_with_its_children(tmp_path):
    pid_file = tmp_path / "pid"
    script = f"sleep 1000 & echo $! >{pid_file}; wait"
    assert process.run("hang", ["sh", "-c", script], tmp_path / "log", 1, say=lambda line: None) is None
    child = int(pid_file.read_text())
    with pytest.raises((ProcessLookupError, FileNotFoundError)):
        # A zombie that its new parent has not collected yet has no command line any more.
        if not open(f"/proc/{child}/cmdline", "rb").read():
            raise ProcessLookupError
    assert "limit of 1 s" in (tmp_path / "log").read_text()


def test_a_command_that_does_not_exist(tmp_path):
    assert process.run("none", [tmp_path / "none"], tmp_path / "log", 5) == 127


def test_the_exit_status_is_handed_on(tmp_path):
    assert process.run("three", [sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log", 20) == 3
