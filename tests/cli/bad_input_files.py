"""Cases about files: each key of real INI files and of a config.json, and paths that are no files."""
import json
import os
import re

from bad_input_check import Case
from bad_input_legal import CONFIG, INI, TEXT

# What a key belongs to, where leaving it out is seen only there.
PLACES = {"gpus": ("[pcie]",), "gpus_per_node": ("[pcie]",),
          "num_local_experts": ("num_experts",)}  # one thing, three names
NUMBER = re.compile(r"^([0-9.]+)(.*)$")
HUGE = {"1e30": "1e30", "2^63": "9223372036854775808", "2^64": "18446744073709551616"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read().split("\n")


def keys(lines):
    """(line number, group, key, value) of each key, the first of its kind of group only."""
    group, seen = "", set()
    for i, line in enumerate(lines):
        if line.startswith("["):
            group = line.strip("[]")
        elif "=" in line and not line.startswith("#"):
            key, value = (part.strip() for part in line.split("=", 1))
            if (group.split()[0], key) not in seen:
                seen.add((group.split()[0], key))
                yield i, group, key, value


def bad_values(value):
    """Named bad values for a key that holds @value, with its unit where it has one."""
    found = NUMBER.match(value)
    unit = found.group(2) if found else ""
    yield "negative", "-" + value if found else "-1"
    yield "zero", "0" + unit
    for name in ("nan", "inf"):
        yield name, name + unit
    for name, number in HUGE.items():
        yield name, number + unit
    yield "empty", ""
    yield "unit", (found.group(1) if found else "1") + "furlong"
    if "+-" in value:
        before = value.split("+-")[0]
        for name, spread in (("negative", "-5%"), ("nan", "nan"), ("huge", "1e30"), ("empty", ""), ("twice", "5% +- 5%")):
            yield "spread-" + name, before + "+- " + spread


def variants(lines, first):
    """(variant, key, group, content) for one key after the other."""
    for i, group, key, value in keys(lines):
        def with_line(*replacement, i=i):
            return "\n".join(lines[:i] + list(replacement) + lines[i + 1:]).encode()

        text = key in TEXT
        for name, bad in [("empty", "")] if text else bad_values(value):
            yield name, group, key, with_line(f"{key} = {bad}")
        yield "missing", group, key, with_line()
        if (group, key) in first:
            yield "twice", group, key, with_line(lines[i], lines[i])
            yield "unknown", group, key + "x", with_line(lines[i], f"{key}x = 1")
            yield "not-utf8", group, key, with_line("@").replace(b"@", f"{key} = ".encode() + b"\xff\xfe")
            yield "nul", group, key, with_line("@").replace(b"@", f"{key} = ".encode() + b"1\0002")
            yield "no-equals", group, key, with_line(key)
            yield "long", group, key, with_line(f"{key} = " + "9" * 100000)


def first_of_groups(lines):
    seen, result = set(), set()
    for _, group, key, _ in keys(lines):
        if group.split()[0] not in seen and key not in TEXT:
            seen.add(group.split()[0])
            result.add((group, key))
    return result


def ini_cases(kind, path, folder, arguments):
    lines, name = read(path), os.path.basename(path)
    for variant, group, key, content in variants(lines, first_of_groups(lines)):
        file = os.path.join(folder, f"{kind}-{len(os.listdir(folder))}.ini")
        with open(file, "wb") as out:
            out.write(content)
        legal = INI.get((kind, group.split()[0], key, variant), INI.get((kind, group.split()[0], "*", variant), ""))
        names = (os.path.basename(file), (key, f"[{group}]", *PLACES.get(key, ())))
        if variant in ("not-utf8", "nul"):
            names = (os.path.basename(file) + ":",)
        yield Case(f"{kind}/{name}/[{group}] {key}/{variant}", [file if a is None else a for a in arguments], names, legal=legal)


BASE = ["predict", "--gpus", "8", "--global-batch", "8", "--seq", "512", "--layout", "tp=1", "--json"]


def catalog(root, *parts):
    return os.path.join(root, "catalog", *parts)


def models(root, folder, data):
    arguments = [*BASE, "--machine", "dgx-a100-80g", "--model", None]
    for slug in ("deepseek-v3", "gpt3-175b", "tiny"):
        yield from ini_cases("model", catalog(root, "models", slug + ".ini"), folder, arguments)


def machines(root, folder, data):
    arguments = [*BASE, "--model", "tiny", "--machine", None]
    for slug in ("dgx-a100-80g", "gb200-nvl72", "dgx-1v-32g"):
        yield from ini_cases("machine", catalog(root, "machines", slug + ".ini"), folder, arguments)


def gpus(root, folder, data):
    arguments = [*BASE, "--model", "tiny", "--machine", "hgx-h100", "--gpu", None]
    for slug in ("h100-sxm-80g", "gb200"):
        yield from ini_cases("gpu", catalog(root, "gpus", slug + ".ini"), folder, arguments)


def profiles(root, folder, data):
    arguments = [*BASE, "--model", "tiny", "--machine", "hgx-h100", "--profile", None]
    yield from ini_cases("profile", catalog(root, "profiles", "megatron.ini"), folder, arguments)


def calibrations(root, folder, data):
    arguments = [*BASE, "--model", "tiny", "--machine", "hgx-h100", "--calibration", None]
    yield from ini_cases("calibration", catalog(root, "calibrations", "prior.ini"), folder, arguments)


def links(root, folder, data):
    """Files of catalog/links are found by their name in a catalog folder, one folder for each case."""
    live = ["predict", "--model", "tiny", "--machine", "live", "--gpus", "1", "--profile", "plait", "--layout", "tp=1", "--json", "--catalog"]
    for slug in ("pcie", "nvlink", "inter-socket", "host"):
        lines = read(catalog(root, "links", slug + ".ini"))
        arguments = live if slug == "host" else [*BASE, "--model", "tiny", "--machine", "hgx-h100", "--catalog"]
        for variant, group, key, content in variants(lines, first_of_groups(lines)):
            own = os.path.join(folder, f"links-{len(os.listdir(folder))}")
            os.makedirs(os.path.join(own, "links"))
            with open(os.path.join(own, "links", slug + ".ini"), "wb") as out:
                out.write(content)
            names = (f"links/{slug}.ini", (key, f"[{group}]")) if variant not in ("not-utf8", "nul") else (f"links/{slug}.ini:",)
            yield Case(f"links/{slug}/[{group}] {key}/{variant}", [*arguments, own], names,
                       legal=INI.get(("links", group.split()[0], key, variant), ""))


# ---- config.json

BAD_JSON = {"negative": "-1", "zero": "0", "nan": "NaN", "inf": "Infinity", "1e30": "1e30", "2^63": "9223372036854775808",
            "2^64": "18446744073709551616", "fraction": "1.5", "text": '"many"', "list": "[]", "object": "{}", "null": "null"}


def config_cases(name, text, folder):
    config = json.loads(text)
    for key in config:
        documents = {variant: json.dumps({**config, key: "@"}).replace('"@"', bad) for variant, bad in BAD_JSON.items()}
        documents["missing"] = json.dumps({k: v for k, v in config.items() if k != key})
        documents["twice"] = json.dumps(config)[:-1] + f', "{key}": {json.dumps(config[key])}}}'
        if (key, "*") in CONFIG:  # not read: a few stand for all
            documents = {variant: documents[variant] for variant in ("text", "2^64", "null", "nan", "missing", "twice")}
        for variant, document in documents.items():
            legal = "" if variant == "twice" else CONFIG.get((name, key)) or CONFIG.get((key, variant)) or CONFIG.get((key, "*"), "")
            if variant == "nan" or variant == "inf":
                legal = ""  # no JSON, whatever the key
            names = (".json:1: ",) if variant in ("nan", "inf") else ((key, *PLACES.get(key, ())),)  # no JSON: the line is known, not the key
            yield f"{name}/{key}/{variant}", document.encode(), names, legal


def configs(root, folder, data):
    arguments = [*BASE, "--machine", "dgx-a100-80g", "--model"]
    if not data:
        return
    found = []
    for name in ("llama-3.1-8b", "deepseek-v2-lite", "mixtral-8x7b", "gpt2-medium"):
        with open(os.path.join(data, "hf_configs", name + ".json"), encoding="utf-8") as file:
            text = file.read()
        found += config_cases(name, text, folder)
        whole = json.dumps(json.loads(text)).encode()
        found += [(f"{name}/cut/{at}", whole[:at], (), "") for at in range(0, len(whole), max(1, len(whole) // 24))]
        found.append((f"{name}/nul", whole[:40] + b"\0" + whole[40:], (), ""))
        found.append((f"{name}/not-utf8", whole.replace(b'"model_type": "', b'"model_type": "\xff\xfe', 1), (), ""))
        found.append((f"{name}/after", whole + b"{}", (), ""))
    found += [("deep/lists", b"[" * 100000, (), ""), ("deep/objects", b'{"a":' * 100000, (), ""), ("list", b"[]", (), ""),
              ("number", b"7", (), ""), ("null", b"null", (), ""), ("blank", b" \n", (), "")]
    for i, (name, content, names, legal) in enumerate(found):
        file = os.path.join(folder, f"config-{i}.json")
        with open(file, "wb") as out:
            out.write(content)
        yield Case("json/" + name, [*arguments, file], (f"config-{i}.json", *names), legal=legal)


# ---- paths

FILES = {"--model": ("ini", "json"), "--machine": ("ini",), "--gpu": ("ini",), "--profile": ("ini",), "--calibration": ("ini",)}


def paths(root, folder, data):
    fifo = os.path.join(folder, "fifo.ini")
    os.mkfifo(fifo)
    os.mkfifo(os.path.join(folder, "fifo.json"))
    loop = os.path.join(folder, "loop.ini")
    os.symlink(loop, loop)
    os.symlink(os.path.join(folder, "nowhere"), os.path.join(folder, "dangling.ini"))
    for suffix in ("ini", "json"):
        os.mkdir(os.path.join(folder, "folder." + suffix))
        open(os.path.join(folder, "empty." + suffix), "wb").close()
    good = {"--model": "tiny", "--machine": "dgx-a100-80g", "--gpu": "a100-sxm-80g", "--profile": "megatron", "--calibration": "default"}
    for option, suffixes in FILES.items():
        bad = [os.path.join(folder, f"{what}.{suffix}") for suffix in suffixes for what in ("folder", "empty", "fifo", "absent")]
        bad += [loop, os.path.join(folder, "dangling.ini"), folder, "/dev/zero", "/dev/null", "/proc/self/mem",
                os.path.join(folder, "empty.ini", "below"), "./no-such-slug", "x" * 5000, "../catalog", "a\nb"]
        for path in bad:
            chosen = {**good, option: path}
            arguments = [*BASE, *(word for pair in chosen.items() for word in pair)]
            yield Case(f"path/{option}/{path[:80]!r}", arguments, ((os.path.basename(path)[:20] if path != "a\nb" else "a?b", option),))
