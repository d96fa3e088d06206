#!/usr/bin/python3
"""Hold the exporter's page against the pages of its upstreams, with the parsers of Prometheus's Python client.

  compare.py EXPORTER_PAGE --upstream PAGE 0=0/0,1=1/0,2=1/1 [--upstream ...]

Each page is a file; one that ends in `# EOF` is read as OpenMetrics. With every upstream goes its map from engine to
stage/replica; `*` is the place of series that have neither engine nor place, which keep their labels without it. The exporter's page must hold every vllm series of the upstreams with its engine mapped, its value
spelled as it was, its family's type and help as they were, each once (the first upstream wins), and nothing else
but families of the exporter's own. Differences go to standard output, and make the exit status 1.
"""

import argparse
import math
import sys
from collections import Counter

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

OMNI = "vllm:omni_"
OMNI_SPELLINGS = ("vllm_omni:", OMNI)
OWN = ("omni_exporter_",)


class Page:
    """What one page says: its series with values as spelled, and its families with type and help."""

    def __init__(self, path):
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
        parse = parse_openmetrics if text.endswith("# EOF\n") else parse_text
        parsed = list(parse(text))
        self.families = [(f.name, f.type, f.documentation) for f in parsed]
        samples = [s for f in parsed for s in f.samples]
        spelled = [value_token(line) for line in text.split("\n") if line and not line.startswith("#")]
        if len(samples) != len(spelled):
            raise SystemExit("%s: %d lines, but the parser saw %d samples" % (path, len(spelled), len(samples)))
        self.samples = []
        for sample, token in zip(samples, spelled):
            if float(token) != sample.value and not (math.isnan(float(token)) and math.isnan(sample.value)):
                # The parser regroups families that are not contiguous: then order no longer tells the spelling.
                raise SystemExit("%s: %s reads %r beside %r: a family is split" % (path, sample.name, sample.value, token))
            self.samples.append((sample.name, dict(sample.labels), token))


def value_token(line):
    """The value of a sample line as spelled. Neither page has timestamps or exemplars."""
    rest = line[line.rindex("}") + 1 :] if "}" in line else line.partition(" ")[2]
    return rest.strip()


def engine_map(text):
    """ "0=0/0,1=1/0" -> {"0": ("0", "0"), "1": ("1", "0")} """
    pairs = (entry.split("=") for entry in text.split(","))
    return {engine: tuple(place.split("/")) for engine, place in pairs}


def normal_name(name):
    for spelling in OMNI_SPELLINGS:
        if name.startswith(spelling):
            return OMNI + name[len(spelling) :]
    return name


def expected_samples(page, engines):
    for name, labels, value in page.samples:
        if not name.startswith(("vllm:", "vllm_omni:")) or name.endswith("_created"):
            continue
        labels = dict(labels)
        placed = "stage" in labels or "replica" in labels
        place = engines.get(labels["engine"] if "engine" in labels else "*")
        if place is not None and not placed:
            labels.pop("engine", None)
            labels["stage"], labels["replica"] = place
        yield normal_name(name), tuple(sorted(labels.items())), value


def expected_families(page):
    for name, kind, text in page.families:
        if name.startswith(("vllm:", "vllm_omni:")) and not name.endswith("_created"):
            yield normal_name(name), kind, text


def differences(expected, seen):
    expected, seen = Counter(expected), Counter(seen)
    for item, times in sorted((expected - seen).items()):
        yield "missing", item, times
    for item, times in sorted((seen - expected).items()):
        yield "too many", item, times


def first_of_each(items, key):
    """The items without those whose key was there before."""
    seen = {}
    for item in items:
        seen.setdefault(key(item), item)
    return list(seen.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exporter")
    parser.add_argument("--upstream", nargs=2, action="append", required=True, metavar=("PAGE", "MAP"))
    options = parser.parse_args()
    exporter = Page(options.exporter)
    upstreams = [(Page(path), engine_map(places)) for path, places in options.upstream]

    samples = [sample for page, engines in upstreams for sample in expected_samples(page, engines)]
    families = [family for page, _ in upstreams for family in expected_families(page)]
    wanted = first_of_each(samples, key=lambda sample: sample[:2])
    found = list(differences(
        wanted,
        ((n, tuple(sorted(labels.items())), v) for n, labels, v in exporter.samples if not n.startswith(OWN)),
    ))
    found += differences(
        first_of_each(families, key=lambda family: family[0]),
        (family for family in exporter.families if not family[0].startswith(OWN)),
    )
    for what, item, times in found[:50]:
        print("%s (%d): %r" % (what, times, item))
    if len(found) > 50:
        print("... and %d more" % (len(found) - 50))
    print("%d series compared, %d differences" % (len(wanted), len(found)))
    # Comparing nothing proves nothing.
    return 1 if found or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
