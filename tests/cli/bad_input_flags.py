"""Cases about flags and layout keys, and legal but huge problems."""
import os

from bad_input_check import Case
from bad_input_legal import FLAGS, LAYOUTS

VALUES = {"negative": "-1", "zero": "0", "nan": "nan", "inf": "inf", "1e30": "1e30", "2^63": "9223372036854775808",
          "2^64": "18446744073709551616", "empty": "", "unit": "8furlong", "not-utf8": b"\xff\xfe", "long": "9" * 20000,
          "blank": " 8 8", "line": "8\n8"}

JOB = {"--model": "tiny", "--machine": "dgx-a100-80g", "--gpu": "a100-sxm-80g", "--gpus": "8", "--global-batch": "8",
       "--seq": "512", "--profile": "megatron", "--calibration": "default", "--layout": "tp=1", "--dropout": "0.1"}
COMMON = {"--color": "never", "--catalog": None}
# Each subcommand: its words, its options with a good value (None: nothing is good everywhere), its switches.
COMMANDS = {
    "predict": ([], {**JOB, **COMMON}, []),
    "plan": ([], {**JOB, "--max-oom-risk": "0.1", "--keep": "10", "--jobs": "1", "--top": "5", "--limit": "100000", **COMMON},
             ["--no-store"]),
    "simulate": ([], {**JOB, "--straggler": "rank=1,slow=2", "--jitter": "3%", "--runs": "2", "--seed": "1", **COMMON},
                 ["--no-contention"]),
    "shard": ([], {"--shape": "64x64", "--mesh": "2x4", "--placements": "S(0),R", "--to": "R,R", "--dtype": "bf16",
                   "--machine": "dgx-a100-80g", **COMMON}, []),
    "topo": (["dgx-a100-80g"], {"--gpu": "a100-sxm-80g", "--machine": None, "--check": None, **COMMON}, []),
    "models": ([], {"--model": "tiny", **COMMON}, []),
    "machines": ([], {"--machine": "dgx-a100-80g", **COMMON}, []),
    "gpus": ([], {"--gpu": "a100-sxm-80g", **COMMON}, []),
    "profiles": ([], {"--profile": "megatron", **COMMON}, []),
    "show": (["best"], {"--db": "absent.db", "--color": "never"}, []),
    "compare": (["1", "2"], {"--db": "absent.db", "--color": "never"}, []),
    "query": (["select 1"], {"--db": "absent.db", "--color": "never"}, []),
}
REQUIRED = {(c, o) for c in ("predict", "simulate") for o in ("--model", "--machine", "--gpus")} | {("plan", o) for o in ("--model", "--machine", "--gpus")} | {
    ("shard", o) for o in ("--shape", "--mesh", "--placements")}


def flag_names(option):
    """What the message must show: the option, or what it names."""
    return ((option, {"--db": "database"}.get(option, option.strip("-"))),)


def flags(root, folder, data):
    for command, (words, options, switches) in COMMANDS.items():
        def arguments(changed, command=command, words=words, options=options, switches=switches):
            chosen = {**{k: v for k, v in options.items() if v is not None}, **changed}
            return [command, *words, *switches, "--json", *(w for k, v in chosen.items() if v is not None for w in (k, v))]

        for option in options:
            for name, value in VALUES.items():
                legal = FLAGS.get((option, name), FLAGS.get((f"{command} {option}", name), ""))
                yield Case(f"flag/{command} {option}/{name}", arguments({option: value}), flag_names(option), legal=legal,
                           codes=(3,) if option == "--db" else (2,))
            if (command, option) in REQUIRED:
                yield Case(f"flag/{command} {option}/missing", arguments({option: None}), (option,))
            yield Case(f"flag/{command} {option}/no value", [*arguments({option: None}), option], (option,))
            if options[option] is not None:
                yield Case(f"flag/{command} {option}/twice", [*arguments({}), option, options[option]], (option,))
            yield Case(f"flag/{command} {option}/unknown", [*arguments({}), option + "x", "1"], (option + "x",))
        yield Case(f"flag/{command}/extra word", [*arguments({}), *["extra"] * 20], ())
    for words in (["plna"], [""], ["--nonsense"], ["help", "plna"], ["-1"]):
        yield Case(f"flag/{words}", words, ())
    for plan in ("0", "-1", "nan", "9223372036854775808", "1e30", "", "worst", "1 2"):
        yield Case(f"flag/show {plan}", ["show", "--json", "--db", "absent.db", "--", plan], codes=(2, 3))


