#!/usr/bin/env python3
"""plait calibrate on this host, as a user runs it: kept whole through kill -9, slow devices named.

usage: calibrate.py PLAIT kill|kill_all|slow|slow_device|forms|fits|device|gpu_check
"""
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

from cli_test import PLAIT, check, main
from cli_test import answer_of as answer, run_command as run


def command(database, *more):
    return [PLAIT, "calibrate", "--backend", "cpu", "--ranks", "2", "--db", database, "--quiet", *more]


def rows(database, sql):
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        return connection.execute(sql).fetchall()


def ranks_alive(marker):
    """Processes, other than zombies, that were started with the database's name."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", errors="replace").read().split("\0")
        except OSError:
            continue
        if marker in words:
            found.append(int(pid))
    return found


def gone(marker):
    for _ in range(100):
        if not ranks_alive(marker):
            return True
        time.sleep(0.05)
    return False


def kill(times=3):
    """Killed at random moments: the file is whole, nobody stays, what was stored is not measured again."""
    random.seed(6)
    database = os.path.join(os.getcwd(), "kill.db")
    budget = ["--budget", "4s"]
    stored = 0
    for i in range(times):
        job = subprocess.Popen(command(database, *budget), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0.05, 3))
        job.send_signal(signal.SIGKILL)
        job.wait()
        check(gone(database), f"kill {i}: ranks stay behind")
        if not os.path.exists(database):
            continue
        check(rows(database, "PRAGMA integrity_check") == [("ok",)], f"kill {i}: the database is not whole")
        if not rows(database, "SELECT 1 FROM sqlite_schema WHERE name = 'calibration_point'"):
            continue
        # the rows of a benchmark come together: a program's has its step
        half = rows(database, "SELECT count(*) FROM (SELECT benchmark FROM calibration_point WHERE benchmark LIKE 'program%' "
                              "AND status = 'measured' GROUP BY run_id, benchmark HAVING sum(kind = 'step') <> 1)")
        check(half == [(0,)], f"kill {i}: half a benchmark was stored")
        now = rows(database, "SELECT count(DISTINCT benchmark) FROM calibration_point")[0][0]
        check(now >= stored, f"kill {i}: {stored} benchmarks were known, now {now}")
        stored = now
    last = answer(command(database, *budget))
    done = rows(database, "SELECT benchmark FROM calibration_point GROUP BY benchmark "
                          "HAVING count(DISTINCT run_id) > 1 AND sum(status = 'measured') > 0")
    check(done == [], f"measured twice: {done[:3]}")
    check(last.get("benchmarks", {}).get("known", 0) >= stored, f"the rerun knows {last.get('benchmarks')}, {stored} were stored")
    status = rows(database, "SELECT status, count(*) FROM run WHERE command = 'calibrate' GROUP BY status")
    check(dict(status).get("running", 0) == 0 and dict(status).get("done") == 1, f"the runs say {status}")
    print(f"{times} kills, {stored} benchmarks stored before the last run, {last.get('benchmarks')}")


def kill_all():
    kill(20)


def slow(words=None, budgets=("6s", "12s", "24s"), factor="1.6"):
    """A device that takes 1.6 times as long for all compute is named, and no other."""
    words = words or command(os.path.join(os.getcwd(), "slow.db"))
    env = dict(os.environ, PLAIT_TEST_SLOW_RANK=f"1:{factor}")
    for budget in budgets:  # a busy host, or a build with checks, measures few products in six seconds
        warnings = [w for w in answer(words + ["--budget", budget], env=env).get("warnings", []) if "GEMM" in w]
        if warnings:
            break
    named = len(warnings) == 1 and ("rank 1:" in warnings[0] or "GPU1:" in warnings[0])
    check(named, f"a slow rank 1: the warnings are {warnings}")


def slow_device():
    """The same of the device's clock: the emulation slows the kernels of one rank down, as a real GPU would be."""
    slow(device_command(2) + ["--db", os.path.join(os.getcwd(), "slow.db")], ("3s", "6s", "12s"))


