"""Reads forward-pass traces with Python's own gzip and json, and prints what is in them as JSON.

usage: read_trace.py FILE...

Prints one object: each file's name, and for each of its rows the worker id, rank and counter. Fails when a file is not
whole, or a row is not what Dynamo's FPM reference says.
"""

import gzip
import json
import sys

SCHEDULED = {
    "num_prefill_requests", "sum_prefill_tokens", "var_prefill_length", "sum_prefill_kv_tokens",
    "num_decode_requests", "sum_decode_kv_tokens", "var_decode_kv_tokens",
}
QUEUED = SCHEDULED - {"sum_prefill_kv_tokens"}


def check(row):
    assert list(row) == ["timestamp", "event"], list(row)
    event = row["event"]
    assert list(event) == ["schema", "source", "capture_mode", "observed_at_unix_ms", "fpm"], list(event)
    assert event["schema"] == "dynamo.fpm.trace.v1"
    assert list(event["source"]) == ["namespace", "component", "producer_id"]
    assert event["capture_mode"] in ("sampled", "full")
    assert isinstance(row["timestamp"], int) and isinstance(event["observed_at_unix_ms"], int)
    fpm = event["fpm"]
    assert set(fpm) == {
        "version", "worker_id", "dp_rank", "counter_id", "wall_time", "scheduled_requests", "queued_requests",
    }, set(fpm)
    assert fpm["version"] == 1
    assert set(fpm["scheduled_requests"]) == SCHEDULED and set(fpm["queued_requests"]) == QUEUED
    for part in (fpm, fpm["scheduled_requests"], fpm["queued_requests"]):
        for key, value in part.items():
            if key.startswith("var_") or key == "wall_time":
                assert isinstance(value, float) and value >= 0, (key, value)
            elif key not in ("worker_id", "scheduled_requests", "queued_requests"):
                assert isinstance(value, int) and value >= 0, (key, value)
    return [fpm["worker_id"], fpm["dp_rank"], fpm["counter_id"]]


def main():
    files = {}
    for path in sys.argv[1:]:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            files[path] = [check(json.loads(line)) for line in lines]
    json.dump(files, sys.stdout)


main()
