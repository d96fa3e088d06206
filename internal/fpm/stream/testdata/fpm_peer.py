#!/usr/bin/python3
"""A forward-pass-metrics publisher for the integration tests, on libzmq and msgpack.

One PUB socket per rank. Protocol with the test, one word per line:

  stdout "bound"  the sockets are bound; from now on a priming record (worker id 0) goes out every 20 ms, so that the
                  test can see on every rank that its subscription stands
  stdin  "go"     send the records that count; they carry --worker-id
  stdin  "again"  close the sockets, bind them anew, count from 0 and prime as above
  stdin  "end"    print the totals of what counted as JSON, one object per rank, and exit

The records follow from --seed. Of those that count, every --gap-every'th is preceded by a skipped number, and every
--malformed-every'th, --version-every'th and --value-every'th is spoiled.
"""
import argparse
import json
import random
import sys
import threading
import time

import msgpack
import zmq


class Rank:
    def __init__(self, args, number):
        self.args, self.number, self.random = args, number, random.Random(args.seed * 1000 + number)
        self.socket, self.seq, self.sent = None, 0, 0
        self.totals = dict.fromkeys(
            ("records", "heartbeats", "prefill", "decode", "mixed", "prefill_tokens", "prefill_kv_tokens",
             "decode_requests", "decode_kv_tokens", "lost", "gaps", "malformed", "unsupported_version", "invalid_value",
             "wall_milliseconds"), 0)

    def bind(self, context):
        if self.socket:
            self.socket.close(linger=2000)
        self.seq = 0
        self.socket = context.socket(getattr(zmq, self.args.socket_type))
        if self.args.heartbeat_ms:
            self.socket.setsockopt(zmq.HEARTBEAT_IVL, self.args.heartbeat_ms)
        address = self.args.address % {"port": self.args.port + self.number, "rank": self.number}
        deadline = time.monotonic() + 10
        while True:
            try:
                return self.socket.bind(address)
            except zmq.ZMQError as error:  # libzmq closes the old socket in its own time
                if error.errno != zmq.EADDRINUSE or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def record(self, worker_id):
        choice = self.random.choice(("idle", "prefill", "decode", "mixed"))
        prefills = self.random.randrange(1, 5) if choice in ("prefill", "mixed") else 0
        decodes = self.random.randrange(1, 65) if choice in ("decode", "mixed") else 0
        waiting = self.random.randrange(9) if choice != "idle" else 0
        milliseconds = self.random.randrange(1, 60) if choice != "idle" else 0
        record = {
            "version": 1, "worker_id": worker_id, "dp_rank": self.number, "counter_id": self.seq,
            "wall_time": milliseconds / 1000,
            "scheduled_requests": {
                "num_prefill_requests": prefills, "sum_prefill_tokens": 100 * prefills, "var_prefill_length": 2.25 * prefills,
                "sum_prefill_kv_tokens": 30 * prefills, "num_decode_requests": decodes,
                "sum_decode_kv_tokens": 500 * decodes, "var_decode_kv_tokens": 1.5 * decodes},
            "queued_requests": {
                "num_prefill_requests": waiting, "sum_prefill_tokens": 200 * waiting, "var_prefill_length": 0.0,
                "num_decode_requests": 0, "sum_decode_kv_tokens": 0, "var_decode_kv_tokens": 0.0}}
        return choice, milliseconds, record

    def send(self, payload):
        self.socket.send_multipart((b"", self.seq.to_bytes(8, "big"), payload), flags=zmq.NOBLOCK)
        self.seq += 1

    def prime(self):
        self.send(msgpack.packb(self.record("0")[2]))

    def publish(self):
        args, totals = self.args, self.totals
        self.sent += 1

        def due(every):
            return every and self.sent % every == 0

        if due(args.gap_every):
            skipped = self.random.randrange(1, 4)
            self.seq += skipped
            totals["lost"] += skipped
            totals["gaps"] += 1
        choice, milliseconds, record = self.record(args.worker_id)
        payload = None
        if due(args.malformed_every):
            totals["malformed"] += 1
            payload = msgpack.packb(record)[:-9]
        elif due(args.version_every):
            totals["unsupported_version"] += 1
            record["version"] = 3
        elif due(args.value_every):
            totals["invalid_value"] += 1
            record["wall_time"] = float("nan")
        else:
            scheduled = record["scheduled_requests"]
            totals["records"] += 1
            totals["heartbeats" if choice == "idle" else choice] += 1
            totals["wall_milliseconds"] += milliseconds
            totals["prefill_tokens"] += scheduled["sum_prefill_tokens"]
            totals["prefill_kv_tokens"] += scheduled["sum_prefill_kv_tokens"]
            totals["decode_requests"] += scheduled["num_decode_requests"]
            totals["decode_kv_tokens"] += scheduled["sum_decode_kv_tokens"]
        self.send(payload or msgpack.packb(record))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", default="tcp://127.0.0.1:%(port)d")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--worker-id", default="7587888736726549301")
    parser.add_argument("--rate", type=float, default=200, help="records per second and rank, 0: as fast as it goes")
    parser.add_argument("--records", type=int, default=100, help="per rank and go")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--socket-type", default="PUB")
    parser.add_argument("--heartbeat-ms", type=int, default=0, help="ZMTP pings to the subscriber")
    for what in ("gap", "malformed", "version", "value"):
        parser.add_argument("--%s-every" % what, type=int, default=0)
    args = parser.parse_args()

    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, 4096)
    ranks = [Rank(args, n) for n in range(args.ranks)]
    commands, arrived = [], threading.Event()

    def listen():
        for line in sys.stdin:
            commands.append(line.strip())
            arrived.set()
        commands.append("end")
        arrived.set()

    threading.Thread(target=listen, daemon=True).start()

    def bind():
        for rank in ranks:
            rank.bind(context)
        print("bound", flush=True)

    def go():
        begin = time.monotonic()
        for n in range(args.records):
            for rank in ranks:
                rank.publish()
            if args.rate:
                time.sleep(max(0.0, begin + (n + 1) / args.rate - time.monotonic()))
        print("sent", round(args.records / (time.monotonic() - begin), 1), flush=True)

    bind()
    priming = args.socket_type in ("PUB", "XPUB")
    while True:
        if not arrived.wait(0.02) and not commands:
            if priming:
                for rank in ranks:
                    rank.prime()
            continue
        arrived.clear()
        while commands:
            command = commands.pop(0)
            if command == "go":
                priming = False
                go()
            elif command == "again":
                bind()
                priming = True
            elif command == "end":
                print(json.dumps([rank.totals for rank in ranks]), flush=True)
                for rank in ranks:
                    rank.socket.close(linger=2000)
                context.term()
                return


if __name__ == "__main__":
    main()