def forms():
    """What is stored can be shown, compared, planned with, refitted from runs; bad words are refused."""
    database = os.path.join(os.getcwd(), "forms.db")
    done = run([w for w in command(database, "--budget", "3s", "--name", "first", "--json") if w != "--quiet"])
    check(done.stderr == "", f"progress where there is no terminal: {done.stderr[:100]!r}")
    made = json.loads(done.stdout or "{}")
    numbers = {p["name"]: p for p in made.get("parameters", [])}
    check(made.get("name") == "first" and "gpu cpu: hbm" in numbers, f"made {made.get('name')}, {list(numbers)[:4]}")
    shown = answer([PLAIT, "calibrate", "--show", "first", "--db", database])
    check(shown.get("parameters") == made.get("parameters"), "--show does not show what was made")
    predict = [PLAIT, "predict", "--model", "tiny", "--machine", "live", "--gpus", "2", "--profile", "plait", "--layout", "tp=2",
               "--db", database, "--calibration"]
    latest, default = answer(predict + ["latest"]), answer(predict + ["default"])
    check(latest.get("calibration") == "first", f"latest is {latest.get('calibration')}")
    check(latest.get("step_s") != default.get("step_s"), "the calibration changes nothing")
    run([PLAIT, "exec", "--model", "tiny", "--ranks", "2", "--layout", "dp=2", "--seq", "16", "--global-batch", "2", "--steps",
         "2", "--warmup", "0", "--update", "--db", database, "--calibration", "first"])
    check(rows(database, "SELECT calibration, seq, global_batch FROM exec_run") == [("first", 16, 2)], "exec_run lacks its job")
    again = answer([PLAIT, "calibrate", "--from-exec", "--ranks", "2", "--name", "second", "--db", database])
    check(again.get("exec_runs") == 1 and again.get("points", 0) > made.get("points", 0), f"--from-exec used {again.get('points')}")
    changes = answer([PLAIT, "calibrate", "--compare", "first", "second", "--db", database]).get("changes", [])
    check(any(c["name"] == "gpu cpu: hbm" and c["a"] == numbers["gpu cpu: hbm"]["value"] for c in changes), "--compare lacks hbm")
    history = rows(database, "SELECT count(DISTINCT name) FROM calibration_history WHERE key = 'hbm'")
    check(history == [(3,)], f"calibration_history knows {history}")
    run([PLAIT, "plan", "--model", "tiny", "--machine", "live", "--gpus", "2", "--profile", "plait", "--calibration", "latest",
         "--layout", "zero=0", "--db", database, "--quiet"])
    run([PLAIT, "exec", "best", "--steps", "1", "--warmup", "0", "--db", database])
    for words in (["calibrate"], ["calibrate", "--show", "--compare", "a", "b"], ["calibrate", "--compare", "a"],
                  ["calibrate", "--show", "nobody"], ["calibrate", "--backend", "cpu", "--name", "default"],
                  ["calibrate", "--backend", "cpu", "--budget", "0s"], ["exec", "best", "--model", "tiny"],
                  ["exec", "--model", "tiny", "--ranks", "1", "--update", "--dry-run"],
                  ["predict", "--model", "tiny", "--machine", "live", "--gpus", "2", "--calibration", "nobody"]):
        run([PLAIT, *words, "--db", database], expect=2)


def fits():
    """A fit to products is stored with the calibration that it was made around."""
    shapes = [(m, n, k) for m in (256, 1024, 4096) for n in (512, 2048, 8192) for k in (512, 1024, 4096, 8192)]
    with open("H100-80G-SXM-bf16-made_up.csv", "w", encoding="utf-8") as file:
        print("m,n,k,time_s", file=file)
        for m, n, k in shapes:  # 600 TFLOP/s after 3 us
            print(f"{m},{n},{k},{3e-6 + 2 * m * n * k / 600e12:.6g}", file=file)
    for name in ("one", "two"):
        made = answer([PLAIT, "calibrate", "--gemm", "H100-80G-SXM-bf16-made_up.csv", "--cv", "none", "--name", name])
        check(made.get("rows") == len(shapes), f"--gemm read {made.get('rows')} of {len(shapes)} rows")
    bases = rows("plait.db", "SELECT base FROM calibration_run")
    check(bases == [("default",), ("default",)], f"stored around {bases}")
    own_runs()


