#!/usr/bin/env python3
"""plait plan as a user sweeps with it: whole through kill -9 and Ctrl-C, the same on any number of threads.

usage: plan.py PLAIT kill|interrupt|terminate|threads|refuse|answers|identity
"""
import csv
import io
import json
import math
import os
import signal
import sqlite3
import subprocess
import time

from cli_test import PLAIT, check, main, run

SWEEP = ["plan", "--model", "llama-3.1-8b", "--machine", "hgx-h100,dgx-a100-80g", "--gpus", "64..256", "--global-batch", "256",
         "--keep", "20"]
POINTS = 6


def points(database):
    """Search points stored so far, as another process sees them."""
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            return connection.execute("SELECT count(*) FROM search_point").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def status(database):
    with sqlite3.connect(database) as connection:
        return connection.execute("SELECT status FROM run").fetchall()


def stop(database, strike, reap=True):
    """Begins the sweep, strikes once a point is stored. The sweep's process, ended; a zombie unless it is to be reaped."""
    job = subprocess.Popen([PLAIT, *SWEEP, "--db", database, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while points(database) == 0 and job.poll() is None:
        time.sleep(0.002)
    job.send_signal(strike)
    if not reap:
        os.waitid(os.P_PID, job.pid, os.WEXITED | os.WNOWAIT)
        return job
    job.out, job.err = job.communicate(timeout=60)
    return job


def go_on(database):
    """The stopped sweep gives what a whole one does, and searches no point twice."""
    known = points(database)
    check(0 < known < POINTS, f"{known} of {POINTS} points were stored: nothing was cut short")
    again = run([*SWEEP, "--db", database, "--json"])
    check(f"{known} of {POINTS} search points were done already" in again.stderr, f"went on: {again.stderr}")
    whole = run([*SWEEP, "--no-store", "--json"])
    check(again.stdout == whole.stdout, "the plans differ from those of a sweep that nobody stopped")
    check(points(database) == POINTS, f"{points(database)} points are stored, expected {POINTS}")
    with sqlite3.connect(database) as connection:
        check(connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)], "the database is not whole")
        twice = connection.execute("SELECT count(*) - count(DISTINCT layout_text || machine_id || gpus) FROM plan").fetchone()[0]
        check(twice == 0, f"{twice} plans are stored twice")


def kill():
    job = stop("kill.db", signal.SIGKILL, reap=False)
    check(status("kill.db") == [("running",)], f"killed: the run is {status('kill.db')}")
    go_on("kill.db")
    job.communicate()
    check(job.returncode == -signal.SIGKILL, f"killed: exit {job.returncode}")


def interrupt(database="interrupt.db", strike=signal.SIGINT):
    job = stop(database, strike)
    check(job.returncode == 1, f"interrupted: exit {job.returncode}")
    known = points(database)
    check(f"{known} of {POINTS} search points are done and kept in {database}" in job.err and "the same command goes on" in job.err,
          f"interrupted: {job.err}")
    answer = json.loads(job.out)
    check(len({(p["machine"], p["gpus"]) for p in answer["plans"]}) == known, "what was done is not printed")
    check(status(database) == [("interrupted",)], f"interrupted: the run is {status(database)}")
    part = {key: answer["run"].get(key) for key in ("interrupted", "points_count", "points_done_count")}
    check(part == {"interrupted": True, "points_count": POINTS, "points_done_count": known}, f"a part of the answer says of itself {part}")
    go_on(database)


def terminate():
    interrupt("terminate.db", signal.SIGTERM)


