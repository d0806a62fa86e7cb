#!/usr/bin/python3
"""Messages through a region, in Python.

On the host:   chan_ring.py --path /dev/shm/ivshmem-sb1 send one two three
In the guest:  chan_ring.py --find serve --count 3          (sends each message back)
"""

import argparse
import sys

import chan


def open_region(options):
    if options.find:
        return chan.Region.find()
    return chan.Region.open(options.path)


def serve(channel, count):
    for _ in range(count):
        channel.send(channel.receive(), timeout=10)


def send(channel, messages):
    for message in messages:
        channel.send_more(message.encode(), timeout=10)
    channel.flush(timeout=10)
    for _ in messages:
        print(channel.receive(timeout=10).decode())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--path", help="the region's file, on the host")
    where.add_argument("--find", action="store_true", help="the only ivshmem device, in a guest")
    parser.add_argument("--side", choices=["auto", "host", "guest"], default="auto")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("serve").add_argument("--count", type=int, default=1)
    verbs.add_parser("send").add_argument("messages", nargs="+")
    options = parser.parse_args()
    try:
        with open_region(options) as region:
            side = {"auto": chan.Side.AUTO, "host": chan.Side.HOST, "guest": chan.Side.GUEST}[options.side]
            with region.channel(side) as channel:
                channel.connect(timeout=30)
                if options.verb == "serve":
                    serve(channel, options.count)
                else:
                    send(channel, options.messages)
    except chan.ChanError as problem:
        print(f"chan_ring.py: {problem.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
