"""What tests of the command line share: they run plait, collect what is wrong, and fail at the end if anything was.

A test is called with the program as its first argument. Python finds this module beside it.
"""
import json
import os
import subprocess
import sys
import tempfile

PLAIT = os.path.abspath(sys.argv[1])
failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED: " + what)


def run_command(words, expect=0, env=None, timeout=240):
    """Any command, to its end, with the exit code it must have."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, env=env)
    check(done.returncode == expect, f"{' '.join(words[1:])}: exit {done.returncode}, expected {expect}: {done.stderr.strip()[:300]}")
    return done


def run(words, expect=0, **more):
    return run_command([PLAIT, *words], expect, **more)


def answer_of(words, **more):
    """What any command prints when it is asked for JSON; nothing where it fails."""
    done = run_command([*words, "--json"], **more)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def answer(words, **more):
    return answer_of([PLAIT, *words], **more)


def main(*tests):
    """Runs the tests in an empty folder: those that the second argument names, or all. Does not return."""
    chosen = [test for test in tests if len(sys.argv) < 3 or test.__name__ == sys.argv[2]]
    if not chosen:
        sys.exit(f"no test '{sys.argv[2]}'")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for test in chosen:
            test()
        os.chdir("/")
    sys.exit(1 if failures else 0)
