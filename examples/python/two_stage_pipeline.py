"""A two-stage asyncio pipeline that tells omni_exporter what it does.

    python3 two_stage_pipeline.py http://127.0.0.1:10380 [requests]

A "thinker" writes text, a "talker" speaks it in chunks to a listener. There is no
model behind it: each stage sleeps a little instead. What matters is where the
events are sent.
"""

import asyncio
import itertools
import random
import sys
import time

from omni_events import OmniEvents

THINKER, TALKER = "0", "1"
SAMPLE_RATE = 24000
TALKER_REPLICAS = 2


class Pipeline:
    def __init__(self, events):
        self.events = events
        self.slots = asyncio.Semaphore(4)  # requests that run at a time
        self.replicas = itertools.cycle(str(r) for r in range(TALKER_REPLICAS))

    async def handle(self, request_id):
        arrived = time.monotonic()
        self.events.request_started(request_id)
        try:
            async with self.slots:
                self.events.request_scheduled(request_id)
                text = await self.think()
                replica = next(self.replicas)
                await self.transfer(text, replica)
                await self.talk(request_id, replica, text, arrived)
        except BaseException:  # a disconnect cancels, and that is an end as well
            self.events.request_failed(request_id)
            raise
        self.events.request_finished(request_id, e2e_s=time.monotonic() - arrived)

    async def think(self):
        await asyncio.sleep(random.uniform(0.01, 0.03))
        return "x" * random.randint(1000, 50000)

    async def transfer(self, text, replica):
        """The hop from thinker to talker, each side timed where it happens."""
        begin = time.monotonic()
        payload = text.encode()
        sent = time.monotonic()
        self.events.transfer_tx(THINKER, "0", TALKER, replica, size_bytes=len(payload), tx_ms=1e3 * (sent - begin))
        await asyncio.sleep(0.001)
        receiving = time.monotonic()
        payload.decode()
        self.events.transfer_rx(THINKER, "0", TALKER, replica, rx_ms=1e3 * (time.monotonic() - receiving),
                                in_flight_ms=1e3 * (receiving - sent))

    async def talk(self, request_id, replica, text, arrived):
        begin = time.monotonic()
        arrivals, sizes = [], []
        for _ in range(3):
            await asyncio.sleep(random.uniform(0.005, 0.02))
            chunk = bytes(2 * 2400)  # 100 ms of 16 bit mono
            arrivals.append(time.monotonic() - arrived)
            sizes.append(len(chunk))
            if len(sizes) == 1:
                self.events.audio_first_packet(request_id, TALKER, replica, ttfp_s=arrivals[0])
        self.events.audio_stream_finished(request_id, TALKER, replica, arrivals, sizes, sample_rate=SAMPLE_RATE)
        self.events.audio_finished(request_id, TALKER, replica, audio_frames=sum(sizes) // 2, sample_rate=SAMPLE_RATE,
                                   stage_gen_time_s=time.monotonic() - begin)


async def main(url, requests):
    with OmniEvents(url, model_name="two-stage") as events:
        pipeline = Pipeline(events)
        tasks = [asyncio.create_task(pipeline.handle("request-%d-%d" % (time.time_ns(), i))) for i in range(requests)]
        if len(tasks) > 1:
            tasks[-1].cancel()  # a listener who left before it began
        await asyncio.gather(*tasks, return_exceptions=True)
    print("sent=%d rejected=%d dropped=%d" % (events.sent, events.rejected, events.dropped))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: two_stage_pipeline.py URL [REQUESTS]")
    asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20))
