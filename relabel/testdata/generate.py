#!/usr/bin/python3
"""Writes the input pages of this directory with the real Python client, so that their label order, float
spelling and `_created` families are its own:

    apt-get install python3-prometheus-client
    relabel/testdata/generate.py

Values follow from a fixed seed and times from a fixed clock; a run changes no byte unless the client's own
exposition does, but for the order of multiprocess.prom, which is that of the file system. rust-frontend.om is written by hand: the client cannot produce that page.
"""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
TIME = 1764444000.25
MODEL = "Qwen/Qwen3-Omni-30B-A3B-Instruct"
LATENCY = [0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0]
TOKENS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 1000000]


def engine_families(registry, engines, families, rnd):
    from prometheus_client import Counter, Gauge, Histogram
    labels = ["model_name", "engine"]
    for name in families["gauge"]:
        gauge = Gauge("vllm:" + name, 'Gauge of %s; "1" means all: of it.' % name, labels, registry=registry)
        for e in engines:
            gauge.labels(MODEL, e).set(round(rnd.random() * 40, 4))
    for name in families["counter"]:
        counter = Counter("vllm:" + name, "Number of %s." % name, labels, registry=registry)
        for e in engines:
            counter.labels(MODEL, e).inc(rnd.randrange(10 ** 9))
    for name, buckets in families["histogram"]:
        histogram = Histogram("vllm:" + name, "Histogram of %s." % name, labels, buckets=buckets, registry=registry)
        for e in engines:
            for _ in range(20):
                histogram.labels(MODEL, e).observe(round(rnd.random() * buckets[-3], 3))


def odd_families(registry, engines):
    from prometheus_client import Gauge
    info = Gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig",
                 ["engine", "_block_size_resolved", "cache_dtype", "sliding_window"], registry=registry)
    for e in engines:
        info.labels(e, "True", "auto", "None").set(1)
    Gauge("vllm:lora_requests_info", "Running stats on lora requests.",
          ["max_lora", "waiting_lora_adapters", "running_lora_adapters"], registry=registry).labels(
              "4", "", 'sql-adapter,chat "v2"\\beta').set(TIME)
    Gauge("process_resident_memory_bytes", "Resident memory size in bytes.", registry=registry).set(2.894350336e10)


def omni_families(registry, prefix):
    from prometheus_client import Counter, Gauge, Histogram
    Gauge(prefix + "num_requests_running", "Requests across stages.", ["model_name"], registry=registry).labels(MODEL).set(3)
    frames = Counter(prefix + "audio_frames", "Frames.", ["model_name", "stage", "replica"], registry=registry)
    ttfp = Histogram(prefix + "audio_ttfp_s", "Time to first packet.", ["model_name", "stage", "replica"],
                     buckets=[0.05, 0.5, 1, 60], registry=registry)
    for replica in ("0", "1"):
        frames.labels(MODEL, "2", replica).inc(24000)
        ttfp.labels(MODEL, "2", replica).observe(0.25)


SMALL = {"gauge": ["num_requests_running", "kv_cache_usage_perc"], "counter": ["prompt_tokens"],
         "histogram": [("iteration_tokens_total", TOKENS[:5]), ("e2e_request_latency_seconds", LATENCY[:5])]}
OLD = {"gauge": ["gpu_cache_usage_perc", "cpu_cache_usage_perc"],
       "counter": ["gpu_prefix_cache_queries", "gpu_prefix_cache_hits", "prefix_cache_hits"],
       "histogram": [("time_per_output_token_seconds", LATENCY[:4]), ("time_in_queue_requests", LATENCY[:4])]}
FULL = {"gauge": ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"],
        "counter": ["prefix_cache_queries", "prefix_cache_hits", "num_preemptions", "prompt_tokens", "generation_tokens"],
        "histogram": [("iteration_tokens_total", TOKENS), ("request_prompt_tokens", TOKENS)] + [(n, LATENCY) for n in (
            "time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds",
            "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds")]}


def single(name, families, engines, omni=None, openmetrics=True):
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import generate_latest
    from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
    registry = CollectorRegistry()
    engine_families(registry, engines, families, random.Random(name))
    odd_families(registry, engines)
    if omni:
        omni_families(registry, omni)
    (HERE / (name + ".prom")).write_bytes(generate_latest(registry))
    if openmetrics:
        (HERE / (name + ".om")).write_bytes(generate_openmetrics(registry))


def multiprocess(name):
    """Two server processes that write to one directory, read by a third."""
    directory = tempfile.mkdtemp()
    env = dict(os.environ, PROMETHEUS_MULTIPROC_DIR=directory)
    for engine in ("0", "1"):
        subprocess.run([sys.executable, __file__, "worker", engine], env=env, check=True)
    page = subprocess.run([sys.executable, __file__, "collect"], env=env, check=True, stdout=subprocess.PIPE).stdout
    (HERE / (name + ".prom")).write_bytes(page)
    shutil.rmtree(directory)


def worker(engine):
    from prometheus_client import CollectorRegistry, Histogram
    registry = CollectorRegistry()
    families = dict(SMALL, gauge=[])
    engine_families(registry, [engine], families, random.Random(engine))


def collect():
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    sys.stdout.buffer.write(generate_latest(registry))


if __name__ == "__main__":
    time.time = lambda: TIME  # of every `_created`
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2])
    elif sys.argv[1:] == ["collect"]:
        collect()
    else:
        single("server", SMALL, ["0", "1", "2"], omni="vllm:omni_")
        single("current-omni-prefix", dict(SMALL, histogram=[]), ["0"], omni="vllm_omni:")
        single("old-engine", OLD, ["0"])
        single("five-engines", FULL, [str(e) for e in range(5)], omni="vllm_omni:", openmetrics=False)
        multiprocess("multiprocess")
