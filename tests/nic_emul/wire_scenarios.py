# SPDX-License-Identifier: Apache-2.0
"""Two hosts, each behind a `wirezip wire`, in one sandbox: what `test_wire.py` starts.

    host a: eth0 (TAP) - card a - wa ===== wb - card b - eth0 (TAP): host b

A scenario prints one JSON object. Sockets are made in the hosts' namespaces by this one process.
"""

import contextlib
import json
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from nic_emul.interfaces import PLAIN, VIRTIO_BYTES, RawPort
from nic_emul.lifetime import die_with_parent
from nic_emul.netns import add_namespace, add_veth, entered, inside
from nic_emul.wire import Pump
from nic_emul.wire_frame import ETHERTYPE
from tests.nic_emul import frames

ADDRESSES = {"a": "10.0.0.1", "b": "10.0.0.2"}
PORT = 5000
TIMEOUT_S = 60
MARKED = ETHERTYPE.to_bytes(2, "big")


@contextlib.contextmanager
def cards(folder: Path, *, mtu: int = 1500) -> Iterator[Callable[[], dict[str, Any]]]:
    """Two cards at the ends of a wire, `wa` in namespace `na` and `wb` in `nb`, which exist.

    Yields a function that stops them and gives their counters.
    """
    processes = {}
    for end in ADDRESSES:
        add_namespace(f"h{end}")
        processes[end] = subprocess.Popen(
            [sys.executable, "-m", "training.cli", "wire", "--host", "eth0", "--wire", f"w{end}",
             "--host-namespace", f"h{end}", "--wire-namespace", f"n{end}",
             "--address", f"{ADDRESSES[end]}/24", "--json", str(folder / f"{end}.json")],
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )  # fmt: skip

    def counters() -> dict[str, Any]:
        wait_until_quiet(processes.values(), folder)
        for process in processes.values():
            process.terminate()
        assert [process.wait(TIMEOUT_S) for process in processes.values()] == [0, 0]
        return {end: json.loads((folder / f"{end}.json").read_text()) for end in processes}

    try:
        for end, process in processes.items():
            assert process.stdout is not None
            assert process.stdout.readline() == f"eth0 <-> w{end}, MTU {mtu}\n"
        # On demand, while they run: the file appears.
        processes["a"].send_signal(signal.SIGUSR1)
        wait_for((folder / "a.json").exists)
        yield counters
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


def wait_until_quiet(processes: "Collection[subprocess.Popen[str]]", folder: Path) -> None:
    """Return once the cards count no more: what one has sent, the other has received."""
    last: dict[Path, str] = {}

    def quiet() -> bool:
        nonlocal last
        for process in processes:
            process.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
        before, last = last, {path: path.read_text() for path in folder.glob("*.json")}
        return len(last) == len(processes) and before == last

    wait_for(quiet)


