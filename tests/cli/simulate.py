#!/usr/bin/env python3
"""plait simulate as a user runs it: every schedule, orders of one's own, slow ranks, jitter, all ranks, a trace.

usage: simulate.py PLAIT
"""
import json
import os
import subprocess

from cli_test import PLAIT, answer, check, main, run

JOB = ["simulate", "--model", "llama-3.1-8b", "--machine", "hgx-h100", "--gpus", "16", "--seq", "2048"]
PLAIN = [*JOB, "--global-batch", "64", "--layout", "tp=2,sp=1,pp=2,dp=4"]


def refused(words, *texts):
    error = run(words, 2).stderr
    check(error.count("\n") == 1 and all(text in error for text in texts), f"{' '.join(words[-3:])}: says {error}, expected {texts}")


def schedules():
    """Named schedules of p = 4, in the order of their published bubbles and peaks."""
    played = {}
    for name in ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe", "dualpipev"):
        vpp = ",vpp=2" if name == "interleaved" else ""
        played[name] = answer([*JOB, "--global-batch", "64", "--layout", f"tp=2,sp=1,pp=4,dp=2,schedule={name}{vpp}"])
    for name, one in played.items():
        check(abs(one["simulated_s"] / one["step_s"] - 1) < 0.03, f"{name}: played {one['simulated_s']}, predicted {one['step_s']}")
    for faster, slower in (("interleaved", "1f1b"), ("zb-h1", "1f1b"), ("zb-h2", "zb-h1"), ("zb-v", "v-half"),
                           ("v-half", "v-min")):
        check(played[faster]["played_s"] < played[slower]["played_s"],
              f"{faster} takes {played[faster]['played_s']} s, {slower} {played[slower]['played_s']} s")
    peaks = {name: max(rank["allocated_bytes"] for rank in one["ranks"]) for name, one in played.items()}
    check(peaks["v-min"] < peaks["v-half"] < peaks["zb-v"] <= peaks["gpipe"], f"peaks are {peaks}")
    refused([*JOB, "--global-batch", "64", "--layout", "pp=4,dp=4,schedule=zigzag"], "'zigzag'", "zb-h1", "file:PATH")


def orders():
    """A file with one's own order: that of 1F1B plays as 1F1B; what cannot run is refused by line or rank."""
    rows = "r0: F0 F1 B0 B1\nr1: F0 B0 F1 B1\n"
    job = [*JOB, "--global-batch", "16", "--layout"]
    texts = {"own": rows, "cycle": "r0: F0 B0 F1 B1\nr1: F1 F0 B0 B1\n", "missing": rows.replace("B0 B1", "B0", 1),
             "unknown": rows.replace("F1", "X1", 1), "twice": rows.replace("r1", "r0"), "empty": ""}
    for name, text in texts.items():
        with open(name, "w") as file:
            file.write(text)
    layout = "pp=2,dp=8"
    own, named = (answer([*job, f"{layout},schedule={s}"]) for s in ("file:own", "1f1b"))
    check(abs(own["played_s"] / named["played_s"] - 1) < 1e-9, f"own order {own['played_s']} s, 1f1b {named['played_s']} s")
    for name, *texts in (("cycle", "never ends", "rank 0", "rank 1"), ("missing", "missing", "rank 0", "micro-batches"),
                         ("unknown", "unknown:1", "'X1'"), ("twice", "twice:2", "'r0:'"), ("empty", "no step"),
                         ("absent", "absent", "No such file")):
        refused([*job, f"{layout},schedule=file:{name}"], *texts)


def ranks():
    plain, full = answer(PLAIN), answer([*PLAIN, "--full"])
    check(abs(full["simulated_s"] / plain["simulated_s"] - 1) < 1e-3, f"full {full['simulated_s']} s, by classes {plain['simulated_s']} s")
    check(len(full["ranks"]) == 16 and len(plain["ranks"]) == 2, f"{len(full['ranks'])} ranks in full, {len(plain['ranks'])} classes")
    slow = answer([*PLAIN, "--straggler", "rank=7,slow=1.3"])
    check(1.05 < slow["simulated_s"] / plain["simulated_s"] < 1.3, f"a rank 1.3 times slower: {slow['simulated_s']} s, else {plain['simulated_s']}")
    refused([*PLAIN, "--straggler", "rank=16,slow=1.3"], "rank=16", "0 to 15")
    refused([*PLAIN, "--straggler", "rank=7,slow=-1"], "slow", "negative")
    jitter = [*PLAIN, "--jitter", "3%", "--runs", "50"]
    one, again, other = answer(jitter), answer(jitter), answer([*jitter, "--seed", "1"])
    spread = one["distribution"]
    check(spread["runs"] == 50 and spread["simulated_s_min"] < spread["simulated_s_p10"] < spread["simulated_s_p90"], f"spread: {spread}")
    check(one == again and one["distribution"] != other["distribution"], "the seed does not decide the jitter")


