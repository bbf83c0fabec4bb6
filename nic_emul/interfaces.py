# SPDX-License-Identifier: Apache-2.0
"""Network interfaces of Linux that frames are read from and written to: TAP devices, raw sockets.

Both prepend each frame with a `struct virtio_net_hdr` (`linux/virtio_net.h`), 10 bytes that are
zero for a plain frame. A frame that a kernel has left unfinished (its checksum is partial, or it is
many segments in one) says so there; passed on with its header, the next kernel finishes it.
"""

import contextlib
import fcntl
import ipaddress
import os
import socket
import struct
from typing import Protocol

from nic_emul.errors import ConfigError
from nic_emul.netns import entered

VIRTIO_BYTES = 10
PLAIN = bytes(VIRTIO_BYTES)
# Of what a kernel hands over at most: a frame of many segments.
READ_BYTES = VIRTIO_BYTES + 14 + 4 + (1 << 16)

_DATA_VALID = 2
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x400454CA, 0x0002, 0x1000, 0x4000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_SIOCGIFMTU, _SIOCSIFMTU = 0x8921, 0x8922
_SIOCSIFADDR, _SIOCSIFNETMASK = 0x8916, 0x891C
_ETH_P_ALL = 3
_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, _PACKET_MR_PROMISC = 263, 1, 1
_PACKET_AUXDATA, _PACKET_VNET_HDR, _PACKET_IGNORE_OUTGOING = 8, 15, 23
# `struct tpacket_auxdata`: status, two lengths, two offsets, VLAN tag and its EtherType.
_AUXILIARY = struct.Struct("=IIIHHHH")
_AUXILIARY_SPACE = socket.CMSG_SPACE(_AUXILIARY.size)
_VLAN_VALID = 1 << 4
_VIRTIO = struct.Struct("=BBHHHH")
_NEEDS_CHECKSUM = 1
_ADDRESSES_BYTES = 12
_TAG_BYTES = 4
_NAME_BYTES_MAX = 15
_BUFFER_BYTES = 4 << 20


class Port(Protocol):
    """One side of a card: frames with their `virtio_net_hdr` in front."""

    def fileno(self) -> int:
        """What to poll."""
        ...

    def read(self) -> bytes | None:
        """The next frame; None if there is none yet."""
        ...

    def write(self, frame: bytes) -> bool:
        """Hand `frame` on; False if the kernel has no room or refuses it."""
        ...


def is_finished(virtio: bytes) -> bool:
    """Whether the frame behind this header is as it goes over a wire."""
    return virtio == PLAIN or (virtio[0] == _DATA_VALID and not any(virtio[1:]))


class Tap:
    """A TAP device called `name` in a network namespace: what the host sends and receives.

    It is made, or taken if it exists, and set up with `mtu`; made here, it goes when it is closed.
    As it offers no offloads, the host finishes every frame before it sends it.
    """

    def __init__(
        self, name: str, *, mtu: int, namespace: str | None = None, address: str | None = None
    ) -> None:
        """Open it.

        Args:
            address: IPv4 address with prefix length to give it, such as 10.0.0.1/24.

        Raises:
            ConfigError: it cannot be had.
        """
        parsed = None if address is None else parse_address(address)
        with entered(namespace), contextlib.ExitStack() as undo:
            try:
                self._fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
                undo.callback(os.close, self._fd)
                flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR
                fcntl.ioctl(self._fd, _TUNSETIFF, _request(name, struct.pack("H", flags)))
                _configure(name, mtu, parsed)
            except OSError as error:
                raise ConfigError(
                    f"host: expected a TAP device {name!r} to be had; found {_reason(error)}"
                ) from error
            undo.pop_all()

    def fileno(self) -> int:
        return self._fd

    def read(self) -> bytes | None:
        try:
            return os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return None

    def write(self, frame: bytes) -> bool:
        try:
            os.write(self._fd, frame)
        except OSError:
            # Down, or not to the kernel's liking; the frame is lost, as on any wire.
            return False
        return True

    def close(self) -> None:
        os.close(self._fd)


