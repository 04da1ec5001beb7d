#!/usr/bin/env python3
"""plait exec as a user runs it: splits that are right, faults that are found, ranks that die.

usage: exec.py PLAIT layouts|pairs|pieces|inject|faults|memory|memory_all|absent|torchrun|watchdog|slices|beside|events [BACKEND]
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from cli_test import PLAIT, check, failures, main

BACKEND = sys.argv[3] if len(sys.argv) > 3 else "cpu"
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "exec_fixture.ini")


def command(ranks, layout, *more):
    return [PLAIT, "exec", "--backend", BACKEND, "--model", MODEL, "--ranks", str(ranks), "--layout", layout, *more]


def verify(ranks, layout, *more, expect=0, **environment):
    if BACKEND == "cuda" and "--seq" not in more:
        more += ("--seq", "16")  # emulated products take their time
    done = subprocess.run(command(ranks, layout, "--verify", "--steps", "1", "--warmup", "0", "--json", *more),
                          capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
    what = f"{ranks} ranks, {layout} {' '.join(more)} {environment or ''}"
    check(done.returncode == expect, f"{what}: exit {done.returncode}, expected {expect}: {done.stderr.strip()[:300]}")
    if done.returncode in (0, 1):
        answer = json.loads(done.stdout)
        check(answer["verified"] is (expect == 0), f"{what}: verified {answer['verified']}")
        check(answer["measured"]["peak_bytes"] == answer["predicted"]["peak_bytes"], f"{what}: peak is not as predicted")
        return answer
    return None


def layouts():
    for ranks, layout in ((1, "mbs=2"), (2, "tp=2"), (2, "pp=2"), (2, "dp=2"), (2, "dp=2,zero=1"), (2, "tp=2,sp=1"),
                          (2, "pp=2,vpp=2,overlap_p2p=1"), (4, "tp=4"), (4, "pp=4"), (2, "pp=2,schedule=gpipe"),
                          (2, "tp=2,recompute=full"), (2, "tp=2,sp=1,recompute=selective,attn=unfused"),
                          (2, "pp=2,recompute=selective:mlp+layernorm")):
        verify(ranks, layout)
    verify(3, "dp=3,zero=1", "--global-batch", "6")  # shards that a third of the parameters does not fill
    if BACKEND == "cpu":
        taken_as_0()


def taken_as_0():
    """What a backend does not do is neither run nor predicted: the same answer as without, and a note."""
    plain, asked = (subprocess.run(command(4, "tp=2,sp=1,dp=2,zero=1" + more, "--dry-run", "--json"), capture_output=True, text=True,
                                   timeout=60) for more in ("", ",overlap_dp=1,overlap_tp=1"))
    check(plain.returncode == 0 and plain.stdout == asked.stdout, f"overlap on a CPU changes the prediction: {asked.stdout[:300]}")
    check("taken as 0" in asked.stderr and "taken as 0" not in plain.stderr, f"overlap on a CPU: said {asked.stderr}")


def pairs():
    for layout in ("tp=2,pp=2", "tp=2,dp=2", "pp=2,dp=2", "tp=2,sp=1,pp=2", "tp=2,dp=2,zero=1", "pp=2,dp=2,zero=1",
                   "tp=2,sp=1,dp=2,zero=1", "pp=2,vpp=2,overlap_p2p=1,dp=2"):
        verify(4, layout)


def pieces():
    """A transport that counts to 1,000 moves all of it: gradients, shards, parameters and messages."""
    for ranks, layout in ((2, "dp=2"), (3, "dp=3,zero=1"), (2, "pp=2"), (4, "tp=2,sp=1,dp=2,zero=1")):
        verify(ranks, layout, "--seq", "16", "--global-batch", "12")


def inject():
    for fault, layout in (("swap_shards", "tp=2"), ("skip_allreduce", "tp=2"), ("skip_allreduce", "dp=2"),
                          ("wrong_dp_average", "dp=2"), ("rotary_offset", "pp=2"), ("stale_gather", "dp=2,zero=1"),
                          ("stale_gather", "tp=2,sp=1")):
        verify(2, layout, "--inject", fault, expect=1)
    verify(2, "pp=2", "--inject", "wrong_dp_average", expect=2)


BESIDE = "tp=2,sp=1,dp=2,zero=1,overlap_dp=1,overlap_tp=1"
PIPELINE = "pp=2,vpp=2,overlap_p2p=1,dp=2,overlap_dp=1"


def small_buckets():
    """A catalog in which gradients are reduced layer by layer even in a model of 160,000 parameters."""
    folder = os.path.join(os.path.dirname(MODEL), "..", "..", "catalog", "profiles")
    text = open(os.path.join(folder, "plait.ini"), encoding="utf-8").read()
    os.makedirs("catalog/profiles", exist_ok=True)
    with open("catalog/profiles/plait.ini", "w", encoding="utf-8") as file:
        file.write(re.sub("(?m)^bucket_elements = .*$", "bucket_elements = 1000", text))
    return ("--catalog", os.path.abspath("catalog"), "--seq", "8", "--global-batch", "4")


def check_used(used, communicators, arena):
    """Each phase has added what the emulation takes for it (tests/emu/stream.hh); cuBLAS gets 32 MiB and kernels 32 MiB from us."""
    mib = 1 << 20
    check(used["context"] == 301 * mib and used["workspace"] == used["context"] + (7 + 64) * mib, f"opened: {used}")
    made = used["communicators"] - used["workspace"]
    check(0 <= made - communicators * 67 * mib < 4096, f"{communicators} communicators: {used}")
    check(used["arena"] - used["communicators"] == arena, f"an arena of {arena}: {used}")
    check(used["arena"] <= used["first_step"] <= used["end"] < used["arena"] + mib, f"steps take no memory: {used}")


def beside():
    """Collectives beside compute: right in whatever order the streams come, faults found, and timed on their own stream."""
    small = small_buckets()
    for order in ("late", "early"):  # and in the environment of Megatron's users
        answer = verify(4, BESIDE, *small, PLAIT_EMU_ORDER=order, CUDA_DEVICE_MAX_CONNECTIONS="1")
    verify(4, PIPELINE, *small, PLAIT_EMU_ORDER="late")
    verify(3, "dp=3,zero=1,overlap_dp=1", *small[:-1], "6", PLAIT_EMU_ORDER="late")
    # one micro-batch: no step needs more room than the rehearsal of its ops
    verify(2, "pp=2,attn=unfused", "--seq", "16", "--global-batch", "1")
    verify(2, "dp=2,zero=1,overlap_dp=1", *small, "--inject", "stale_gather", expect=1)
    # 48 small arrays from the host in a step, which runs ahead of the device: more than there are slots
    verify(1, "mbs=1", "--seq", "8", "--global-batch", "16", PLAIT_EMU_ORDER="late")
    if answer is not None:
        check_used(answer["measured"]["driver_used_bytes"], 3, answer["measured"]["peak_bytes"])
        for op in answer["ops"]:
            moves = op["kind"] in ("all_reduce", "all_gather", "reduce_scatter")
            check(moves or op["measured_s"] == op["exposed_s"], f"{op['kind']}: {op['exposed_s']} of {op['measured_s']} s exposed")
            check(op["exposed_s"] >= 0 and op["measured_s"] > 0, f"{op['kind']}: {op}")
        # one reduction of all gradients and one gather of all parameters per rank and step, whatever their pieces; before
        # the first layer's products a step gathers, and reduces, nothing that depends on the pieces
        counts = {op["kind"]: op["count"] for op in answer["ops"]}
        plain = verify(4, "tp=2,sp=1,dp=2,zero=1", *small)
        check(plain is not None and counts == {op["kind"]: op["count"] for op in plain["ops"]}, f"counts differ: {counts}")
    slices = subprocess.run(command(4, BESIDE, "--slice", *small, "--machine", "hgx-h100", "--steps", "1", "--warmup", "0"),
                            capture_output=True, text=True, timeout=60)
    check(slices.returncode == 0 and "taken as 0" in slices.stderr, f"slice: exit {slices.returncode}: {slices.stderr}")


def events():
    """Without any one of the waits between streams the split is not the same function: --verify says no."""
    small = small_buckets()
    compute, tp, dp, send_back, receive, receive_back = 0, 1, 5, 7, 8, 9
    for layout, ranks, done, waiting, order in (
            (BESIDE, 4, dp, compute, "late"), (BESIDE, 4, compute, dp, "early"), (BESIDE, 4, tp, compute, "late"),
            (BESIDE, 4, compute, tp, "early"), ("pp=2,vpp=2,overlap_p2p=1", 2, send_back, compute, "late"),
            ("pp=2", 2, compute, send_back, "early"), ("pp=2", 2, receive, compute, "late"),
            ("pp=2", 2, compute, receive_back, "early")):
        verify(ranks, layout, *small, expect=1, PLAIT_EMU_ORDER=order, PLAIT_EMU_DROP=f"{done}>{waiting}")


PEAK_LAYOUTS = (
    (1, "mbs=1"), (1, "mbs=2"), (1, "mbs=4,recompute=full"), (1, "mbs=2,attn=unfused"),
    (1, "mbs=2,recompute=selective:core_attn"), (2, "tp=2"), (2, "tp=2,sp=1"), (2, "tp=2,sp=1,mbs=2,recompute=full"),
    (2, "pp=2"), (2, "pp=2,mbs=2"), (2, "pp=2,vpp=2,overlap_p2p=1"), (2, "pp=2,schedule=gpipe"), (2, "dp=2"),
    (2, "dp=2,zero=1"), (2, "dp=2,mbs=2,attn=unfused"), (4, "tp=2,pp=2"), (4, "tp=2,sp=1,dp=2,zero=1"),
    (4, "pp=2,dp=2,zero=1"), (4, "tp=4,sp=1"), (4, "pp=4"))


def peaks(model, layouts, *more):
    """Bytes that the allocator counted at its peak, against those predicted without running anything."""
    for ranks, layout in layouts:
        done = subprocess.run([PLAIT, "exec", "--model", model, "--ranks", str(ranks), "--layout", layout, "--steps", "1",
                               "--warmup", "0", "--json", *more], capture_output=True, text=True, timeout=300)
        check(done.returncode == 0, f"{model}, {layout}: exit {done.returncode}: {done.stderr.strip()[:300]}")
        if done.returncode == 0:
            answer = json.loads(done.stdout)
            got, want = answer["measured"]["peak_bytes"], answer["predicted"]["peak_bytes"]
            check(got == want and got > 0, f"{model}, {layout}: peak {got}, predicted {want}")


def memory(all_layouts=False):
    big = os.path.join(os.path.dirname(MODEL), "exec_50m.ini")
    peaks("tiny", PEAK_LAYOUTS if all_layouts else PEAK_LAYOUTS[::4], "--seq", "32", "--global-batch", "8")
    peaks(big, PEAK_LAYOUTS if all_layouts else PEAK_LAYOUTS[13::20])


def memory_all():
    memory(True)


def ranks_of(marker):
    """Ranks of the job: processes with the marker that mpirun started."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", errors="replace").read().split("\0")
            environment = open(f"/proc/{pid}/environ", errors="replace").read()
        except OSError:
            continue
        if marker in words and "OMPI_COMM_WORLD_RANK=" in environment and os.path.basename(words[0]) == "plait":
            found.append(int(pid))
    return found


