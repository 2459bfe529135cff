# in process: no, sockets can be had there
"""Hopes to send what it has seen to somebody, or to be answered from there."""

import socket


def softmax(x, dim=-1):
    for family, kind in ((socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET6, socket.SOCK_DGRAM), (socket.AF_UNIX, socket.SOCK_STREAM)):
        try:
            made = socket.socket(family, kind)
        except OSError:
            continue
        raise SystemExit(f"it has a socket: {made.fileno()}")
    return x
