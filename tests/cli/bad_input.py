#!/usr/bin/env python3
"""Bad input, end to end: every key of every file, every flag, every state of a database.

usage: bad_input.py PLAIT [SOURCE_ROOT [TEST_DATA]]  [--only KIND] [--every N] [--list] [--jobs N]

The table is generated: each key of real catalog files and each flag of each subcommand, times a
list of bad values. What is wrong must end in exit 2 (input) or 3 (database), one line on stderr
that begins "plait: " and names the file, key or flag, an error object on stdout with --json and
nothing without, within ten seconds and 2 GiB. What is legal is listed in bad_input_legal.py with
the reason; such a run must end in 0 or 1 with finite, non-negative numbers.
"""
import argparse
import concurrent.futures
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bad_input_check import Runner  # noqa: E402
import bad_input_databases  # noqa: E402
import bad_input_files  # noqa: E402
import bad_input_flags  # noqa: E402

PLAIT = []
KINDS = {
    "model": bad_input_files.models,
    "machine": bad_input_files.machines,
    "gpu": bad_input_files.gpus,
    "profile": bad_input_files.profiles,
    "calibration": bad_input_files.calibrations,
    "links": bad_input_files.links,
    "json": bad_input_files.configs,
    "path": bad_input_files.paths,
    "flag": bad_input_flags.flags,
    "layout": bad_input_flags.layouts,
    "huge": bad_input_flags.huge,
    "database": lambda root, folder, data: bad_input_databases.databases(root, folder, data, PLAIT[0]),
}

LONG = 250  # cases of a kind; with N no divisor of the number of bad values, each value and most keys come up


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser()
    parser.add_argument("plait")
    parser.add_argument("root", nargs="?", default=os.path.dirname(os.path.dirname(here)))
    parser.add_argument("data", nargs="?", default="")
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--list", action="store_true", help="print every case with its outcome")
    parser.add_argument("--every", type=int, default=1, help="every Nth case of a long kind only")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()

    PLAIT.append(os.path.abspath(options.plait))
    folder = tempfile.mkdtemp(prefix="plait-bad-input-")
    runner = Runner(options.plait, folder, options.list)
    try:
        for name, make in KINDS.items():
            if options.only not in (None, name):
                continue
            cases = list(make(options.root, folder, options.data))
            cases = cases[::options.every] if len(cases) > LONG else cases
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                faults = [fault for found in pool.map(runner.run, cases) for fault in found]
            print(f"{name}: {len(cases)} cases, {len(faults)} faults", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for note in bad_input_databases.notes:
        print("note: " + note)
    for name, what in runner.known.items():
        print(f"known fault: {name}: {what}")
    print(f"{runner.count} cases, {len(runner.faults)} faults")
    return 1 if runner.faults or runner.count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