def threads():
    words = [*SWEEP, "--no-store", "--json", "--simulate", "3", "--rank", "simulated"]
    one, four = (run([*words, "--jobs", jobs]).stdout for jobs in ("1", "4"))
    check(one == four, "one thread and four give different plans")
    by_point = {}
    for plan in json.loads(one)["plans"]:
        by_point.setdefault((plan["machine"], plan["gpus"]), []).append(plan)
    check(len(by_point) == POINTS, f"{len(by_point)} points, expected {POINTS}")
    moved = 0
    for point, plans in by_point.items():
        played = [p["simulated_s"] for p in plans if "simulated_s" in p]
        check(len(played) == 3 and played == sorted(played), f"{point}: plans are not in the order of their play: {played}")
        rest = [p["step_s"] for p in plans[3:]]
        check(rest == sorted(rest), f"{point}: the others are not in the order of step_s")
        moved += [p["step_s"] for p in plans[:3]] != sorted(p["step_s"] for p in plans[:3])
    print(f"{moved} of {POINTS} points in another order when played")
    some = json.loads(run([*SWEEP, "--no-store", "--json", "--simulate", "0"]).stdout)
    check(not any("simulated_s" in p for p in some["plans"]), "--simulate 0 plays")


def refuse():
    job = ["plan", "--model", "llama-3.1-8b", "--machine", "hgx-h100,dgx-a100-80g", "--no-store"]
    done = run([*job, "--gpus", "1..16777216", "--global-batch", "1..1000000000", "--seq", "1024..1048576"], 2)
    check("16500 search points (2 machines × 25 GPU counts × 30 batches × 11 sequence lengths)" in done.stderr
          and "above the limit of 10000" in done.stderr and "--limit" in done.stderr, f"refused: {done.stderr}")
    done = run([*job, "--gpus", "64..256", "--global-batch", "256", "--limit", "1000"], 2)
    check("6 search points have" in done.stderr and "above the limit of 1000" in done.stderr, f"refused: {done.stderr}")
    few = ["--gpus", "16", "--global-batch", "64", "--layout", "tp=2,sp=1", "--tokens", "15T"]
    done = run([*job, *few, "--take-over"], 2)
    check("--take-over" in done.stderr and "--no-store" in done.stderr, f"refused: {done.stderr}")
    done = run([*job, *few, "--deadline", "3d"], 1)
    check("no search point meets the deadline" in done.stdout, f"deadline: {done.stdout[-300:]}")
    done = run([*job, *few, "--deadline", "9000d"])
    check(" yes " in done.stdout, f"deadline: {done.stdout[-300:]}")


