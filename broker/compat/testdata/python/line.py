"""How the programs of this folder talk with the test that runs them: JSON, a
line a record or a step. Bytes are base64, null ones null."""

import base64
import collections
import json
import sys
import time
import traceback

Record = collections.namedtuple("Record", "key value time headers")


def _bytes(text):
    return None if text is None else base64.b64decode(text)


def _text(b):
    return None if b is None else base64.b64encode(b).decode()


def _put(v):
    print(json.dumps(v, separators=(",", ":")), flush=True)


def step(name, got):
    """Tells the test what was seen."""
    _put({"step": name, "got": got})


def main(write, read, suite):
    """Carries out the command line:

    write ADDR PREFIX CODEC…   records from standard input to topic PREFIX+CODEC, each codec
    read ADDR COUNT TOPIC…     the records of the topics to standard output
    suite ADDR [ARG…]          the scenario
    """
    verb, addr, *rest = sys.argv[1:]
    try:
        if verb == "write":
            records = [_record(json.loads(l)) for l in sys.stdin if l.strip()]
            for codec in rest[1:]:
                write(addr, rest[0] + codec, codec, records)
        elif verb == "read":
            for topic, records in read(addr, rest[1:], int(rest[0])).items():
                for r in records:
                    headers = [{"name": n, "value": _text(v)} for n, v in r.headers or []]
                    _put({"topic": topic, "key": _text(r.key), "value": _text(r.value), "time": r.time, "headers": headers})
        elif verb == "suite":
            suite(addr, *rest)
        else:
            raise ValueError(f"no verb {verb}")
    except Exception:
        traceback.print_exc()
        sys.exit(1)


def _record(j):
    headers = [(h["name"], _bytes(h["value"])) for h in j["headers"] or []]
    return Record(_bytes(j["key"]), _bytes(j["value"]), j["time"], headers)


# The time of the first numbered record: it is past no retention.
BASE = int(time.time()) * 1000 - 2 * 3600 * 1000


def numbered(i):
    """A record of a number: a second apart, its header says it too."""
    n = str(i).encode()
    return Record(n, b"value " + n, BASE + i * 1000, [("n", n)])


def numbered_from(first, count):
    return [numbered(first + i) for i in range(count)]


def in_order(got):
    """Counts records up to the first that is not the numbered one."""
    for i, r in enumerate(got):
        w = numbered(i)
        if (r.key, r.value, r.time, [tuple(h) for h in r.headers]) != (w.key, w.value, w.time, w.headers):
            return i
    return len(got)


def until(what, condition, limit=30):
    """Waits for a condition that another process brings about."""
    end = time.monotonic() + limit
    while True:
        got = condition()
        if got:
            return got
        if time.monotonic() > end:
            raise TimeoutError(f"not within {limit} s: {what}")
        time.sleep(0.02)
