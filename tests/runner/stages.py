"""The table of stages. A stage is a list of steps; a step is a command and how its outcome counts."""

import dataclasses
import os
import pathlib
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
RESULTS = TOP / "build" / "test-results"
JOBS = str(max(2, os.cpu_count() or 2))

# A report of a sanitizer ends the process, whatever it is about.
SANITIZERS = {
    "asan": {"ASAN_OPTIONS": "detect_leaks=1:halt_on_error=1",
             "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"},
    "tsan": {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"},
}


@dataclasses.dataclass
class Step:
    name: str
    command: list
    timeout: int
    junit: pathlib.Path = None  # None: one command is one test
    environment: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Stage:
    name: str
    about: str
    steps: object       # a function that answers the list of steps, called when the stage begins
    needs: tuple = ()   # stages that must have passed
    quick: bool = False # part of --quick
    full: bool = True   # part of a whole run


def build_directory(preset):
    return TOP / "build" / preset


def wrapper(preset):
    """ThreadSanitizer of gcc 12 and clang 14 cannot place its shadow where the kernel scatters mappings widely."""
    try:
        bits = int(pathlib.Path("/proc/sys/vm/mmap_rnd_bits").read_text())
    except (OSError, ValueError):
        bits = 0
    return ["setarch", os.uname().machine, "-R"] if preset == "tsan" and bits > 28 else []


def environment(preset):
    return {"CHAN_BUILD": str(build_directory(preset)), **SANITIZERS.get(preset, {})}


def build(preset, timeout=1200):
    def steps():
        script = f"cmake --preset {preset} && cmake --build --preset {preset} -j {JOBS}"
        return [Step(f"build-{preset}", ["sh", "-c", script], timeout)]
    return steps


def script(name, *arguments, timeout=600):
    return Step(name, [str(TOP / "tests" / "lint" / name), *arguments], timeout)


def pytest(name, folder, preset, *arguments, timeout=1200):
    junit = RESULTS / f"{name}.xml"
    command = [*wrapper(preset), sys.executable, "-m", "pytest", "-c", str(TOP / "tests" / "pytest.ini"), "-v",
               "-p", "no:cacheprovider", f"--junitxml={junit}", *arguments, str(TOP / "tests" / folder)]
    return Step(name, command, timeout, junit, environment(preset))


def lint_quick():
    return [script(name) for name in ("check-format", "check-shell", "check-lengths", "check-man")] + [
        pytest("lint-arrows", "lint", "release"), pytest("runner", "runner", "release")]


def lint():
    return lint_quick() + [script("check-cppcheck"), script("check-tidy", str(build_directory("asan")), timeout=900)]


def unit(preset):
    def steps():
        junit = RESULTS / f"unit-{preset}.xml"
        command = [*wrapper(preset), "ctest", "--test-dir", str(build_directory(preset)), "--output-on-failure",
                   "--no-tests=error", "-j", JOBS, "--output-junit", str(junit)]
        return [Step(f"unit-{preset}", command, 900, junit, environment(preset))]
    return steps


# Words in the names of the cases in which rings are used while messages change them.
TWO_THREADS = " or ".join(("traffic", "reconnect", "restart", "base", "take", "mq", "mem", "fd", "peer", "starved",
                           "truncate", "fuzz", "log", "status", "state", "stop", "disabled", "rarp"))


def conformance(preset, slow=1, *arguments):
    """slow multiplies the time limits of the cases."""
    def steps():
        step = pytest(f"conformance-{preset}", "conformance", preset, *arguments, timeout=600 + 600 * slow)
        step.environment["CHAN_CONFORMANCE_SLOW"] = str(slow)
        return [step]
    return steps


def instructions():
    """Counted by callgrind, so that it is no timed test."""
    return [Step("instructions", [str(TOP / "tests" / "bench" / "instructions" / "run")], 600,
                 environment=environment("release"))]


def fuzz():
    """Each target with a new part for what it finds and its committed seeds, for a bounded time."""
    seconds = os.environ.get("CHAN_FUZZ_SECONDS", "15")
    steps = []
    for target in sorted((build_directory("fuzz") / "fuzz").glob("fuzz_*")):
        if not os.access(target, os.X_OK) or target.is_dir():
            continue
        found = build_directory("fuzz") / "corpus" / target.name
        found.mkdir(parents=True, exist_ok=True)
        corpora = [found, TOP / "tests" / "fuzz" / "corpus" / target.name.removeprefix("fuzz_")]
        command = [str(target), f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048",
                   "-print_final_stats=1", f"-artifact_prefix={RESULTS}/{target.name}-",
                   *(str(corpus) for corpus in corpora if corpus.is_dir())]
        steps.append(Step(target.name, command, int(seconds) + 120, environment=SANITIZERS["asan"]))
    return steps


STAGES = [
    Stage("build-release", "cmake --preset release", build("release"), quick=True),
    Stage("build-debug", "cmake --preset debug", build("debug"), quick=True, full=False),
    Stage("build-asan", "cmake --preset asan", build("asan")),
    Stage("build-tsan", "cmake --preset tsan", build("tsan")),
    Stage("build-fuzz", "cmake --preset fuzz", build("fuzz")),
    Stage("lint-quick", "the quick half of lint: format, shell, lengths, manual pages, arrows of includes", lint_quick,
          quick=True, full=False),
    Stage("lint", "format, shell, lengths, manual pages, arrows of includes, cppcheck, clang-tidy", lint,
          ("build-asan",)),
    Stage("unit-release", "unit tests of the release build", unit("release"), ("build-release",), quick=True),
    Stage("unit-asan", "unit tests with AddressSanitizer and UndefinedBehaviorSanitizer", unit("asan"),
          ("build-asan",)),
    Stage("unit-tsan", "unit tests with ThreadSanitizer", unit("tsan"), ("build-tsan",)),
    Stage("functional-debug", "the real daemon, without the slow and the patient tests",
          lambda: [pytest("functional-debug", "functional", "debug", "-m", "not slow and not patient")], ("build-debug",),
          quick=True, full=False),
    Stage("functional-asan", "the real daemon with AddressSanitizer and UndefinedBehaviorSanitizer",
          lambda: [pytest("functional-asan", "functional", "asan")], ("build-asan",)),
    Stage("functional-tsan", "the real daemon with ThreadSanitizer, without the slow and the patient tests",
          lambda: [pytest("functional-tsan", "functional", "tsan", "-m", "not slow and not patient")], ("build-tsan",)),
    Stage("e2e-quick", "one real guest", lambda: [pytest("e2e-quick", "e2e", "release", "-m", "quick")],
          ("build-release",), quick=True, full=False),
    Stage("e2e", "real guests in QEMU", lambda: [pytest("e2e", "e2e", "release")], ("build-release",)),
    Stage("conformance-release", "cases for vhost-user back-ends, against chan-dataplane", conformance("release"),
          ("build-release",)),
    Stage("conformance-asan", "the same with AddressSanitizer and UndefinedBehaviorSanitizer", conformance("asan", 3),
          ("build-asan",)),
    Stage("conformance-tsan", "what has both threads of the dataplane at work, with ThreadSanitizer",
          conformance("tsan", 4, "-k", f"not sweep and ({TWO_THREADS})"), ("build-tsan",)),
    Stage("instructions", "what a frame costs on a cable, in instructions", instructions, ("build-release",), quick=True),
    Stage("fuzz", "each fuzz target for a bounded time", fuzz, ("build-fuzz",)),
]
