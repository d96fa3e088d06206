#!/usr/bin/python3
"""Serve a page shaped like vLLM's, written by the Python client library that vLLM itself uses.

The families come from FAMILIES below; every value follows from --seed and the number of ticks, and stands still
between ticks, so that two readings of the page can be compared.

  /metrics        the page, counted; text or OpenMetrics as the request accepts
  /page           the same page, not counted
  /scrapes        how often /metrics was asked for
  /tick?n=3       move all values on
  /release        let go of the readers that --hold keeps waiting

The address is printed on the first line of standard output once the socket listens.
"""

import argparse
import random
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, exposition
from prometheus_client.openmetrics import exposition as openmetrics

LATENCY = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
FIRST_TOKEN = (0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 80, 640, 2560)
TOKENS = (1, 2, 5, 10, 20, 50, 100, 1000, 10000, 100000, 1000000)
STEP = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
AUDIO = (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60)
BYTES = (1024, 65536, 1048576, 67108864)

ENGINE = ("model_name", "engine")
STAGE = ("model_name", "stage", "replica")
EDGE = ("model_name", "from_stage", "from_replica", "to_stage", "to_replica")

# kind, name without prefix, help, labels beside those of the place, their values, buckets or the most a tick adds
FAMILIES = (
    ("gauge", "num_requests_running", "Requests in the running batch.", {}, 64),
    ("gauge", "num_requests_waiting", "Requests in the queue.", {}, 16),
    ("gauge", "kv_cache_usage_perc", 'Share of the KV cache in use; "1" is all of it.', {}, 1),
    ("gauge", "engine_sleep_state", "Sleep state.", {"sleep_state": ("awake", "weights_offloaded")}, 2),
    ("counter", "prompt_tokens", "Prompt tokens.", {}, 5000),
    ("counter", "generation_tokens", "Tokens generated.", {}, 5000),
    ("counter", "prefix_cache_queries", "Tokens looked up.", {}, 5000),
    ("counter", "prefix_cache_hits", "Tokens found.", {}, 5000),
    ("counter", "num_preemptions", "Preemptions.", {}, 3),
    ("counter", "request_success", "Requests by how they ended.", {"finished_reason": ("stop", "length", "abort")}, 9),
    ("histogram", "iteration_tokens_total", "Tokens of one step.", {}, STEP),
    ("histogram", "time_to_first_token_seconds", "Time to the first token.", {}, FIRST_TOKEN),
    ("histogram", "e2e_request_latency_seconds", "Time of a request.", {}, LATENCY),
    ("histogram", "request_queue_time_seconds", "Time in the queue.", {}, LATENCY),
    ("histogram", "request_prompt_tokens", "Length of a prompt.", {}, TOKENS),
)

OMNI_FAMILIES = (
    ("gauge", "num_requests_running", "Requests in the pipeline.", ("model_name",), 64),
    ("counter", "requests_success", "Requests through the pipeline.", ("model_name",), 9),
    ("histogram", "e2e_request_latency_s", "Time through the pipeline.", ("model_name",), AUDIO),
    ("histogram", "audio_ttfp_s", "Time to the first audio packet.", STAGE, AUDIO),
    ("counter", "audio_frames", "Audio frames.", STAGE, 24000),
    ("histogram", "transfer_size_bytes", "Size of a transfer.", EDGE, BYTES),
    ("histogram", "transfer_tx_s", "Time to send.", EDGE, AUDIO),
)