def answers():
    """What is said in one form is said in the others, and by plan as by predict."""
    job = ["--model", "llama-3.1-70b", "--machine", "hgx-h100", "--gpus", "16", "--global-batch", "64", "--seq", "8192"]
    plan = ["plan", *job, "--no-store"]
    text, answer = run(plan, 1).stdout, json.loads(run([*plan, "--json"], 1).stdout)
    check(answer["run"].get("interrupted") is False, "a whole answer does not say that it is whole")
    misses = answer.get("misses", [])
    check(misses and all(m["layout_text"] in text and m["gpus"] == 16 and m["need_bytes"] < m["peak_bytes"] for m in misses),
          f"near misses in JSON: {misses}, as text: {text}")
    check(all(note["note"] in text for note in answer.get("notes", [])) and "GPUs would do" in str(answer.get("notes")), "notes in JSON")
    # a layout of a risk between a tenth and one half: the same figures, and the same word
    near = misses[0]
    predicted = run(["predict", *job, "--layout", near["layout_text"]]).stdout
    one = json.loads(run(["predict", *job, "--json", "--layout", near["layout_text"]]).stdout)
    check(0.1 < near["oom_risk"] < 0.5 and abs(one["oom_risk"] - near["oom_risk"]) < 1e-3 and one["peak_bytes"] == near["peak_bytes"],
          f"plan: {near}, predict: {one['oom_risk']}, {one['peak_bytes']}")
    check("may not fit" in text and "may not fit" in predicted and "plan lists up to 10 %" in predicted, f"the words differ: {text}{predicted}")
    limit = f"{math.ceil(100 * near['oom_risk'])}%"
    check(f"--max-oom-risk {limit} lists it" in text, "what would list it")
    run([*plan, "--max-oom-risk", limit])
    # illegal layouts: the rule that is broken, as predict has it
    illegal = run([*plan, "--layout", "tp=3"], 1).stdout
    rule = run(["predict", *job, "--layout", "tp=3"], 2).stderr.strip().removeprefix("plait: layout: ")
    check(rule in illegal and "gpus_not_divisible" in illegal, f"predict says {rule}, plan {illegal}")
    # CSV has what JSON has
    tiny = ["plan", "--model", "tiny", "--machine", "hgx-h100", "--gpus", "8", "--no-store", "--keep", "3", "--simulate", "2"]
    rows = list(csv.DictReader(io.StringIO(run([*tiny, "--csv"]).stdout)))
    plans = json.loads(run([*tiny, "--json"]).stdout)["plans"]
    check([r.get("simulated_s") for r in rows] == [f"{p['simulated_s']:.17g}" if "simulated_s" in p else "" for p in plans], f"CSV: {rows}")
    for words in (tiny, ["models"], ["query", "select 1"]):
        done = run([*words, "--json", "--csv"], 2)
        check("--json and --csv" in done.stderr and json.loads(done.stdout)["error"]["code"] == 2, f"both forms: {done.stderr}")
    # a limit of 0 is held to the least risk that is told apart
    edge = ["plan", "--model", "llama-3.1-8b", "--machine", "hgx-h100", "--gpus", "8", "--global-batch", "64", "--seq", "8192", "--no-store",
            "--json", "--keep", "all", "--simulate", "0", "--max-oom-risk"]
    none, least = (json.loads(run([*edge, limit]).stdout)["plans"] for limit in ("0", "0.05%"))
    check(none == least and max(p["oom_risk"] for p in none) > 0, f"{len(none)} plans at 0, {len(least)} at the least risk shown")
    tokens = run([*tiny[:-4], "--tokens", "1.5T", "--top", "1"]).stdout
    check("for 1.5T tokens" in tokens, f"tokens: {tokens[-300:]}")


def identity():
    """A stopped search goes on only with what it was asked about: whatever a file says that predictions use makes another run."""
    machine = run(["topo", "hgx-h100", "--ini"]).stdout
    profile = "[profile]\nbase = megatron\nsource = a test\n"

    def hash_of(machine, profile):
        for name, text in (("node.ini", machine), ("mine.ini", profile)):
            with open(name, "w") as file:
                file.write(text)
        done = run(["plan", "--model", "tiny", "--machine", "./node.ini", "--profile", "./mine.ini", "--gpus", "8", "--layout", "tp=1,pp=1",
                    "--keep", "1", "--simulate", "0", "--no-store", "--json"])
        return json.loads(done.stdout or "{}").get("run", {}).get("hash")

    def edited(old, new):
        check(old in machine, f"the machine's file has no '{old}'")
        return hash_of(machine.replace(old, new, 1), profile)

    first = hash_of(machine, profile)
    check(first == hash_of("# a remark\n" + machine, profile), "a remark makes another run")
    others = {"spine": edited("rails = 8", "rails = 8\noversubscription_ratio = 4"), "rails": edited("rails = 8", "rails = 4"),
              "sockets": edited("inter_socket = 22GB/s", "inter_socket = 11GB/s"), "price": edited("6.16USD/h", "5USD/h"),
              "network": edited("400Gb/s", "200Gb/s"),
              "measured": hash_of(machine + "\n[measured all_gather 8]\nsource = a test\npoints = 1MiB:1ms, 1GiB:100ms\n", profile),
              "kernels": hash_of(machine, profile + "[kernels]\nqkv_copies = 1\n"),
              "states": hash_of(machine, profile + "[states_bf16]\ngrad_bytes = 4B\n"),
              "bytes": hash_of(machine, profile + "[allocator]\ncontext = 2GiB\n")}
    for what, other in others.items():
        check(other not in (None, first), f"another {what} is the same run: {other}")


main(kill, interrupt, terminate, threads, refuse, answers, identity)