def own_runs():
    """A fit to one's own runs is stored, found again by its name, and never under a name that means another."""
    with open("own.csv", "w", encoding="utf-8") as file:
        print("id,phase,arch,gpu,framework,gpus,layers,hidden,heads,ffn,gated,vocab,seq,tp,pp,gbs,mbs,step_s", file=file)
        print("a,train,dense,H100,Megatron-LM,64,80,8192,64,28672,1,128256,8192,8,4,128,1,21", file=file)
    fit = [PLAIT, "calibrate", "--from-runs", "own.csv", "--cv", "none", "--quiet"]
    made = answer([*fit, "--name", "own"])
    check(made.get("rows") == 1 and made["step_time"]["n"] == 1, f"--from-runs read {made.get('rows')} rows")
    check("machine" in made.get("assumed", {}), f"--from-runs says nothing of what it filled in: {made.get('assumed')}")
    seen = answer([PLAIT, "validate", "own.csv", "--calibration", "own"])
    check(seen.get("calibration") == "own", f"validate took calibration {seen.get('calibration')}")
    check(abs(seen["step_time"]["bias"] - made["step_time"]["bias"]) < 1e-3, "the stored fit predicts what it said")
    answer([*fit, "--base", "own", "--name", "further"])
    for name in ("default", "prior", "latest", "a/b", "..", ""):
        run([*fit, "--name", name], expect=2)
    for name in ("a/b", "..", ""):
        run([*fit, "--name", name, "--out", "fits"], expect=2)
    check(not os.path.exists("fits"), "a name that is refused makes no folder")
    run([PLAIT, "validate", "own.csv", "--calibration", "latest"], expect=2)
    run([*fit, "--by", "colour"], expect=2)
    with open("own.csv", encoding="utf-8") as file:
        head, row = file.read().split()
    for name, time in (("no time", ""), ("milliseconds", "21000")):
        with open("odd.csv", "w", encoding="utf-8") as file:
            print(head, row.rsplit(",", 1)[0] + "," + time, sep="\n", file=file)
        done = run([PLAIT, "calibrate", "--from-runs", "odd.csv", "--cv", "none", "--name", "odd"], expect=0 if time else 2)
        check(("step_s" in done.stderr) and (not time or "milliseconds" in done.stderr), f"{name}: {done.stderr}")


# A device that the planner can price: nearly as slow as the emulation, and with a rate for bf16.
EMULATED = {"gpus": """[gpu]
product = emulated GPU
generation = cpu
sm_count = 3
source = the test double
[peak]
fp32 = 20GFLOP/s
bf16 = 20GFLOP/s
source = what lets small programs into a short budget
[memory]
bandwidth = 10GB/s
usable = 4GiB
usable_reading = cuda
source = the test double
""", "machines": """[machine]
name = emulated GPUs
gpu = emulated
gpus_per_node = 2
source = the test double
[links]
wiring = shm
link_rate = 1000MB/s
"""}


def catalog():
    for kind, text in EMULATED.items():
        os.makedirs(os.path.join("catalog", kind), exist_ok=True)
        with open(os.path.join("catalog", kind, "emulated.ini"), "w", encoding="utf-8") as file:
            file.write(text)
    return os.path.abspath("catalog")


# What the emulated libraries keep of the device: tests/emu/stream.hh; cuBLAS gets 32 MiB more from us.
EMULATED_MIB = {"context": 301, "workspace": 7 + 32, "communicator": 67}


def device():
    """The cuda backend on the emulated device: measured, stored, fitted, shown; times are those of the device's clock."""
    for ranks in (1, 2):
        database = os.path.join(os.getcwd(), f"device-{ranks}.db")
        made, points = measure_device(database, ranks)
        resident = {item: amount or 0 for _, item, kind, _, amount in points if kind == "resident"}
        check_resident(made, resident, ranks)
        fitted = [p for p in made.get("parameters", []) if p["source"] == "fitted" and p["value"] != p["prior"]]
        check(len(fitted) > 0, f"{ranks} ranks: nothing was fitted")
        compare_steps(ranks, points)
        show = [PLAIT, "calibrate", "--show", made.get("name", ""), "--db", database]
        check(answer(show).get("parameters") == made.get("parameters"), f"{ranks} ranks: --show differs")
        shown = run(show).stdout
        check("cublas_workspace" in shown and "39 MiB" in shown and "CUDA" in shown, f"{ranks} ranks: --show prints {shown[:200]}")


def device_command(ranks):
    return [PLAIT, "calibrate", "--backend", "cuda", "--catalog", catalog(), "--machine", "emulated", "--ranks", str(ranks), "--quiet"]