class Page:
    """One server's registry, and what moves its values."""

    def __init__(self, options):
        self.registry = CollectorRegistry()
        self.lock = threading.Lock()
        self.random = random.Random(options.seed)
        self.children = []  # (kind, child, most or largest bucket)
        self.known = {}  # family name -> metric
        for engine in range(options.first_engine, options.first_engine + options.engines):
            self.place(FAMILIES, "vllm:", {"model_name": options.model, "engine": str(engine)})
        if options.omni:
            places = (("0", "0"), ("1", "0"), ("1", "1"), ("2", "0"), ("2", "1"))
            edges = [a + b for a in places for b in places if int(b[0]) == int(a[0]) + 1]
            for kind, name, text, labels, size in OMNI_FAMILIES:
                values = {STAGE: places, EDGE: edges}.get(labels, [()])
                for value in values:
                    place = dict(zip(labels, (options.model,) + tuple(value)))
                    self.place([(kind, name, text, {}, size)], options.omni, place)
        Gauge(
            "vllm:lora_requests_info",
            "Adapters in use.",
            ("max_lora", "running_lora_adapters"),
            registry=self.registry,
        ).labels("4", 'sql,chat "v2"\\beta').set(1764444000.25)
        Counter("http_requests", "Requests by handler.", ("handler",), registry=self.registry).labels("/v1/audio").inc()
        Gauge("process_resident_memory_bytes", "Resident memory.", registry=self.registry).set(2.894350336e10)
        self.tick(3)

    def place(self, families, prefix, place):
        """Add the series of one engine, replica or edge."""
        known = self.known
        for kind, name, text, extra, size in families:
            labels = tuple(place) + tuple(extra)
            metric = known.get(prefix + name)
            if metric is None:
                if kind == "histogram":
                    metric = Histogram(prefix + name, text, labels, buckets=size, registry=self.registry)
                else:
                    metric = {"gauge": Gauge, "counter": Counter}[kind](prefix + name, text, labels, registry=self.registry)
                known[prefix + name] = metric
            for value in next(iter(extra.values()), (None,)):
                values = tuple(place.values()) + (() if value is None else (value,))
                self.children.append((kind, metric.labels(*values), size))

    def tick(self, times):
        with self.lock:
            for _ in range(times):
                for kind, child, size in self.children:
                    if kind == "histogram":
                        # Beyond the last bucket too, now and then.
                        child.observe(self.random.random() ** 4 * size[-1] * 1.1)
                    elif kind == "counter":
                        child.inc(self.random.randrange(size))
                    else:
                        child.set(round(self.random.random() * size, 6) if size == 1 else self.random.randrange(size))

    def render(self, as_openmetrics):
        module = openmetrics if as_openmetrics else exposition
        with self.lock:
            return module.generate_latest(self.registry), module.CONTENT_TYPE_LATEST


class Server(ThreadingHTTPServer):
    """The page behind HTTP, with the ways to misbehave that the options name."""

    request_queue_size = 256
    daemon_threads = True

    def __init__(self, options):
        super().__init__(("127.0.0.1", options.port), Handler)
        self.options, self.page = options, Page(options)
        self.scrapes, self.count = 0, threading.Lock()
        self.released = threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, content_type="text/plain; charset=utf-8"):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/tick":
            self.server.page.tick(int(parse_qs(url.query).get("n", ["1"])[0]))
            return self.answer(200, b"")
        if url.path == "/release":
            self.server.released.set()
            return self.answer(200, b"")
        if url.path == "/scrapes":
            return self.answer(200, b"%d" % self.server.scrapes)
        if url.path not in ("/metrics", "/page"):
            return self.answer(404, b"not here\n")
        if url.path == "/metrics":
            with self.server.count:
                self.server.scrapes += 1
            if self.server.options.hold:
                self.server.released.wait()
        as_openmetrics = self.server.options.openmetrics or "application/openmetrics-text" in self.headers.get("Accept", "")
        body, content_type = self.server.page.render(as_openmetrics)
        if url.path == "/metrics" and self.server.options.fault:
            return self.misbehave(self.server.options.fault, body, content_type)
        return self.answer(200, body, content_type)

    def misbehave(self, fault, body, content_type):
        if fault == "status":
            return self.answer(500, body, content_type)
        if fault == "html":
            return self.answer(200, b"<html>sign in</html>\n", "text/html")
        if fault == "empty":
            return self.answer(200, b"", content_type)
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        if fault == "truncate":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault == "truncate":
            self.wfile.write(body[: len(body) // 2])
        elif fault == "endless":
            try:
                while True:
                    self.wfile.write(body)
            except OSError:
                return


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--model", default="Qwen/Qwen3-Omni-30B-A3B-Instruct")
    parser.add_argument("--engines", type=int, default=1)
    parser.add_argument("--first-engine", type=int, default=0)
    parser.add_argument("--omni", nargs="?", const="vllm:omni_", help="serve omni families too, under this prefix")
    parser.add_argument("--openmetrics", action="store_true", help="serve OpenMetrics whatever is accepted")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hold", action="store_true", help="/metrics waits for /release")
    parser.add_argument("--fault", choices=("status", "html", "empty", "truncate", "endless"))
    server = Server(parser.parse_args())
    print("127.0.0.1:%d" % server.server_port, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