# ---- layouts

LAYOUT_KEYS = {"tp": "1", "sp": "0", "cp": "1", "pp": "1", "vpp": "1", "ep": "1", "etp": "1", "mbs": "1", "dp": "8", "zero": "0",
               "fsdp": "0", "hsdp": "8", "recompute": "none", "schedule": "1f1b", "stages": "auto", "attn": "flash", "dtype": "bf16",
               "cp_comm": "p2p", "tp_sync": "1", "cuda_graph": "none", "overlap_tp": "0", "overlap_dp": "0", "overlap_p2p": "0", "overlap_ep": "0"}
# Texts that no single bad value gives.
LAYOUT_TEXTS = ["tp", "=8", "tp=", ",", "tp=2,", ",tp=2", "tp=2,,pp=2", "tp=2;pp=2", "tp=2 pp=2", "tp==2", "tp=3", "tp=5", "tp=16", "pp=3",
                "pp=16", "vpp=2", "cp=3", "ep=2", "etp=2", "dp=3", "tp=2,dp=8", "mbs=3", "mbs=16", "hsdp=3", "tp_sync=1.5",
                "tp_sync=0.5,sp=1", "zero=3,fsdp=0", "sp=1", "stages=8+0", "pp=2,stages=8+0", "pp=2,stages=4+5",
                "pp=2,stages=4+4+4", "pp=2,stages=4+", "pp=2,stages=+8", "pp=2,stages=-1+9", "pp=2,stages=18446744073709551615+9",
                "pp=2,stages=4294967295+9", "recompute=selective:", "recompute=selective:moe", "recompute=selective:mlp+mlp",
                "recompute=full:uniform:0", "recompute=full:block:9999", "recompute=full:uniform:18446744073709551617",
                "recompute=full:sideways:1", "recompute=full:block", "schedule=file:", "schedule=file:absent", "schedule=file:.",
                "schedule=interleaved", "zero=2,pp=2", "tp=1048576", "tp=1048576,pp=1048576,cp=1048576", "tp=8,cp=8,pp=8,dp=8",
                "dtype=int8", "x" * 100000, "tp=1," * 20000, "\u0000".join(["tp"]), "TP=1", "tp=１"]


def layouts(root, folder, data):
    base = ["predict", "--model", "tiny", "--machine", "dgx-a100-80g", "--gpus", "8", "--global-batch", "8", "--seq", "512", "--json",
            "--layout"]
    for key, good in LAYOUT_KEYS.items():
        for name, value in VALUES.items():
            text = key.encode() + b"=" + value if isinstance(value, bytes) else f"{key}={value}"
            yield Case(f"layout/{key}/{name}", [*base, text], (key,), legal=LAYOUTS.get((key, name), ""))
        yield Case(f"layout/{key}/twice", [*base, f"{key}={good},{key}={good}"], (key,))
        yield Case(f"layout/{key}/unknown", [*base, f"{key}={good},{key}q={good}"], (key + "q",))
    for text in LAYOUT_TEXTS:
        yield Case(f"layout/{text[:60]}", [*base, text], ("layout",) if len(text) > 100 else ())


# ---- legal, one by one

NUMBERS = "each number is within its range"


def job(command, model, gpus, batch, seq, *words):
    return [command, "--model", model, "--machine", "dgx-a100-80g", "--gpus", str(gpus), "--global-batch", str(batch), "--seq", str(seq),
            "--json", *words]


def at_least(layers, hidden, heads, seq, mbs, scores):
    """No wrap-around: each layer keeps at least its input (2 bytes), unfused attention its scores too."""
    floor = layers * mbs * seq * (2 * hidden + (2 * heads * seq if scores else 0))

    def check(answer):
        kept = answer["memory_bytes"]["activations"]
        if kept < floor:
            return f"{kept} bytes of activations, but the layers' inputs alone are {floor}"
        return None if answer["peak_bytes"] >= kept else "peak_bytes below activations"

    return check