def measure_device(database, ranks):
    """What was made, and what is stored; a busy host measures little in two seconds, and goes on with the rest."""
    wanted = {"gemm", "attention", "adam", "step", "launch"} if ranks == 1 else {"step"}
    for i, budget in enumerate(("2s", "4s", "8s")):
        made = answer(device_command(ranks) + ["--budget", budget, "--name", f"emulated{'-' * i}", "--db", database])
        points = rows(database, "SELECT benchmark, item, kind, measured_s, measured_bytes FROM calibration_point "
                                "WHERE status = 'measured'")
        kinds = {kind for _, _, kind, _, _ in points}
        talks = ranks == 1 or kinds & {"all_reduce", "all_gather", "reduce_scatter", "message"}
        if wanted <= kinds and talks:
            return made, points
    check(False, f"{ranks} ranks: only {kinds} were measured")
    return made, points


def check_resident(made, resident, ranks):
    check(made.get("resident_bytes") == resident, f"{ranks} ranks: resident are {made.get('resident_bytes')}, stored {resident}")
    for name, mib in EMULATED_MIB.items():
        talks = name == "communicator"
        want, cells = (mib << 20 if ranks > 1 or not talks else 0), 1024 if ranks > 1 and talks else 0  # cells: what ranks agree over
        check(want <= resident.get(name, -1) <= want + cells, f"{ranks} ranks, {name}: {resident.get(name)} bytes, expected {want}")
    values = {p["name"]: p["value"] for p in made.get("parameters", [])}
    workspace = values.get("gpu emulated: cublas_workspace", 0)  # to four digits
    check(abs(workspace / (39 << 20) - 1) < 1e-3, f"{ranks} ranks: the calibration's workspace is {workspace}")


def compare_steps(ranks, points):
    """A step is no shorter than its ops at their least times."""
    steps = {name: seconds for name, _, kind, seconds, _ in points if kind == "step"}
    sums = {name: seconds for name, _, kind, seconds, _ in points if kind == "sum"}
    check(len(steps) > 0, f"{ranks} ranks: no program was measured")
    for name, seconds in sums.items():
        check(0 < seconds < steps[name], f"{ranks} ranks, {name}: a step of {steps[name]} s, its ops {seconds} s")


# Stands for the bundle's program: small words instead of those that keep a GPU busy.
SMALL = """#!/bin/sh
for word; do
  shift
  case $word in
    llama-3.1-8b) word=$(dirname "$0")/models/exec_fixture.ini ;;
    4096) word=16 ;;
    90s) word=1s ;;
    8) word=2 ;;
    tp=8,*) word=tp=2,dtype=bf16 ;;
  esac
  set -- "$@" "$word"
done
exec %s "$@"
"""


def gpu_check():
    """dev/gpu-check as on a GPU machine, on the emulated device: every step ends, and one table says what was measured."""
    here = os.path.dirname(os.path.abspath(__file__))
    fixture = os.path.join(here, "exec_fixture.ini")
    os.makedirs("bundle/models")
    shutil.copy(os.path.join(here, "..", "..", "dev", "gpu-check"), "bundle/gpu-check")
    for name in ("exec_fixture.ini", "one-billion.ini"):
        text = open(fixture, encoding="utf-8").read().replace("seq = 32", "seq = 8")
        open(os.path.join("bundle", "models", name), "w", encoding="utf-8").write(text)
    with open("bundle/plait", "w", encoding="utf-8") as file:
        file.write(SMALL % PLAIT)
    os.chmod("bundle/plait", 0o755)
    done = run(["sh", "bundle/gpu-check", "emulated"], env=dict(os.environ, PLAIT_CATALOG=catalog()))
    table = done.stdout[done.stdout.find("== all in one"):]
    check(table.endswith("0 failed\n"), f"gpu-check: {done.stdout[-300:]}")
    for run_name in ("slice", "billion"):
        rows_of = [line.split() for line in table.splitlines() if line.startswith(run_name + " ")]
        gemm = [words for words in rows_of if words[1] == "gemm"]
        check(len(gemm) == 1 and gemm[0].count("%") == 2 and float(gemm[0][3]) > 0, f"gpu-check, {run_name}: {gemm}")
        memory = [words for words in rows_of if words[1:3] == ["peak", "memory:"]]
        check(len(memory) == 1 and {"predicted", "pool", "driver-used"} <= set(memory[0]), f"gpu-check, {run_name}: {memory}")


if shutil.which("mpirun") is None:
    sys.exit(77)
main(kill, kill_all, slow, slow_device, forms, fits, device, gpu_check)
