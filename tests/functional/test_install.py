"""What cmake --install puts down, used as a stranger would: by pkg-config, by find_package, by man and by bash."""

import os
import re
import subprocess

import pytest

from support.chand import BIN, BUILD
from support.chanctl import CHANCTL

LIBCHAN_PROGRAM = r"""
#include <chan/layout.h>
#include <chan/region.h>
#include <errno.h>
#include <stdio.h>

int main(void)
{
    struct chan_superblock superblock;
    if (chan_superblock_make(&superblock, 1048576, 1, 1) != 0 || chan_superblock_check(&superblock, 1048576) != 0)
        return 1;
    struct chan_region *region = NULL;
    struct chan_error error;
    if (chan_region_open_path("/nonexistent", 0, &region, &error) != -ENOENT)
        return 2;
    puts("libchan works");
    return 0;
}
"""

CLIENT_PROGRAM = r"""
#include <chan/client.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct chan_client *client = NULL;
    struct chan_reply reply = CHAN_REPLY_INIT;
    if (argc != 2 || chan_client_new(argv[1], &client) != 0)
        return 1;
    int result = chan_client_sandbox_get(client, "nobody", &reply);
    printf("%d %d %s\n", result, reply.status, reply.reason);
    result = chan_client_ready(client, &reply);
    printf("%d %d\n", result, reply.status);
    chan_reply_clear(&reply);
    chan_client_free(client);
    return 0;
}
"""

CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(stranger LANGUAGES C)
find_package(Chan 0.1 REQUIRED COMPONENTS chan client)
add_executable(shared libchan.c)
target_link_libraries(shared PRIVATE Chan::chan)
add_executable(static libchan.c)
target_link_libraries(static PRIVATE Chan::chan_static)
add_executable(client client.c)
target_link_libraries(client PRIVATE Chan::client)
"""


def run(*words, **more):
    words = [str(word) for word in words]
    process = subprocess.run(words, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, **more)
    assert process.returncode == 0, f"{' '.join(words)}: {process.returncode}\n{process.stdout}\n{process.stderr}"
    return process.stdout


def cached(name):
    """A variable of the build's CMake cache."""
    match = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
    return match.group(1) if match else ""


def sanitizer_flags():
    """A library with a sanitizer in it wants programs that have it too."""
    return [f"-fsanitize={cached('CHAN_SANITIZE')}"] if cached("CHAN_SANITIZE") else []


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stranger")
    (folder / "libchan.c").write_text(LIBCHAN_PROGRAM)
    (folder / "client.c").write_text(CLIENT_PROGRAM)
    (folder / "CMakeLists.txt").write_text(CMAKE_PROJECT)
    return folder


def library_directory(prefix):
    return next(prefix.glob("lib*/**/libchan.so")).parent


def check_client(program, chand, environment=None):
    assert run(program, chand.socket, env=environment).splitlines() == ["-121 404 sandbox_not_found", "0 200"]


def test_pkg_config(prefix, sources, tmp_path, chand):
    libraries = library_directory(prefix)
    environment = dict(os.environ, PKG_CONFIG_PATH=str(libraries / "pkgconfig"), LD_LIBRARY_PATH=str(libraries))

    def build(package, source):
        flags = run("pkg-config", "--cflags", "--libs", package, env=environment).split()
        program = tmp_path / package
        run("cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *sanitizer_flags(), "-o", program,
            sources / source, *flags)
        return program

    assert run(build("chan", "libchan.c"), env=environment) == "libchan works\n"
    check_client(build("chan-client", "client.c"), chand, environment)
    for package in ("chan", "chan-client"):
        assert run("pkg-config", "--modversion", package, env=environment).strip() == cached("CMAKE_PROJECT_VERSION")