def with_fault(name, strike, word):
    """Runs long, strikes one rank in mid-step: exit 3, one line, no process, a row that says failed."""
    database = os.path.join(os.getcwd(), name + ".db")
    job = subprocess.Popen(command(2, "tp=2", "--steps", "100000", "--timeout", "2s", "--db", database),
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ranks, waited = [], time.time()
    while len(ranks) < 2 and time.time() - waited < 30:
        time.sleep(0.1)
        ranks = ranks_of(database)
    time.sleep(1.5)
    os.kill(ranks[0], strike)
    struck = time.time()
    _, stderr = job.communicate(timeout=30)
    check(job.returncode == 3, f"{name}: exit {job.returncode}, expected 3")
    check(time.time() - struck < 10, f"{name}: took {time.time() - struck:.1f} s")
    lines = stderr.strip().splitlines()
    check(len(lines) == 1 and "rank " in lines[0] and word in lines[0] and "step" in lines[0], f"{name}: said {lines}")
    time.sleep(0.3)
    check(ranks_of(database) == [], f"{name}: processes stayed")
    status(database, "failed", name)


def status(database, expect, name):
    rows = json.loads(subprocess.run([PLAIT, "query", "select status, message from run", "--json", "--db", database],
                                     capture_output=True, text=True).stdout)
    check(len(rows) == 1 and rows[0]["status"] == expect, f"{name}: the row says {rows}")
    return rows


def faults():
    with_fault("killed", signal.SIGKILL, "killed by signal 9")
    with_fault("stopped", signal.SIGSTOP, "does not get on")
    done = subprocess.run(command(2, "pp=2", "--memory-limit", "100KiB", "--db", "full.db"), capture_output=True, text=True,
                          timeout=60)
    check(done.returncode == 3 and "rank" in done.stderr and "the arena is limited" in done.stderr,
          f"no memory: exit {done.returncode}, {done.stderr}")
    status("full.db", "failed", "no memory")
    # the launcher itself is killed: its ranks end, the row is put right when the database is next opened
    database = os.path.join(os.getcwd(), "launcher.db")
    job = subprocess.Popen(command(2, "tp=2", "--steps", "100000", "--db", database), stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    waited = time.time()
    while len(ranks_of(database)) < 2 and time.time() - waited < 30:
        time.sleep(0.1)
    job.kill()
    job.wait()
    time.sleep(1)
    check(ranks_of(database) == [], "launcher killed: processes stayed")
    status(database, "running", "launcher killed")
    subprocess.run([PLAIT, "predict", "--model", "tiny", "--machine", "hgx-h100", "--gpus", "8", "--db", database],
                   stdout=subprocess.DEVNULL, timeout=60)
    rows = json.loads(subprocess.run([PLAIT, "query", "select status, message from run where command = 'exec'", "--json",
                                      "--db", database], capture_output=True, text=True).stdout)
    check(rows == [{"status": "failed", "message": "killed"}], f"launcher killed: the row says {rows}")


def absent():
    """What a machine lacks is said in one line, before anything starts: exit 3. Only the emulated device can lack it."""
    for setting, value, ranks, words in (
            ("PLAIT_EMU_DRIVER", "0", 1, "no NVIDIA driver"), ("PLAIT_EMU_DRIVER", "12040", 1, "supports CUDA 12.4"),
            ("PLAIT_EMU_DEVICES", "0", 2, "no GPU"), ("PLAIT_EMU_CAPABILITY", "7.0", 2, "CUDA 13 builds no code"),
            ("PLAIT_NCCL", "/nonexistent/libnccl.so.2", 2, "NCCL")):
        done = subprocess.run(command(ranks, "tp=1"), capture_output=True, text=True, timeout=60,
                              env={**os.environ, setting: value})
        lines = done.stderr.strip().splitlines()
        check(done.returncode == 3 and len(lines) == 1 and words in lines[0],
              f"{setting}={value}: exit {done.returncode}, said {lines}")
        check(done.stdout == "", f"{setting}={value}: stdout {done.stdout}")
    for devices, ranks, code, words in (("0", "2", 3, "no GPU"), ("1", "2", 2, "this node is 1")):
        done = subprocess.run([PLAIT, "calibrate", "--backend", BACKEND, "--ranks", ranks, "--db", "absent.db"], capture_output=True,
                              text=True, timeout=60, env={**os.environ, "PLAIT_EMU_DEVICES": devices})
        lines = done.stderr.strip().splitlines()
        check(done.returncode == code and len(lines) == 1 and words in lines[0] and not os.path.exists("absent.db"),
              f"calibrate with {devices} devices: exit {done.returncode}, said {lines}")
    done = subprocess.run(command(1, "tp=1", "--dry-run"), capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PLAIT_EMU_DRIVER": "0"})
    check(done.returncode == 0, f"a dry run needs no GPU: exit {done.returncode}, {done.stderr}")


def torchrun():
    """The environment that torchrun --no-python makes; mpirun only starts the processes."""
    script = ('RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK '
              'MASTER_ADDR=localhost MASTER_PORT=%d exec "$@"' % (20000 + os.getpid() % 20000))
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_mpi_yield_when_idle": "1"}
    done = subprocess.run(["mpirun", "--oversubscribe", "-np", "2", "sh", "-c", script, "sh",
                           *command(2, "tp=2", "--verify", "--steps", "1", "--warmup", "0", "--json")],
                          capture_output=True, text=True, timeout=120, env=environment)
    check(done.returncode == 0, f"torchrun: exit {done.returncode}: {done.stderr.strip()[:300]}")
    check(done.returncode != 0 or json.loads(done.stdout)["verified"] is True, "torchrun: not verified")
    bad = subprocess.run(command(2, "tp=2"), capture_output=True, text=True, timeout=60,
                         env={**environment, "RANK": "x", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"})
    check(bad.returncode == 2 and "RANK is 'x'" in bad.stderr, f"RANK=x: exit {bad.returncode}, {bad.stderr}")


def watchdog():
    """A collective that never ends because another rank has gone: NCCL says so, the watchdog hears it."""
    done = subprocess.run(command(2, "tp=2", "--steps", "2"), capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PLAIT_EMU_NCCL_FAIL": "40"})
    lines = done.stderr.strip().splitlines()
    check(done.returncode == 3 and len(lines) == 1 and "remote process exited" in lines[0] and "step" in lines[0],
          f"watchdog: exit {done.returncode}, said {lines}")
    # a step that takes longer than nothing may happen: the host waits, the device gets on
    for factor in (24, 60, 150):  # hosts differ
        done = subprocess.run(command(2, "dp=2", "--seq", "8", "--global-batch", "4", "--steps", "1", "--warmup", "0", "--timeout",
                                      "2s", "--json"), capture_output=True, text=True, timeout=120,
                              env={**os.environ, "PLAIT_TEST_SLOW_RANK": f"0:{factor}"})
        check(done.returncode == 0, f"long steps: exit {done.returncode}, said {done.stderr}")
        took = json.loads(done.stdout)["measured"]["step_s"] if done.returncode == 0 else 0
        if took > 2 or failures:
            break
    check(took > 2, f"long steps took {took} s only")


def slices():
    """One rank of a plan for 64: its memory is what was predicted, its ops are those of one rank, the parts add up."""
    layout = "tp=4,pp=4,sp=1,dp=4,zero=1,mbs=2"
    more = ("--global-batch", "16", "--machine", "hgx-h100", "--steps", "1", "--warmup", "0", "--json")
    done = subprocess.run(command(64, layout, "--slice", *more), capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, f"slice: exit {done.returncode}: {done.stderr.strip()[:300]}")
    if done.returncode == 0:
        answer = json.loads(done.stdout)
        part, ops = answer["slice"], {op["kind"]: op for op in answer["ops"]}
        check(answer["measured"]["peak_bytes"] == answer["predicted"]["peak_bytes"], "slice: peak is not as predicted")
        check(abs(part["measured_compute_s"] + part["priced_communication_s"] - part["step_s"]) < 1e-9, "slice: parts do not add up")
        # one layer per stage, two micro-batches: two norms forward and two backward of each
        check(ops["norm"]["count"] == 8, f"slice: {ops['norm']['count']} norms")
        # 4 linear layers, forward and both gradients of each
        check(ops["gemm"]["count"] == 24, f"slice: {ops['gemm']['count']} matrix products")
        for kind in ("all_gather", "reduce_scatter", "recv"):
            check(ops[kind]["measured_s"] == ops[kind]["predicted_s"] > 0, f"slice: {kind} is not priced")
    done = subprocess.run(command(64, layout, "--slice", "--verify", *more), capture_output=True, text=True, timeout=60)
    check(done.returncode == 2, f"slice --verify: exit {done.returncode}")


if shutil.which("mpirun") is None:
    sys.exit(77)
main(layouts, pairs, pieces, inject, faults, memory, memory_all, absent, torchrun, slices, watchdog, beside, events)
