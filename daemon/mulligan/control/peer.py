"""Who is at the other end of a Unix socket, and whether it is still there, as the kernel knows it."""

from __future__ import annotations

import select
import socket
import struct
import sys

_LOCAL_PEERCRED_LEVEL, _LOCAL_PEERCRED = 0, 1  # macOS: SOL_LOCAL, LOCAL_PEERCRED
_XUCRED = struct.Struct("=IIh2x16I")


def peer_uid(connection: socket.socket) -> int:
    """The user id of the peer. Raises OSError if the kernel does not tell."""
    if sys.platform == "darwin":
        data = connection.getsockopt(_LOCAL_PEERCRED_LEVEL, _LOCAL_PEERCRED, _XUCRED.size)
        return int(_XUCRED.unpack(data)[1])
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", data)[1])


def has_hung_up(connection: socket.socket) -> bool:
    """Whether the peer has closed its end; one that only writes no more (`shutdown`) may still read."""
    poll = select.poll()
    poll.register(connection, 0)
    return any(found & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, found in poll.poll(0))
