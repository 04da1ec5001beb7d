#!/usr/bin/env python3
"""docs/profiles.md against the program: every key is there, and what it says of each profile is so.

usage: profiles.py PLAIT all DOCS/PROFILES.MD CATALOG/PROFILES
"""
import fnmatch
import glob
import os
import re
import sys

from cli_test import answer, check, main, run

DOCUMENT, FOLDER = os.path.abspath(sys.argv[3]), os.path.abspath(sys.argv[4])
SWITCH = {"yes": True, "no": False}


def table_rows():
    """(group, keys, what, range, who) of every row."""
    group = None
    with open(DOCUMENT, encoding="utf-8") as file:
        for line in file:
            heading = re.match(r"### \[(\w+)\]", line)
            group = heading.group(1) if heading else group
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if group and line.startswith("| `"):
                yield group, re.findall(r"`(\w+)`", cells[0]), cells[1], *(cells[2:] + ["", ""])[:2]


def keys_of_files():
    found = set()
    for path in glob.glob(os.path.join(FOLDER, "*.ini")):
        group = None
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.startswith("["):
                    group = line.strip().strip("[]")
                elif re.match(r"\w+ *=", line):
                    found.add((group.replace("states_bf16", "states").replace("states_fp16", "states"), line.split("=")[0].strip()))
    return found


def value_of(text):
    if text in SWITCH:
        return SWITCH[text]
    number = float(re.match(r"[\d.]+", text).group())
    return number * 2**30 if text.endswith("GiB") else number


def said(who, names):
    """What a cell "2B; 0B: fsdp, x*" says of each profile."""
    values = {}
    parts = [part.strip() for part in who.split(";")]
    for part in parts:
        value, _, patterns = part.partition(":")
        for name in names:
            if any(fnmatch.fnmatchcase(name, pattern.strip()) for pattern in patterns.split(",")):
                check(name not in values, f"{name} is named twice in '{who}'")
                values[name] = value_of(value)
    if ":" not in parts[0]:
        values = {name: values.get(name, value_of(parts[0])) for name in names}
    return values


def everything_is_documented():
    documented = {(group, key) for group, keys, *_ in table_rows() for key in keys}
    check(documented >= keys_of_files(), f"not in the document: {sorted(keys_of_files() - documented)}")


def values_are_those_of_the_catalog():
    profiles = {profile["name"]: profile for profile in answer(["profiles"])}
    for group, keys, _, _, who in table_rows():
        if group in ("profile", "row_defaults") or keys == ["dtypes"]:
            continue
        member = keys[0] if keys[0] != "context" else "context_bytes"
        values = said(who, profiles)
        for name, profile in profiles.items():
            check(member in profile, f"profiles --json has no '{member}'")
            check(name in values and abs(values[name] - profile.get(member, -1)) < 1,
                  f"[{group}] {keys[0]} of {name}: the document says {values.get(name)}, the catalog {profile.get(member)}")


def built_on_another():
    """The document's own example is a profile; what it leaves out is its base's."""
    with open(DOCUMENT, encoding="utf-8") as file:
        example = re.search(r"```ini\n(.*?)```", file.read(), re.S).group(1)
    os.makedirs("mycatalog/profiles")
    with open("mycatalog/profiles/ours.ini", "w", encoding="utf-8") as file:
        file.write(example)
    ours = answer(["profiles", "--profile", "ours", "--catalog", "mycatalog"])
    base = answer(["profiles", "--profile", "megatron"])
    differs = {key for key in base if ours[key] != base[key]}
    check(differs == {"name", "frameworks", "source", "fused_cross_entropy", "reduce_bytes"}, f"differs in {sorted(differs)}")
    with open("old.ini", "w", encoding="utf-8") as file:
        file.write("[profile]\nsource = a file of before the key\n[kernels]\nfused_norm = yes\n")
    refused = run(["profiles", "--profile", "./old.ini"], expect=2).stderr
    check("[kernels] fused_activation" in refused and "base = PROFILE" in refused, f"says not what to do: {refused}")


def all():
    everything_is_documented()
    values_are_those_of_the_catalog()
    built_on_another()


main(all)
