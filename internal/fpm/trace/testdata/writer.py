"""Writes a forward-pass trace in 20 gzip members, as an engine's writer would on a bad day, with Python's own gzip.

usage: writer.py DIRECTORY

One member is completed two seconds after its first half, one gets its last four bytes later. There is one turn over to
the next segment, one row that is broken, and one file that is no gzip file. Prints how many good rows there are.
"""

import gzip
import json
import os
import sys
import time

counter = 0


def row():
    global counter
    counter += 1
    fpm = {
        "queued_requests": {"sum_prefill_tokens": 7, "num_prefill_requests": 1, "num_decode_requests": 0, "sum_decode_kv_tokens": 0},
        "version": 1, "worker_id": "4192", "dp_rank": 0, "counter_id": counter, "wall_time": 0.01 + counter / 1e5,
        "scheduled_requests": {
            "num_prefill_requests": 0, "sum_prefill_tokens": 0, "sum_prefill_kv_tokens": 0,
            "num_decode_requests": 3, "sum_decode_kv_tokens": 1024,
        },
    }
    return json.dumps({"timestamp": counter * 10, "event": {
        "schema": "dynamo.fpm.trace.v1", "source": {"namespace": "default", "component": "backend", "producer_id": "4192"},
        "capture_mode": "full", "observed_at_unix_ms": time.time_ns() // 1_000_000, "fpm": fpm,
    }})


def member(rows):
    return gzip.compress(("\n".join(rows) + "\n").encode())


def main():
    directory = sys.argv[1]
    os.makedirs(directory, exist_ok=True)
    for number in range(20):
        segment = "000000" if number < 12 else "000001"
        rows = [row() for _ in range(10)]
        if number == 7:
            rows.insert(5, row()[:-3])
        data = member(rows)
        with open(f"{directory}/dynamo-fpm.4192.{segment}.jsonl.gz", "ab", buffering=0) as file:
            if number == 3:
                file.write(data[: len(data) // 2])
                time.sleep(2)
                file.write(data[len(data) // 2 :])
            elif number == 15:
                file.write(data[:-4])
                time.sleep(0.5)
                file.write(data[-4:])
            else:
                file.write(data)
        if number == 10:
            with open(f"{directory}/dynamo-fpm.5000.000000.jsonl.gz", "w", encoding="utf-8") as file:
                file.write(row() + "\n")
    print(20 * 10)


main()