def trace():
    run([*PLAIN, "--trace", "trace.json"])
    events = json.load(open("trace.json"))["traceEvents"]
    last = {}
    slices = sorted((e for e in events if e["ph"] == "X"), key=lambda e: (e["pid"], e["tid"], e["ts"]))
    for one in slices:
        thread = (one["pid"], one["tid"])
        check(one["ts"] >= last.get(thread, 0) - 2e-6, f"{thread}: {one['name']} begins at {one['ts']}, before {last.get(thread)}")
        last[thread] = one["ts"] + one["dur"]
    kinds = {phase: sum(e["ph"] == phase for e in events) for phase in "XsfC"}
    check(kinds["X"] > 1000 and kinds["s"] == kinds["f"] > 0 and kinds["C"] > 0, f"events: {kinds}")
    refused([*PLAIN, "--trace", "absent/trace.json"], "absent/trace.json", "No such file")


def best(*words):
    """Of a stored plan, played again: what it was said to take when it was made."""
    plans = json.loads(run(["plan", "--global-batch", "8", "--quiet", "--json", "--simulate", "1", "--keep", "1", *words]).stdout)["plans"]
    plan = max(plans, key=lambda p: p["tokens_per_s_per_gpu"] * p["gpus"])
    one = answer(["simulate", "best"])
    check(one["layout_text"] == plan["layout_text"] and one["simulated_s"] == plan["simulated_s"] and one["step_s"] == plan["step_s"],
          f"{' '.join(words)}: simulate best takes {one['simulated_s']} s, was {plan['simulated_s']}")
    return plan


def changed_machine():
    """A plan made for a changed machine is played on that, unless --machine says which."""
    job = ["--model", "llama-3.1-8b", "--machine", "hgx-h100", "--gpus", "16", "--seq", "2048", "--layout", "tp=2,pp=2"]
    plan = best(*job, "--what-if", "nic=-50%")
    check("what_if.nic" in run(["show", "best"]).stdout, "show says nothing of the change")
    now = answer(["simulate", "best", "--machine", "hgx-h100"])
    check(now["simulated_s"] < plan["simulated_s"], f"half the NIC takes {plan['simulated_s']} s, the whole {now['simulated_s']}")
    other = answer(["simulate", "best", "--what-if", "nic=+0%"])
    check(other["simulated_s"] == now["simulated_s"], f"--what-if beside a plan: {other['simulated_s']} s, unchanged {now['simulated_s']}")
    run(["predict", *job, "--what-if", "hbm=-75%", "--global-batch", "8", "--db", "plait.db", "--quiet"], 1)
    check("What lowers the risk" in run(["show", "best"]).stdout, "no fixes for a plan of a changed machine")


def live():
    """This host as the machine, as plan and predict know it."""
    plan = best("--model", "tiny", "--machine", "live", "--gpus", "1,2", "--profile", "plait")
    check("not worked out" not in run(["show", "best"]).stderr, "show best finds no fixes on a live machine")
    direct = answer(["simulate", "--model", "tiny", "--machine", "live", "--gpus", "2", "--profile", "plait", "--layout", "mbs=2"])
    check(direct["simulated_s"] > 0, f"played {direct}")
    sizes = answer(["collective", "--machine", "live", "--ranks", "2", "--bytes", "1MiB"])["sizes"]
    check(sizes[0]["time_s"] > 0 and plan["machine"] == "live", f"collective: {sizes}")
    check(answer(["machines", "--machine", "live"])["name"] == "live", "machines does not know this host")
    steps = answer(["shard", "--shape", "1024x1024", "--mesh", "2", "--placements", "S(0)", "--to", "R", "--machine", "live"])["redistribute"]
    check(steps["time_s"] > 0, f"shard on this host: {steps}")
    compared = run(["compare", "best", "1", "--csv"]).stdout
    check(f"simulated,{plan['simulated_s']:.17g}," in compared.replace('"', ""), f"compare: {compared}")


def files():
    """A plan keeps its model; a machine's file is looked up again, and must be what it was."""
    model = run(["models", "--model", "tiny"]).stdout.replace("layers = 8", "layers = 6").replace("count = 8", "count = 6")
    machine = run(["topo", "hgx-h100", "--ini"]).stdout
    for name, text in (("mine.ini", model), ("node.ini", machine)):
        with open(name, "w") as file:
            file.write(text)
    best("--model", "./mine.ini", "--machine", "./node.ini", "--gpus", "8")
    before = answer(["simulate", "best"])
    os.remove("mine.ini")
    check(answer(["simulate", "best"]) == before and before["model"] == "mine", "without its file the model is another")
    dry = subprocess.run([PLAIT, "exec", "best", "--dry-run"], capture_output=True, text=True, timeout=60)
    check("mine" not in dry.stderr, f"exec best without the model's file: {dry.stderr}")
    for changed in (machine.replace("nic_rate = 400Gb/s", "nic_rate = 200Gb/s").replace("50GB/s", "25GB/s"),
                    machine.replace("rails = 8", "rails = 8\noversubscription_ratio = 4"),
                    machine + "\n[measured all_gather 8]\nsource = a test\npoints = 1MiB:1ms, 1GiB:100ms\n"):
        with open("node.ini", "w") as file:
            file.write(changed)
        refused(["simulate", "best"], "'node' is not what it was", "plan again", "--machine")
    check("is not what it was" in run(["show", "best"]).stderr, "show best seeks fixes on another machine")
    os.remove("node.ini")
    refused(["simulate", "best"], "node.ini", "No such file")


main(schedules, orders, ranks, trace, changed_machine, live, files)
