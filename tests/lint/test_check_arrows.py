"""check-arrows itself: this tree passes, and each kind of wrong include is caught."""

import pathlib
import subprocess

import pytest

CHECK = pathlib.Path(__file__).resolve().with_name("check-arrows")


def check(top):
    done = subprocess.run([CHECK, top], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.fixture
def tree(tmp_path):
    """A small tree that is right."""
    for path, text in {
        "base/error.h": "",
        "store/rows.h": '#include "base/error.h"\n',
        "store/store.h": '#include "store/rows.h"\n#include <stdio.h>\n',
        "store/internal.h": "",
        "sdk-c/include/chan/layout.h": "",
        "daemon/regions/regions.c": '#include "store/rows.h"\n#include <chan/layout.h>\n',
        "daemon/operations/operations.h": '#include "store/store.h"\n',
        "daemon/main.c": '#include "api/rest/rest.h"\n',
        "api/rest/rest.h": '#include "daemon/operations/operations.h"\n',
        "cli/main.c": '#include "base/error.h"\n#include <chan/layout.h>\n',
    }.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_this_tree():
    status, output = check(CHECK.parents[2])
    assert status == 0, output


def test_a_right_tree(tree):
    assert check(tree) == (0, "10 sources, 0 arrows the wrong way\n")


def test_an_empty_tree(tmp_path):
    assert check(tmp_path)[0] == 1


@pytest.mark.parametrize("source, line, words", [
    ("base/error.h", '#include "store/rows.h"', "may not include store/rows.h"),
    ("store/rows.h", '#include "daemon/operations/operations.h"', "may not include"),
    ("daemon/regions/regions.c", '#include "store/store.h"', "may not include store/store.h"),
    ("daemon/metrics.c", '#include "api/rest/rest.h"', "may not include api/rest/rest.h"),
    ("api/rest/rest.h", '#include "store/store.h"', "may not include store/store.h"),
    ("sdk-c/src/ring.c", '# include "base/error.h"', "may not include base/error.h"),
    ("sdk-c/src/ring.c", '#include "../../base/error.h"', "may not include base/error.h"),
    ("cli/main.c", '#include "store/rows.h"', "may not include store/rows.h"),
    ("daemon/operations/operations.h", '#include "store/internal.h"', "is private to its folder"),
    ("daemon/main.c", '#include "no/such.h"', "no file"),
    ("other/new.c", "", "no line of the table"),
])
def test_a_wrong_include(tree, source, line, words):
    file = tree / source
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "a", encoding="utf-8") as out:
        out.write(line + "\n")
    status, output = check(tree)
    assert status == 1
    assert source in output and words in output, output
