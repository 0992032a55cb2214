"""The bindings under the sanitizers for addresses and undefined behaviour: other tests once more, with such a module."""

import os
import pathlib
import subprocess
import sys

import paceline

BUILD = pathlib.Path(paceline.__file__).parents[2]
TESTS = pathlib.Path(__file__).resolve().parents[1]


def runtime(name):
    found = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
    assert os.path.isabs(found), f"g++ has no {name}"
    return found


def test_the_bindings_have_no_finding(tmp_path):
    subprocess.run(["ninja", "-C", BUILD, "paceline_python_sanitized"], check=True, stdout=subprocess.DEVNULL)
    environment = {
        **os.environ,
        "PYTHONPATH": str(BUILD / "python/sanitized"),
        "LD_PRELOAD": f"{runtime('libasan.so')} {runtime('libubsan.so')}",
        # Python never gives all its memory back; libraries without the sanitizer change containers.
        "ASAN_OPTIONS": f"detect_leaks=0:detect_container_overflow=0:log_path={tmp_path}/finding",
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={tmp_path}/finding",
    }
    suites = [TESTS / f"{name}_test.py" for name in ("trainer", "session", "prepare")]
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *suites],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    findings = "\n".join(path.read_text() for path in tmp_path.glob("finding*"))
    assert not findings, findings
    assert done.returncode == 0, done.stdout + done.stderr
