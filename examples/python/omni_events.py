"""Send pipeline events to omni_exporter. One file, standard library only.

    events = OmniEvents("http://127.0.0.1:10380", model_name="my-model")
    events.request_started("r1")
    events.request_scheduled("r1")
    events.request_finished("r1", e2e_s=2.41)
    events.close()

Every method queues an event and returns at once: it does no I/O, does not wait
and does not raise. A daemon thread posts what is queued in batches. When the
queue is full, the exporter is away or it refuses an event, the event is gone and
counted: see `dropped`, `rejected` and `sent`.
"""

import gzip
import http.client
import json
import logging
import threading
import urllib.parse
from collections import deque

_log = logging.getLogger("omni_events")


class OmniEvents:
    """A queue of events and the thread that empties it.

    model_name, pipeline: put into every event that has none.
    max_queue: events held while the exporter is away; later ones are dropped.
    max_batch: events per request.
    interval_s: longest time an event waits for others to share its request.
    timeout_s: for connecting and for the answer.
    compress: send gzip.
    """

    def __init__(self, url, model_name=None, pipeline=None, max_queue=10000,
                 max_batch=500, interval_s=0.5, timeout_s=5.0, compress=True):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("url must be http://host:port or https://host:port, not %r" % url)
        self._connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port = parts.hostname, parts.port
        self._path = parts.path.rstrip("/") + "/api/v1/events"
        self._common = {k: v for k, v in (("model_name", model_name), ("pipeline", pipeline)) if v is not None}
        self._max_queue, self._max_batch = max_queue, max_batch
        self._interval_s, self._timeout_s, self._compress = interval_s, timeout_s, compress

        self._queue = deque()
        self._condition = threading.Condition()
        self._closing = False
        self.sent = 0      # events the exporter accepted
        self.rejected = 0  # events the exporter refused
        self.dropped = 0   # events that never reached it, or maybe not
        self._thread = threading.Thread(target=self._run, name="omni_events", daemon=True)
        self._thread.start()

    # The events, see docs/events.md. Further fields may be given by name.

    def request_started(self, request_id, **fields):
        self.send("request_started", request_id=request_id, **fields)

    def request_scheduled(self, request_id, **fields):
        self.send("request_scheduled", request_id=request_id, **fields)

    def request_finished(self, request_id, e2e_s, finished_reason="stop", **fields):
        self.send("request_finished", request_id=request_id, e2e_s=e2e_s, finished_reason=finished_reason, **fields)

    def request_failed(self, request_id, **fields):
        self.send("request_failed", request_id=request_id, **fields)

    def audio_first_packet(self, request_id, stage, replica, ttfp_s, **fields):
        self.send("audio_first_packet", request_id=request_id, stage=stage, replica=replica, ttfp_s=ttfp_s, **fields)

    def audio_finished(self, request_id, stage, replica, audio_frames, sample_rate=24000, stage_gen_time_s=None, **fields):
        self.send("audio_finished", request_id=request_id, stage=stage, replica=replica,
                  audio_frames=audio_frames, sample_rate=sample_rate, stage_gen_time_s=stage_gen_time_s, **fields)

    def audio_stream_finished(self, request_id, stage, replica, arrivals_s, chunk_bytes, sample_rate=24000, **fields):
        # Copied, for the caller's lists may be used again before they are sent.
        self.send("audio_stream_finished", request_id=request_id, stage=stage, replica=replica, sample_rate=sample_rate,
                  arrivals_s=list(arrivals_s), chunk_bytes=list(chunk_bytes), **fields)

    def transfer_tx(self, from_stage, from_replica, to_stage, to_replica, size_bytes, tx_ms, **fields):
        self.send("transfer_tx", from_stage=from_stage, from_replica=from_replica, to_stage=to_stage,
                  to_replica=to_replica, size_bytes=size_bytes, tx_ms=tx_ms, **fields)

    def transfer_rx(self, from_stage, from_replica, to_stage, to_replica, rx_ms, in_flight_ms=None, **fields):
        self.send("transfer_rx", from_stage=from_stage, from_replica=from_replica, to_stage=to_stage,
                  to_replica=to_replica, rx_ms=rx_ms, in_flight_ms=in_flight_ms, **fields)

    def send(self, event_type, **fields):
        """Queue one event of any type."""
        with self._condition:
            if self._closing or len(self._queue) >= self._max_queue:
                self.dropped += 1
                return
            self._queue.append((event_type, fields))
            if len(self._queue) == 1 or len(self._queue) == self._max_batch:
                self._condition.notify()

    def close(self, timeout_s=5.0):
        """Send what is queued, for at most about timeout_s, and stop."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        self._thread.join(timeout_s)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    # The thread.

    def _run(self):
        backoff_s = 0.25
        while True:
            batch = self._take()
            if batch is None:
                return
            body, n = self._encode(batch)
            while n and not self._post(body, n):
                # Nothing of it counted, so it may be sent again. The queue fills meanwhile.
                with self._condition:
                    if self._condition.wait_for(lambda: self._closing, backoff_s):
                        self.dropped += n + len(self._queue)
                        self._queue.clear()
                        return
                backoff_s = min(2 * backoff_s, 10.0)
            backoff_s = 0.25

    def _take(self):
        """Wait for a batch; None when closed and empty."""
        with self._condition:
            self._condition.wait_for(lambda: self._closing or self._queue)
            self._condition.wait_for(lambda: self._closing or len(self._queue) >= self._max_batch, self._interval_s)
            if not self._queue:
                return None
            return [self._queue.popleft() for _ in range(min(len(self._queue), self._max_batch))]

    def _encode(self, batch):
        lines = []
        for event_type, fields in batch:
            event = {"type": event_type, **self._common, **fields}
            for key in ("stage", "replica", "from_stage", "from_replica", "to_stage", "to_replica", "request_id"):
                if event.get(key) is not None:
                    event[key] = str(event[key])
            try:
                lines.append(json.dumps(event, allow_nan=False, separators=(",", ":")))
            except Exception as e:  # NaN, or an object that is not JSON
                self._count(rejected=1)
                _log.debug("omni_events: %s cannot be sent: %s", event_type, e)
        body = "".join(line + "\n" for line in lines).encode()
        return (gzip.compress(body, 1) if self._compress else body), len(lines)

    def _post(self, body, n):
        """Post one body and count it; False if it certainly did not arrive.

        A body that may have arrived is not sent again, or it could count twice.
        """
        headers = {"Content-Type": "application/x-ndjson"}
        if self._compress:
            headers["Content-Encoding"] = "gzip"
        connection = self._connect(self._host, self._port, timeout=self._timeout_s)
        try:
            try:
                connection.connect()
            except Exception as e:
                _log.debug("omni_events: exporter is away: %s", e)
                return False
            connection.request("POST", self._path, body, headers)
            response = connection.getresponse()
            answer = response.read(1 << 20)
            if response.status == 503:
                return False
            if response.status == 202:
                self._count(sent=n)
            elif response.status == 400 and response.getheader("Omni-Rejected-Lines"):
                bad = min(int(response.getheader("Omni-Rejected-Lines")), n)
                self._count(sent=n - bad, rejected=bad)
                _log.debug("omni_events: %d events rejected: %.500s", bad, answer)
            else:
                self._count(dropped=n)
                _log.debug("omni_events: %d events dropped: status %d: %.200s", n, response.status, answer)
        except Exception as e:
            self._count(dropped=n)
            _log.debug("omni_events: %d events dropped: %s", n, e)
        finally:
            connection.close()
        return True

    def _count(self, sent=0, rejected=0, dropped=0):
        with self._condition:
            self.sent += sent
            self.rejected += rejected
            self.dropped += dropped
