"""Runs one case of the bad-input table and says what is wrong with the outcome."""
import dataclasses
import json
import math
import os
import subprocess
import threading

from bad_input_legal import KNOWN

LIMIT_S = 10
LIMIT_BYTES = 2 << 30
SANITIZERS = ("AddressSanitizer", "LeakSanitizer", "runtime error:", "UndefinedBehaviorSanitizer")
CRITICAL = ("-CRITICAL **", "-WARNING **", "CRITICAL **:", "assertion '")


@dataclasses.dataclass
class Case:
    """@names: texts, each of which must be in the message; a tuple: one of these."""

    name: str
    arguments: list
    names: tuple = ()
    codes: tuple = (2,)
    legal: str = ""  # why this is not an error; then the run must succeed
    legal_or_refused: bool = False  # a run must succeed, or be refused as said by @names
    check: object = None  # called with the answer of a legal run; returns a fault or None
    wrapper: tuple = ()  # a command that runs plait
    prepare: object = None  # called before, with nothing; its result is called afterwards
    after: object = None  # called after; returns a fault or None


def numbers(value, path=""):
    if isinstance(value, dict):
        for key, child in value.items():
            yield from numbers(child, f"{path}.{key}")
    elif isinstance(value, list):
        for child in value:
            yield from numbers(child, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


class Runner:
    def __init__(self, plait, folder, verbose):
        self.plait, self.folder, self.verbose = os.path.abspath(plait), folder, verbose
        self.lock, self.faults, self.count, self.known = threading.Lock(), [], 0, {}
        with open(self.plait, "rb") as file:
            sanitized = b"__asan_init" in file.read()
        self.prefix = [] if sanitized else ["sh", "-c", f'ulimit -v {LIMIT_BYTES >> 10}; exec "$@"', "sh"]
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("PLAIT_")}
        self.env["ASAN_OPTIONS"] = f"hard_rss_limit_mb={LIMIT_BYTES >> 20}:detect_leaks=1"
        self.env["UBSAN_OPTIONS"] = "print_stacktrace=1"
        self.env["G_DEBUG"] = ""
        self.env["HWLOC_PLUGINS_PATH"] = "/nonexistent"  # they leak at load, which is not ours to mend

    def execute(self, case):
        try:
            done = subprocess.run([*case.wrapper, *self.prefix, self.plait, *case.arguments], stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=LIMIT_S, env=self.env, cwd=self.folder)
        except subprocess.TimeoutExpired:
            return None
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def run(self, case):
        undo = case.prepare() if case.prepare else None
        try:
            outcome = self.execute(case)
            faults = list(self.judge(case, outcome))
            if case.after:
                fault = case.after()
                faults += [fault] if fault else []
        finally:
            if undo:
                undo()
        with self.lock:
            self.count += 1
            if case.name in KNOWN:
                self.known |= {case.name: KNOWN[case.name] if faults else "is mended: drop it from KNOWN"}
                faults = [] if faults else ["listed in KNOWN, but nothing is wrong any more"]
            self.faults += faults
            for fault in faults:
                print(f"FAILED: {case.name}: {fault}", flush=True)
            if self.verbose and outcome:
                print(f"{outcome[0]} {case.name}: {outcome[2].strip()[:300]}", flush=True)
        return faults

    def judge(self, case, outcome):
        if outcome is None:
            yield f"still running after {LIMIT_S} s"
            return
        code, out, err = outcome
        if code < 0 or code >= 126 or any(word in err for word in SANITIZERS + CRITICAL):
            yield f"crash or sanitizer report (exit {code}): {err.strip()[:1500]}"
            return
        legal = case.legal or (case.legal_or_refused and code in (0, 1))
        yield from self.judge_legal(case, code, out, err) if legal else self.judge_refusal(case, code, out, err)

    def judge_legal(self, case, code, out, err):
        if code not in (0, 1):
            yield f"listed as legal ({case.legal}), but exit {code}: {err.strip()}"
            return
        try:
            answer = json.loads(out)
        except ValueError:
            yield f"stdout is no JSON: {out[:200]}"
            return
        for path, value in numbers(answer):
            if not math.isfinite(value) or value < 0:
                yield f"{path} is {value}"
        fault = case.check(answer) if case.check and not answer.get("error") else None
        if fault:
            yield fault

    def judge_refusal(self, case, code, out, err):
        lines = err.splitlines()
        if code not in case.codes:
            yield f"exit {code}, expected {case.codes}: {err.strip()[:300]}"
        if len(lines) != 1 or not lines[0].startswith("plait: "):
            yield f"expected one line on stderr that begins 'plait: ', got {lines[:5]}"
            return
        for wanted in case.names:
            choices = wanted if isinstance(wanted, tuple) else (wanted,)
            if not any(choice in lines[0] for choice in choices):
                yield f"the message names none of {choices}: {lines[0]}"
        if "--json" in case.arguments:
            yield from self.judge_object(code, out, lines[0])
        elif out:
            yield f"text on stdout: {out[:200]}"

    def judge_object(self, code, out, line):
        try:
            error = json.loads(out)["error"]
        except (ValueError, KeyError, TypeError):
            yield f"no error object on stdout: {out[:200]}"
            return
        if error != {"code": code, "message": line[len("plait: "):]}:
            yield f"the error object differs from exit code and message: {error}"