def sweeps():
    for power in range(10, 31, 2):
        for mbs in (1, 4096, 1 << 20):
            for attn in ("flash", "unfused"):
                words = job("predict", "llama-3.1-405b", 8, 1 << 30, 1 << power, "--layout", f"dp=8,mbs={mbs},attn={attn}")
                yield Case(f"huge/llama-3.1-405b seq=2^{power} mbs={mbs} {attn}", words, ("is too much",), codes=(2,), legal_or_refused=True,
                           check=at_least(126, 16384, 128, 1 << power, mbs, attn == "unfused"))


WIDE = """[model]
source = the largest numbers a model file may hold
hidden = 1048576
vocab = 16777216
activation = silu
gated = yes
norm = rms
position = rotary
tied = no

[attention]
heads = 8192
head_dim = 128

[blocks 1]
kind = {kind}
count = {layers}
{mlp}
"""


def wide_models(folder):
    shapes = [(layers, kind, mlp) for layers in (1, 4096, 1000000)
              for kind, mlp in (("dense", "ffn = 4194304"), ("moe", "experts = 65536\ntopk = 8\nexpert_ffn = 4194304"))]
    for layers, kind, mlp in shapes:
        file = os.path.join(folder, f"wide-{layers}-{kind}.ini")
        with open(file, "w", encoding="utf-8") as out:
            out.write(WIDE.format(kind=kind, layers=layers, mlp=mlp))
        parameters = layers * 3 * (1 << 20) * (1 << 22) * (65536 if kind == "moe" else 1)

        def few(answer, parameters=parameters):
            counted = answer.get("parameters", parameters)
            return None if counted >= parameters else f"{counted} parameters, but the MLPs alone have {parameters}"

        def light(answer, parameters=parameters):
            weights = answer["memory_bytes"]["weights"]
            return None if weights >= 2 * parameters else f"{weights} bytes of weights for {parameters} parameters in 16 bits"

        yield Case(f"huge/models {layers} {kind}", ["models", "--model", file, "--json"], (os.path.basename(file),), legal_or_refused=True,
                   check=few)
        for seq in (1024, 1 << 30):
            yield Case(f"huge/predict {layers} {kind} seq={seq}", job("predict", file, 8, 8, seq, "--layout", "mbs=1"), (),
                       legal_or_refused=True, check=light)
        yield Case(f"huge/plan {layers} {kind}", job("plan", file, 64, 64, 1024, "--layout", "tp=8", "--no-store", "--jobs", "1"), (),
                   legal_or_refused=True)


def huge(root, folder, data):
    yield from sweeps()
    yield from wide_models(folder)
    for model, held in (("tiny", "tp=1"), ("gpt3-175b", "sp=0"), ("deepseek-v3", "tp=8,pp=1,cp=1,mbs=1,zero=1")):
        for gpus in (8, 1 << 24):
            for batch in (8, 1 << 30):
                words = ["--no-store", "--jobs", "1", "--layout", held]
                yield Case(f"huge/plan {model} gpus={gpus} batch={batch}", job("plan", model, gpus, batch, 8192, *words), legal=NUMBERS)
                yield Case(f"huge/predict {model} gpus={gpus} batch={batch}", job("predict", model, gpus, batch, 8192, "--layout", "tp=1"),
                           ("mbs·dp",), legal_or_refused=True)
    for seq in ((1 << 30) + 1, 1 << 32):
        yield Case(f"huge/seq={seq}", job("predict", "tiny", 8, 8, seq, "--layout", "tp=1"), ("--seq",))
    for model in ("tiny", "gpt3-175b"):
        yield Case(f"huge/plan {model} seq=2^30", job("plan", model, 1 << 24, 1 << 30, 1 << 30, "--no-store", "--jobs", "1", "--layout", "tp=1"),
                   ("is too much",), legal_or_refused=True)