def wait_for(condition: Callable[[], bool]) -> None:
    """Return once `condition` holds."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)


def both_ways(there: bytes, back: bytes) -> bool:
    """Send `there` from host a to b over TCP and `back` at the same time; whether both arrived."""
    with entered("hb"):
        server = socket.create_server((ADDRESSES["b"], PORT))
    with entered("ha"):
        client = socket.socket()
    client.settimeout(TIMEOUT_S)
    server.settimeout(TIMEOUT_S)
    client.connect((ADDRESSES["b"], PORT))
    peer, _ = server.accept()
    peer.settimeout(TIMEOUT_S)
    got: dict[str, bytes] = {}

    def receive(name: str, sock: socket.socket) -> None:
        pieces = []
        while piece := sock.recv(1 << 20):
            pieces.append(piece)
        got[name] = b"".join(pieces)

    def send(sock: socket.socket, data: bytes) -> None:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)

    work = [(receive, "there", peer), (receive, "back", client), (send, client, there),
            (send, peer, back)]  # fmt: skip
    threads = [threading.Thread(target=call, args=args) for call, *args in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for sock in (client, peer, server):
        sock.close()
    return got == {"there": there, "back": back}


def datagrams() -> bool:
    """Send UDP datagrams, one of which is cut into fragments; whether they arrived."""
    with entered("hb"):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with entered("ha"):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.settimeout(TIMEOUT_S)
    receiver.bind((ADDRESSES["b"], PORT))
    sent = [frames.bf16(1000), b"short", frames.bf16(20_000)]
    for data in sent:
        sender.sendto(data, (ADDRESSES["b"], PORT))
    arrived = [receiver.recv(1 << 16) for _ in sent]
    sender.close()
    receiver.close()
    return arrived == sent


def odd_frames(mtu: int) -> dict[str, bool]:
    """Put frames of all kinds on host a's interface; whether host b's has each, byte for byte."""
    tagged = frames.ADDRESSES + b"\x81\x00\x00\x05"
    sent = {
        "tagged": tagged + b"\x08\x00" + bytes(range(200)),
        "full and tagged": tagged + b"\x08\x00" + frames.bf16(mtu - 2),
        "full, not IP": frames.ADDRESSES + b"\x12\x34" + frames.bf16(mtu),
        "header alone": frames.ADDRESSES + b"\x12\x35",
        "of our type": frames.ADDRESSES + MARKED + bytes(range(100)),
        "full segment": frames.tcp(frames.bf16(mtu - 52)),
        "wrong checksums": frames.udp(frames.bf16(700)),
    }
    here, there = RawPort("eth0", namespace="ha"), RawPort("eth0", namespace="hb")
    arrived: set[bytes] = set()

    def complete() -> bool:
        while (packet := there.read()) is not None:
            arrived.add(packet[VIRTIO_BYTES:])
        return arrived >= set(sent.values())

    for frame in sent.values():
        assert here.write(PLAIN + frame)
    with contextlib.suppress(AssertionError):
        wait_for(complete)
    here.close()
    there.close()
    return {name: frame in arrived for name, frame in sent.items()}


def plain(mtu: int) -> dict[str, Any]:
    """Everything arrives, at `mtu`."""
    for name in ("na", "nb"):
        add_namespace(name)
    add_veth(("na", "wa"), ("nb", "wb"), mtu=mtu)
    with tempfile.TemporaryDirectory() as folder, cards(Path(folder), mtu=mtu) as counters:
        noise = b"".join(struct.pack("<Q", i * 0x9E3779B97F4A7C15 % 2**64) for i in range(20_000))
        # An odd offset: elements straddle segments, at both phases.
        bits_equal = both_ways(b"x" + frames.bf16(2_000_000), noise)
        return {
            "tcp": bits_equal,
            "udp": datagrams(),
            "frames": odd_frames(mtu),
            "counters": counters(),
        }


class Spoiler:
    """Passes frames between two ports, and damages and drops some of those that are marked."""

    def __init__(self, target: RawPort) -> None:
        self.damaged = 0
        self.dropped = 0
        self._target = target
        self._marked = 0

    def handle(self, packet: bytes) -> None:
        if packet[VIRTIO_BYTES + 12 : VIRTIO_BYTES + 14] == MARKED:
            self._marked += 1
            if self._marked % 90 == 0:
                self.dropped += 1
                return
            if self._marked % 60 == 0:
                self.damaged += 1
                spoilt = bytearray(packet)
                spoilt[VIRTIO_BYTES + 15 + self._marked % (len(packet) - VIRTIO_BYTES - 15)] ^= 0x10
                packet = bytes(spoilt)
        assert self._target.write(packet)


def spoilt() -> dict[str, Any]:
    """Frames are lost and damaged on the way; TCP recovers."""
    for name in ("na", "nb", "nm"):
        add_namespace(name)
    add_veth(("na", "wa"), ("nm", "ma"))
    add_veth(("nb", "wb"), ("nm", "mb"))
    near, far = RawPort("ma", namespace="nm"), RawPort("mb", namespace="nm")
    there, back = Spoiler(far), Spoiler(near)
    pumps = [Pump(near, there.handle, "ma"), Pump(far, back.handle, "mb")]
    with tempfile.TemporaryDirectory() as folder, cards(Path(folder)) as counters:
        bits_equal = both_ways(frames.bf16(1_000_000), frames.bf16(500_000))
        found = counters()
    for pump in pumps:
        pump.stop()
    return {
        "tcp": bits_equal,
        "there": [there.damaged, there.dropped],
        "back": [back.damaged, back.dropped],
        "counters": found,
    }


def gloo() -> dict[str, Any]:
    """Two ranks of gloo, one behind each card: what they compute."""
    for name in ("na", "nb"):
        add_namespace(name)
    add_veth(("na", "wa"), ("nb", "wb"), mtu=9000)
    with tempfile.TemporaryDirectory() as folder, cards(Path(folder), mtu=9000) as counters:
        digests = run_gloo(
            ADDRESSES["a"], [lambda command: inside("ha", command), lambda c: inside("hb", c)]
        )
        return {"digests": digests, "counters": counters()}


def run_gloo(master: str, places: list[Callable[[list[str]], list[str]]]) -> list[str]:
    """The digests that the ranks of `gloo_program.py` print, one rank in each of `places`."""
    program = Path(__file__).with_name("gloo_program.py")
    ranks = [
        subprocess.Popen(
            place([sys.executable, str(program), str(rank), str(len(places)), master]),
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )
        for rank, place in enumerate(places)
    ]
    return [rank.communicate(timeout=3 * TIMEOUT_S)[0].strip() for rank in ranks]


def main() -> None:
    """Run the scenario that the arguments name."""
    name, *arguments = sys.argv[1:]
    if name == "plain":
        found = plain(int(arguments[0]))
    else:
        found = {"spoilt": spoilt, "gloo": gloo}[name]()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
