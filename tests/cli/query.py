#!/usr/bin/env python3
"""plait query as scripts use it: queries without an end are stopped, JSON is one document or an error.

usage: query.py PLAIT
"""
import json
import os
import signal
import subprocess
import time

from cli_test import PLAIT, check, main, run

ENDLESS = "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c"
ROWS_FOR_EVER = "with recursive c(x) as (select 1 union all select x + 1 from c) select x from c"
# the second row is no number: found when the first one has been handed on
BREAKS = "select 1 as a union all select abs(-9223372036854775808)"


def query(sql, *more, expect=0, env=None):
    return run(["query", sql, *more], expect, env=env, timeout=60)


def is_error(done, code, words):
    """One document on stdout, the same words on stderr."""
    try:
        answer = json.loads(done.stdout)
    except ValueError as error:
        return check(False, f"stdout is no JSON document ({error}): {done.stdout[:200]!r}")
    check(isinstance(answer, dict) and answer.get("error", {}).get("code") == code and words in answer["error"]["message"]
          and words in done.stderr and done.stderr.count("\n") == 1, f"{words}: {done.stdout[:200]}, {done.stderr[:200]}")


def times():
    start = time.time()
    for sql in (ENDLESS, ROWS_FOR_EVER):
        is_error(query(sql, "--json", "--timeout", "200ms", expect=1), 1, "--timeout 200ms is up")
        done = query(sql, "--csv", "--timeout", "0.2s", expect=1)
        check("--timeout 0.2s is up" in done.stderr, f"timeout: {done.stderr}")
    check(time.time() - start < 30, f"four queries of 0.2 s took {time.time() - start:.1f} s")
    check(query("select 1", "--timeout", "1h", "--csv").stdout == "1\n1\n", "a query that is done in time")
    for bad in ("5", "0s", "-1s", "1GB", "nan s"):
        query("select 1", "--timeout", bad, expect=2)


def catches(job, number):
    """Whether the process has begun to catch a signal, by the mask that the kernel shows."""
    with open(f"/proc/{job.pid}/status", encoding="utf-8") as status:
        mask = next(line.split()[1] for line in status if line.startswith("SigCgt:"))
    return int(mask, 16) >> (number - 1) & 1 != 0


def signals():
    for strike in (signal.SIGINT, signal.SIGTERM):
        job = subprocess.Popen([PLAIT, "query", ENDLESS, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while job.poll() is None and not catches(job, strike):
            time.sleep(0.01)
        job.send_signal(strike)
        job.stdout, job.stderr = job.communicate(timeout=30)
        check(job.returncode == 1, f"{strike.name}: exit {job.returncode}")
        is_error(job, 1, "interrupted after 0 rows")


def documents():
    is_error(query(BREAKS, "--json", expect=2), 2, "integer overflow")
    done = query(BREAKS, "--csv", expect=2)
    check(done.stdout == "a\n1\n" and "integer overflow" in done.stderr, f"CSV: {done.stdout!r}, {done.stderr}")
    check(query("select 1 as a where 0", "--json").stdout == "[]\n", "no row")
    # more than is kept in memory: by way of a file, which leaves nothing behind
    many = ("with recursive c(x) as (select 1 union all select x + 1 from c where x < 50000)"
            " select x, printf('%040d', x) as text from c")
    rows = json.loads(query(many, "--json", env={**os.environ, "TMPDIR": os.getcwd()}).stdout)
    check(len(rows) == 50000 and rows[0] == {"x": 1, "text": "%040d" % 1} and rows[-1]["text"] == "%040d" % 50000,
          f"{len(rows)} rows of 50000")
    check([name for name in os.listdir(".") if name.startswith("plait-")] == [], f"left behind: {os.listdir('.')}")
    is_error(query(many, "--json", env={**os.environ, "TMPDIR": "/nonexistent"}, expect=3), 3, "'/nonexistent'")
    with open("/dev/full", "w", encoding="utf-8") as full:
        for form in ("--json", "--csv"):
            done = subprocess.run([PLAIT, "query", many, form], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
            check(done.returncode == 3 and "cannot write the answer" in done.stderr, f"{form}, disk full: exit {done.returncode}, "
                                                                                      f"{done.stderr}")


def full_disk():
    """No command says that it is done where its answer is not whole."""
    for words in (["--version"], ["help", "plan"], ["models"], ["topo", "hgx-h100", "--json"], ["predict", "--model", "tiny", "--machine", "hgx-h100", "--gpus", "8", "--csv"],
                  ["plan", "--model", "tiny", "--machine", "hgx-h100", "--gpus", "8", "--no-store", "--quiet", "--json"]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([PLAIT, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        check(done.returncode == 3 and "cannot write the answer" in done.stderr, f"{words}, disk full: exit {done.returncode}, {done.stderr}")


def fill():
    os.environ["PLAIT_DB"] = os.path.join(os.getcwd(), "q.db")
    run(["predict", "--model", "tiny", "--machine", "hgx-h100", "--gpus", "1", "--db", "q.db", "--layout", "tp=1"])


main(fill, times, signals, documents, full_disk)
