"""Subscribes to a forward-pass publisher with libzmq and prints each message's sequence number and payload in hex.

usage: subscriber.py ENDPOINT COUNT
"""

import sys

import zmq


def main():
    socket = zmq.Context.instance().socket(zmq.SUB)
    socket.setsockopt(zmq.RCVTIMEO, 30_000)
    socket.setsockopt(zmq.HEARTBEAT_IVL, 200)
    socket.connect(sys.argv[1])
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    for _ in range(int(sys.argv[2])):
        topic, sequence, payload = socket.recv_multipart()
        assert topic == b"" and len(sequence) == 8, (topic, sequence)
        print(int.from_bytes(sequence, "big"), payload.hex(), flush=True)


main()
