"""Who answers on the leader's address: run in network namespaces by the tests of the address keeper.

serve NAME ADDRESS...   answers every datagram to one of the addresses with NAME, whether or not
                        the address is on this machine already
ask ADDRESS             asks every millisecond; prints each answer with the time since boot in ms
"""

import selectors
import socket
import sys
import time

PORT = 7419
FREEBIND = {socket.AF_INET: (socket.IPPROTO_IP, 15), socket.AF_INET6: (socket.IPPROTO_IPV6, 78)}


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def serve(name, addresses):
    waiting = selectors.DefaultSelector()
    for address in addresses:
        there = socket.socket(family(address), socket.SOCK_DGRAM)
        there.setsockopt(*FREEBIND[family(address)], 1)
        there.bind((address, PORT))
        waiting.register(there, selectors.EVENT_READ)
    print("serving", flush=True)
    while True:
        for key, _ in waiting.select():
            _, asker = key.fileobj.recvfrom(64)
            try:
                key.fileobj.sendto(name.encode(), asker)
            except OSError:
                pass  # The address went between question and answer.


def ask(address):
    here = socket.socket(family(address), socket.SOCK_DGRAM)
    here.settimeout(0.001)
    while True:
        try:
            here.sendto(b"who", (address, PORT))
            name = here.recv(64).decode()
        except OSError:
            continue  # Nobody, or not yet.
        at = time.clock_gettime(time.CLOCK_BOOTTIME) * 1000
        print(f"{at:.1f} {name}", flush=True)
        time.sleep(0.001)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3:])
    else:
        ask(sys.argv[2])
