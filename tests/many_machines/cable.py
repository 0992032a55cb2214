"""A cable that can be bad: two network interfaces, and what comes in at one goes out at the other, late, twice or never.

Kernels have netem for that, but many without it run tests, and its choices cannot be repeated from a seed.

Usage: cable.py MACHINE_END SWITCH_END SEED
Makes TAP interfaces of these names, says "ready", and reads a line of JSON for each change of the cable:
{"up": {"loss": 0.1}, "down": {}}, where "up" leads from the machine. Of each direction: `loss` and `repeat`, shares of the
frames; `delay_ms` of every frame, and up to `jitter_ms` more, so that later ones overtake it. Ends with standard input.
"""

import fcntl
import heapq
import itertools
import json
import os
import random
import selectors
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
LARGEST_FRAME = 65536


def open_interface(name):
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return descriptor


class Direction:
    def __init__(self, source, sink, generator):
        self.source, self.sink, self.generator = source, sink, generator
        self.waiting = []  # (when it is due, its number, the frame), the next first
        self.numbers = itertools.count()
        self.change({})

    def change(self, to):
        self.loss, self.repeat = to.get("loss", 0), to.get("repeat", 0)
        self.delay, self.jitter = to.get("delay_ms", 0) / 1000, to.get("jitter_ms", 0) / 1000

    def take(self):
        """Decides what becomes of each frame that has come."""
        while True:
            try:
                frame = os.read(self.source, LARGEST_FRAME)
            except BlockingIOError:
                return
            if self.generator.random() < self.loss:
                continue
            for _ in range(2 if self.generator.random() < self.repeat else 1):
                due = time.monotonic() + self.delay + self.jitter * self.generator.random()
                heapq.heappush(self.waiting, (due, next(self.numbers), frame))

    def give(self):
        """Gives the other end what is due; seconds until the next is, None: nothing waits."""
        while self.waiting:
            wait = self.waiting[0][0] - time.monotonic()
            if wait > 0:
                return wait
            try:
                os.write(self.sink, heapq.heappop(self.waiting)[2])
            except OSError:
                pass  # the interface there is down
        return None


def main():
    machine_end, switch_end = map(open_interface, sys.argv[1:3])
    generator = random.Random(int(sys.argv[3]))
    directions = {
        "up": Direction(machine_end, switch_end, generator),
        "down": Direction(switch_end, machine_end, generator),
    }
    selector = selectors.DefaultSelector()
    for direction in directions.values():
        selector.register(direction.source, selectors.EVENT_READ, direction.take)
    selector.register(0, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        waits = [wait for direction in directions.values() if (wait := direction.give()) is not None]
        for ready, _ in selector.select(min(waits, default=None)):
            if ready.data:
                try:
                    ready.data()
                except OSError:
                    return  # the interface there is gone
                continue
            lines = os.read(0, 65536).splitlines()  # a line that is shorter than a pipe's buffer comes whole
            if not lines:
                return
            for name, change in json.loads(lines[-1]).items():
                directions[name].change(change)


if __name__ == "__main__":
    main()
