"""Cases about the database: what is there is no database of ours, or cannot be written."""
import os
import sqlite3
import subprocess

from bad_input_check import Case

notes = []  # what could not be tried here, for the end of the report

JOB = ["--model", "tiny", "--machine", "dgx-a100-80g", "--gpus", "8", "--global-batch", "8", "--seq", "512"]
WRITERS = {"plan": ["plan", *JOB, "--jobs", "1", "--json"], "predict": ["predict", *JOB, "--layout", "tp=1", "--json"]}
READERS = {"show": ["show", "best", "--json"], "compare": ["compare", "1", "2", "--json"], "query": ["query", "select 1", "--json"]}


def contents(folder):
    """Name and bytes of each file below @folder."""
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(where, name), "rb") as file:
                found[os.path.join(where, name)] = file.read()
    return found


def untouched(folder):
    before = contents(folder)

    def after():
        now = contents(folder)
        changed = sorted(path for path in set(before) | set(now) if before.get(path) != now.get(path))
        return f"changed or left behind: {changed}" if changed else None

    return after


def execute(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


class Place:
    """A folder of its own for each kind of database, with what makes it."""

    def __init__(self, root, name, make=None):
        self.folder = os.path.join(root, "db-" + name)
        self.path = os.path.join(self.folder, "plait.db")
        os.mkdir(self.folder)
        if make:
            make(self.path)


def write(content):
    def make(path):
        with open(path, "wb") as file:
            file.write(content)

    return make


def made_by(plait_database):
    def make(path):
        with open(plait_database, "rb") as source, open(path, "wb") as target:
            target.write(source.read())

    return make


# Mounts that vanish with the process: "$1" is the folder, the rest is the command.
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
MOUNTS = {
    "read-only": 'mount -t tmpfs -o size=4m none "$1" && cp "$2" "$1/plait.db" && mount -o remount,ro "$1"',
    "read-only-new": 'mount -t tmpfs -o size=4m,ro none "$1"',
    "full": 'mount -t tmpfs -o size=1m none "$1" && cp "$2" "$1/plait.db" && { cat /dev/zero > "$1/filler"; true; } 2> /dev/null',
    "full-new": 'mount -t tmpfs -o size=64k none "$1" && { cat /dev/zero > "$1/filler"; true; } 2> /dev/null',
    "nearly-full": 'mount -t tmpfs -o size=64k none "$1"',
}
# After the command nothing but what was there is left: no new file, the old one whole.
MOUNTED = """{mount} || exit 99
folder=$1 old=$2; before=$(cd "$folder" && ls -A && cat plait.db 2>/dev/null | cksum); shift 2
"$@"; code=$?
after=$(cd "$folder" && ls -A && cat plait.db 2>/dev/null | cksum)
if [ "$before" != "$after" ]; then echo "half-written: $after" >&2; fi
exit $code"""


def can_mount(folder):
    probe = "mount -t tmpfs none " + folder
    try:
        return subprocess.run([*NAMESPACE, probe], capture_output=True).returncode == 0
    except OSError:
        return False


def mounted_cases(folder, good):
    where = os.path.join(folder, "mounted")
    os.mkdir(where)
    if not can_mount(where):
        notes.append("full and read-only file systems were not tried: mounting a tmpfs is not permitted here")
        return
    for name, mount in MOUNTS.items():
        wrapper = [*NAMESPACE, MOUNTED.replace("{mount}", mount), "sh", where, good]
        for command, words in WRITERS.items():
            yield Case(f"database/{name}/{command}", [*words, "--db", os.path.join(where, "plait.db")], ("plait.db",), codes=(3,), wrapper=wrapper)


def locked(path):
    """Another writer in the middle of its work."""

    def prepare():
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.execute("BEGIN EXCLUSIVE")

        def undo():
            connection.rollback()
            connection.close()

        return undo

    return prepare


def make_good(plait, path):
    subprocess.run([plait, "predict", *JOB, "--layout", "tp=1", "--db", path], capture_output=True, check=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


def bad_places(folder, good):
    """(name, path) of databases that nobody can use."""
    with open(good, "rb") as file:
        whole = file.read()
    yield "not-a-database", Place(folder, "text", write(b"no database\n" * 100)).path
    yield "zeros", Place(folder, "zeros", write(b"\0" * 8192)).path
    yield "short", Place(folder, "short", write(whole[:50])).path
    yield "cut", Place(folder, "cut", write(whole[: len(whole) // 2])).path
    yield "scrambled", Place(folder, "scrambled", write(whole[:100] + b"\xa5" * (len(whole) - 100))).path
    yield "not-ours", Place(folder, "other", lambda path: execute(path, "create table t(x)")).path
    yield "newer", Place(folder, "newer", lambda path: (write(whole)(path), execute(path, "PRAGMA user_version = 999"))).path
    yield "negative-version", Place(folder, "minus", lambda path: (write(whole)(path), execute(path, "PRAGMA user_version = -1"))).path
    yield "folder", Place(folder, "folder", os.mkdir).path
    yield "fifo", Place(folder, "fifo", os.mkfifo).path
    yield "missing-folder", os.path.join(folder, "no-such-folder", "plait.db")
    yield "below-a-file", os.path.join(good, "plait.db")
    yield "too-long", os.path.join(folder, "x" * 300)


def databases(root, folder, data, plait):
    good = Place(folder, "good").path
    make_good(plait, good)
    for name, path in bad_places(folder, good):
        for command, words in {**WRITERS, **READERS}.items():
            parent = os.path.dirname(path)
            yield Case(f"database/{name}/{command}", [*words, "--db", path], (os.path.basename(path)[:40],), codes=(3,),
                       after=untouched(parent) if parent != folder and os.path.isdir(parent) and name != "fifo" else None)
    for command, words in WRITERS.items():
        bare = Place(folder, "bare-" + command, write(open(good, "rb").read()))
        execute(bare.path, "PRAGMA foreign_keys = OFF", "DROP TABLE prediction")
        yield Case(f"database/no-tables/{command}", [*words, "--db", bare.path], ("plait.db",), codes=(3,))
    for command, words in WRITERS.items():
        busy = Place(folder, "busy-" + command, write(open(good, "rb").read()))
        yield Case(f"database/locked/{command}", [*words, "--db", busy.path], ("plait.db",), codes=(3,), prepare=locked(busy.path))
    for command, words in READERS.items():
        absent = Place(folder, "absent-" + command)
        yield Case(f"database/absent/{command}", [*words, "--db", absent.path], ("plait.db",), codes=(3,), after=untouched(absent.folder))
    yield from mounted_cases(folder, good)
    for sql in ("", "   ", "select", "select 1; drop table plan", "delete from plan", "attach 'x' as y", "pragma user_version = 5",
                "select * from nowhere", "vacuum", "begin", "create table t(x)", "insert into plan default values", "select load_extension('x')",
                "select '" + "x" * 10, "select writefile('x', 'y')", "pragma journal_mode = off", "-- nothing", "reindex", "analyze",
                "with recursive t(x) as (select 1 union all select x from t) delete from plan"):
        yield Case(f"database/query/{sql[:40]}", ["query", sql, "--json", "--db", good], (), codes=(2,), after=untouched(os.path.dirname(good)))
    for which in ("9223372036854775807", "999999"):
        yield Case(f"database/show/{which}", ["show", which, "--json", "--db", good], (which,), codes=(2, 3))