class RawPort:
    """A raw socket on interface `name` of a network namespace: the wire."""

    def __init__(self, name: str, *, namespace: str | None = None) -> None:
        """Open it.

        Raises:
            ConfigError: there is no such interface, or it cannot be used.
        """
        with entered(namespace):
            try:
                self._sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            except PermissionError as error:
                raise ConfigError(
                    "wire: expected the right to open raw sockets (root, or CAP_NET_RAW)"
                ) from error
            try:
                self.mtu = self._prepare(name)
            except OSError as error:
                self._sock.close()
                raise ConfigError(
                    f"wire: expected an Ethernet interface {name!r}; found {_reason(error)}"
                ) from error

    def _prepare(self, name: str) -> int:
        sock = self._sock
        index = socket.if_nametoindex(name)
        _set_flags(sock, name, _IFF_UP)
        sock.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
        sock.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        sock.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        membership = struct.pack("iHH8s", index, _PACKET_MR_PROMISC, 0, b"")
        sock.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, membership)
        # Bound last: from here on frames arrive.
        sock.bind((name, _ETH_P_ALL))
        sock.setblocking(False)
        return interface_mtu(sock, name)

    def fileno(self) -> int:
        return self._sock.fileno()

    def read(self) -> bytes | None:
        try:
            packet, ancillary, _, _ = self._sock.recvmsg(READ_BYTES, _AUXILIARY_SPACE)
        except BlockingIOError:
            return None
        for _, kind, data in ancillary:
            if kind == _PACKET_AUXDATA:
                return _with_tag(packet, data)
        return packet

    def write(self, frame: bytes) -> bool:
        try:
            self._sock.send(frame)
        except OSError:
            return False
        return True

    def close(self) -> None:
        self._sock.close()


def _reason(error: OSError) -> str:
    # Python itself raises some without a number.
    return error.strerror or str(error)


def _with_tag(packet: bytes, auxiliary: bytes) -> bytes:
    """`packet` with its VLAN tag, which the kernel takes out of what a raw socket receives."""
    status, *_, tag, kind = _AUXILIARY.unpack(auxiliary)
    if not status & _VLAN_VALID:
        return packet
    flags, segmentation, head, size, start, offset = _VIRTIO.unpack_from(packet)
    if flags & _NEEDS_CHECKSUM:
        head, start = head + _TAG_BYTES, start + _TAG_BYTES
    virtio = _VIRTIO.pack(flags, segmentation, head, size, start, offset)
    at = VIRTIO_BYTES + _ADDRESSES_BYTES
    tagged = (virtio, packet[VIRTIO_BYTES:at], struct.pack(">HH", kind, tag), packet[at:])
    return b"".join(tagged)


def interface_mtu(sock: socket.socket, name: str) -> int:
    """The MTU of the interface `name` in the namespace that `sock` was made in."""
    reply = fcntl.ioctl(sock, _SIOCGIFMTU, _request(name, b""))
    return int(struct.unpack_from("i", reply, 16)[0])


def _configure(name: str, mtu: int, address: tuple[bytes, bytes] | None) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SIOCSIFMTU, _request(name, struct.pack("i", mtu)))
        if address is not None:
            for request, value in zip((_SIOCSIFADDR, _SIOCSIFNETMASK), address, strict=True):
                packed = struct.pack("HH4s", socket.AF_INET, 0, value)
                fcntl.ioctl(sock, request, _request(name, packed))
        _set_flags(sock, name, _IFF_UP)


def parse_address(address: str) -> tuple[bytes, bytes]:
    """Address and netmask of `address`, such as 10.0.0.1/24.

    Raises:
        ConfigError: it is none.
    """
    try:
        interface = ipaddress.IPv4Interface(address)
    except ValueError:
        raise ConfigError(f"address: expected one like 10.0.0.1/24; found {address!r}") from None
    return interface.ip.packed, interface.netmask.packed


def _set_flags(sock: socket.socket, name: str, flags: int) -> None:
    reply = fcntl.ioctl(sock, _SIOCGIFFLAGS, _request(name, b""))
    found = struct.unpack_from("H", reply, 16)[0]
    fcntl.ioctl(sock, _SIOCSIFFLAGS, _request(name, struct.pack("H", found | flags)))


def _request(name: str, value: bytes) -> bytes:
    """A `struct ifreq`."""
    encoded = name.encode()
    if not 1 <= len(encoded) <= _NAME_BYTES_MAX:
        raise ConfigError(f"interface: expected a name of 1 to 15 bytes; found {name!r}")
    return struct.pack("16s24s", encoded, value)