def test_find_package(prefix, sources, tmp_path, chand):
    run("cmake", "-S", sources, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_C_FLAGS={' '.join(sanitizer_flags())}")
    run("cmake", "--build", tmp_path)
    assert run(tmp_path / "shared") == "libchan works\n"
    assert run(tmp_path / "static") == "libchan works\n"
    check_client(tmp_path / "client", chand)


def test_headers_stand_alone_in_c_and_cplusplus(prefix, tmp_path):
    for header in sorted((prefix / "include" / "chan").glob("*.h")):
        for language, standard in (("c", "c11"), ("c++", "c++17")):
            source = tmp_path / f"{header.stem}.{language}"
            source.write_text(f"#include <chan/{header.name}>\n#include <chan/{header.name}>\n")
            run("cc", "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                f"-I{prefix / 'include'}", source)


@pytest.mark.parametrize("library, other", [("libchan.so", "chan_client_"), ("libchan-client.so", None)])
def test_libraries_show_their_api_and_nothing_else(prefix, library, other):
    symbols = run("nm", "-D", "--defined-only", "--format=just-symbols", library_directory(prefix) / library).split()
    own = [symbol for symbol in symbols if not re.match(r"__(asan|odr_asan|ubsan|tsan|sanitizer)", symbol)]
    assert own, "there is no symbol at all"
    assert [symbol for symbol in own if not symbol.startswith("chan_")] == []
    if other:
        assert [symbol for symbol in own if symbol.startswith(other)] == []


def pages(prefix):
    return sorted(path for path in (prefix / "share" / "man").rglob("*") if path.is_file())


def test_manual_pages_are_well_written(prefix):
    names = {page.name for page in pages(prefix)}
    assert {"chanctl.1", "chand.8", "chan_client.3"} <= names
    run("mandoc", "-T", "lint", "-W", "warning", *pages(prefix))


def text_of(page):
    return run("mandoc", "-T", "ascii", "-O", "width=1000", page).encode()


def words_of_page(page):
    """The page as plain text: mandoc's ascii form prints bold and underlined letters with a backspace."""
    return re.sub(r".\x08", "", text_of(page).decode())


OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def test_every_option_of_chanctl_is_in_its_page(prefix):
    page = words_of_page(prefix / "share/man/man1/chanctl.1")
    top = run(CHANCTL, "--help")
    commands = re.findall(r"^  ((?:template|sandbox|link|event|node|completion|version)(?: [a-z]+)?)", top, re.MULTILINE)
    assert len(commands) >= 19, commands
    helps = [top] + [run(CHANCTL, *command.split(), "--help") for command in commands]
    assert set(OPTION.findall("\n".join(helps))) == set(OPTION.findall(page))
    for command in commands:
        assert command in page, f"the page does not have: chanctl {command}"
    codes = re.findall(r"^  (\d)  (.*)$", top, re.MULTILINE)
    assert len(codes) == 9
    for code, meaning in codes:
        assert re.search(rf"^ *{code} +{re.escape(meaning)}\.$", page, re.MULTILINE | re.IGNORECASE), (code, meaning)
    for form in ("table", "json", "yaml", "id", "qemu-args", "cloud-hypervisor-args", "path"):
        assert any(re.search(rf"^Output.* {form}\b", text, re.MULTILINE) for text in helps), form
        assert re.search(rf"^ +{form}\b", page, re.MULTILINE), form


def test_every_option_of_chand_is_in_its_page(prefix):
    options = set(OPTION.findall(run(BIN / "chand", "--help"))) - {"--list-fault-points"}  # test builds only
    assert len(options) > 20
    page = words_of_page(prefix / "share/man/man8/chand.8")
    assert set(OPTION.findall(page)) == options


def test_every_call_of_the_client_is_in_its_page(prefix):
    calls = re.findall(r"\bchan_(?:client|reply)_\w+(?=\()", (prefix / "include/chan/client.h").read_text())
    page = words_of_page(prefix / "share/man/man3/chan_client.3")
    assert len(calls) > 15
    assert {call for call in calls if call not in page} == set()


def test_completion_is_where_bash_looks(prefix):
    installed = prefix / "share/bash-completion/completions/chanctl"
    assert installed.read_text() == run(CHANCTL, "completion", "bash")
    script = "source /usr/share/bash-completion/bash_completion; _completion_loader chanctl; complete -p chanctl"
    # Where a user's own completions lie.
    found = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60,
                           env=dict(os.environ, BASH_COMPLETION_USER_DIR=str(prefix / "share/bash-completion")))
    assert "_chanctl" in found.stdout, found


def test_installed_programs_run(prefix):
    assert run(prefix / "bin/chanctl", "version") == f"chanctl {cached('CMAKE_PROJECT_VERSION')}\n"
    assert cached("CMAKE_PROJECT_VERSION") in run(prefix / "bin/chand", "--version")
