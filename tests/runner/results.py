"""Counts tests: from JUnit files, or from an exit status."""

import xml.etree.ElementTree


class Results:
    def __init__(self):
        self.passed = 0
        self.failed = []   # what failed, a line each
        self.skipped = []  # what was skipped, with the reason

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def summary(self):
        line = f"{self.passed} passed, {len(self.failed)} failed"
        return line + (f", {len(self.skipped)} skipped" if self.skipped else "")


def of_status(name, status):
    """One command is one test."""
    results = Results()
    if status == 0:
        results.passed = 1
    elif status is None:
        results.failed.append(f"{name}: took too long and was ended")
    else:
        results.failed.append(f"{name}: ended with {status}")
    return results


def first_line(text):
    return (text or "").strip().split("\n")[0][:200]


def failure_message(case):
    """What pytest says of a failure, or the first that a program of Check reports on its output, as ctest keeps it."""
    problem = case.find("failure") if case.find("failure") is not None else case.find("error")
    message = first_line(problem.get("message") or problem.text) if problem is not None else ""
    if message:
        return message
    for line in (case.findtext("system-out") or "").splitlines():
        if ":F:" in line or ":E:" in line:
            return first_line(line)
    return ""


def of_junit(name, path, status):
    """The test cases of a file by pytest or ctest. A run that failed without saying which test, or that ran no test,
    counts as one that failed."""
    results = Results()
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except (OSError, xml.etree.ElementTree.ParseError) as problem:
        results.failed.append(f"{name}: ended with {status} and left no result: {problem}")
        return results
    for case in root.iter("testcase"):
        # pytest names the module, ctest repeats the name.
        module, test = case.get("classname", ""), case.get("name", "")
        label = test if module in ("", test) else f"{module}::{test}"
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            results.failed.append(f"{name}: {label}: {failure_message(case)}")
        elif case.get("status") in ("notrun", "disabled"):
            results.failed.append(f"{name}: {label}: could not be run")
        elif skip is not None:
            results.skipped.append(f"{name}: {label}: {first_line(skip.get('message') or skip.text)}")
        else:
            results.passed += 1
    if status != 0 and not results.failed:
        how = "took too long and was ended" if status is None else f"ended with {status}"
        results.failed.append(f"{name}: {how}, though no test failed")
    elif results.passed == 0 and not results.failed:
        results.failed.append(f"{name}: no test was run")
    return results
