# SPDX-License-Identifier: Apache-2.0
"""The connections of one process group: addresses, links, and what happens when one breaks.

Every rank listens on one port. When a group is made, each rank connects to the next one, so that
the members form a closed ring of connections from the start: a rank that dies is noticed by its
neighbour's monitor, the neighbour fails and is noticed in turn, and so on around the ring, however
idle the ranks are. All other links open on first use. A rank that leaves in peace says so to those
that have a link to it, and they pass it on around the ring, so that who waits for a link from it,
which will never open, knows at once. (Once two have left, the ring is open, and a third may be
waited for until the timeout.)
"""

import contextlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from torch.distributed import Store

from nic_emul.capture import Tap
from nic_emul.errors import CollectiveMismatch, GroupClosed, PeerFailed, PeerLost, PeerTimeout
from nic_emul.hello import SECRET_BYTES, Channel, Hello, greet
from nic_emul.links import Note, RecvLink, SendLink
from nic_emul.monitor import Monitor
from nic_emul.nic import Nic
from nic_emul.sockets import Connection, close_abruptly, set_blocking
from nic_emul.switch.request import STATION
from nic_emul.topology import Grid
from nic_emul.trace import LinkTrace
from nic_emul.via_switch import GRACE_S, SWITCH, SwitchPath

_CLOSE_S = 10.0
# What the slowest engine may take to compile itself on a loaded machine, with ranks in a queue.
_WARM_UP_S = 600.0
_HERE = "wirezip/here/{}"

Key = tuple[int, Channel]


def announce(store: Store, rank: int) -> None:
    """Tell the other ranks of a group that `rank` is here, though maybe not ready for long."""
    store.set(_HERE.format(rank), "")


class Transport:
    """Opens, keeps and closes the links of one rank of a group.

    One condition guards both tables of links and the state of closing. Nothing waits for a peer
    while it holds it: connections are made outside, at most one at a time for each link.

    Attributes:
        nic: the NIC behind every link.
        group: name of the group.
        rank, size: this rank in the group, and the group's size. Peers are numbered in the group;
            messages for people name them by their rank in the job.
        timeout_s: seconds without progress after which a peer counts as hung.
        switch_path: the way through the switch once the group is open, None without a switch.
    """

    def __init__(
        self,
        nic: Nic,
        *,
        rank: int,
        job_ranks: Sequence[int],
        timeout_s: float,
        group: str = "",
    ) -> None:
        self.nic = nic
        self.group = group
        self.rank = rank
        self.size = len(job_ranks)
        self.timeout_s = timeout_s
        self._job_ranks = job_ranks
        self._changed = threading.Condition()
        self._connecting: dict[Key, socket.socket] = {}
        self._send_links: dict[Key, SendLink] = {}
        self._recv_links: dict[Key, RecvLink] = {}
        self._departed: set[int] = set()
        self._closing = False
        self._abort_reason = ""
        self._secret = b""
        self._addresses: list[tuple[str, int]] = []
        self.switch_path: SwitchPath | None = None
        self._monitor: Monitor | None = None
        # Point-to-point traffic plugs in here (`point_to_point.py`).
        self.on_opened: Callable[[RecvLink], None] = _ignore
        self.on_clear_to_send: Callable[[SendLink, int], None] = _ignore
        self.on_departed: Callable[[int], None] = _ignore
        self.on_stopped: Callable[[], None] = _ignore
        self.on_tick: Callable[[], None] = _ignore

    def open(self, store: Store) -> None:
        """Meet the other ranks through `store` and connect to the next one.

        Raises:
            PeerTimeout: a rank did not come.
            PeerLost: a rank came and went.
        """
        self.nic.failure.register(self, self._stop)
        try:
            self.nic.failure.check()
            if self.size == 1:
                return
            _wait(store, [_HERE.format(peer) for peer in range(self.size)], self.timeout_s)
            self._secret = _share_secret(store, self.rank, self.timeout_s + _WARM_UP_S)
            self._monitor = Monitor(self, host=self.nic.host, secret=self._secret)
            self._addresses = _share_address(
                store, self.rank, self.size, self._monitor.address, self.timeout_s + _WARM_UP_S
            )
            self._monitor.start()
            if self.nic.uplink is not None:
                self.switch_path = SwitchPath(
                    self.nic,
                    self.nic.uplink,
                    rank=self.rank,
                    job_ranks=self._job_ranks,
                    group_secret=self._secret,
                    timeout_s=self.timeout_s,
                )
            self.send_link((self.rank + 1) % self.size, Channel.COLLECTIVE)
            if self.switch_path is not None and self.switch_path.sums:
                # Now, so that the switch knows all ranks and can say who is late.
                self.send_link(SWITCH, Channel.COLLECTIVE)
                self.recv_link(SWITCH, Channel.COLLECTIVE)
        except BaseException:
            self.disconnect(f"{self.name_of(self.rank)} left while the group was being made")
            self.release()
            raise

    def send_link(self, peer: int, channel: Channel) -> SendLink:
        """The link to `peer`, opened if it is not open yet.

        Raises:
            PeerLost, PeerTimeout, AuthenticationError: it cannot be opened.
        """
        key = (peer, channel)
        link = self._send_links.get(key)
        if link is not None:
            return link
        with self._changed:
            while key in self._connecting:
                self._changed.wait()
            if key in self._send_links:
                return self._send_links[key]
        with self._opening(key) as sock:
            self._connect(sock, peer, channel)
            return self._add(key, sock)

    def recv_link(self, peer: int, channel: Channel) -> RecvLink:
        """The link from `peer`, which `peer` opens, unless it is the switch.

        Raises:
            PeerTimeout: it did not in time.
            PeerLost: it has left.
            JobFailed, GroupClosed: this process has failed, or left the group, meanwhile.
        """
        if peer == SWITCH and (peer, channel) not in self._recv_links:
            self._open_down(channel)
        deadline = time.monotonic() + self.timeout_s
        with self._changed:
            while (link := self._recv_links.get((peer, channel))) is None:
                self._check_open()
                if peer in self._departed:
                    raise PeerLost(f"{self.name_of(peer)} has left the group")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise PeerTimeout(
                        f"{self.name_of(peer)} did not connect in {self.timeout_s:g} s"
                    )
                self._changed.wait(left)
            return link

    def name_of(self, peer: int) -> str:
        """What to call `peer` in messages: its rank in the job."""
        if peer == SWITCH:
            return "the switch"
        return f"rank {self._job_ranks[peer]}"

    def grid(self) -> Grid | None:
        """The group's ranks by node, where collectives go in two levels; None where in a ring."""
        if self.nic.config.algorithm != "hierarchical":
            return None
        return self.nic.topology.grid(self._job_ranks)

    def shares_node(self, peer: int) -> bool:
        """Whether `peer` is on the node of this rank."""
        if peer == SWITCH:
            return False
        return self.nic.topology.share_node(self._job_ranks[self.rank], self._job_ranks[peer])

    def fail(self, error: BaseException) -> BaseException:
        """Report an error of this group, unless the group is being closed anyway.

        Returns:
            What callers should see: the first error of the process; if there is none, that the
            group is closed.
        """
        if not self._closing:
            if self.nic.uplink is not None:
                error = self.nic.uplink.explain(error)
            self.nic.failure.report(self.name_of(self.rank), error)
        return self.nic.failure.error or GroupClosed("the group has been shut down")

    def disconnect(self, reason: str = "") -> None:
        """Send what is queued, then say goodbye or, with a `reason`, abort.

        Threads that wait for a link come back at once; join them, then `release`.
        """
        self._begin_closing()
        if self._monitor is not None:
            self._monitor.stop()
        # From here on no link is added: connecting threads find the group closed, and the monitor
        # accepts nobody.
        deadline = time.monotonic() + _CLOSE_S
        for send_link in self._send_links.values():
            send_link.close(deadline)
        for recv_link in self._recv_links.values():
            recv_link.leave(Note.ABORT if reason else Note.GOODBYE, reason)
        self.on_stopped()

    def release(self) -> None:
        """Close the sockets, once no thread uses them any more."""
        for recv_link in self._recv_links.values():
            recv_link.close()
        self.nic.failure.unregister(self)

    def abandon(self) -> None:
        """Close this process' copies of the sockets and nothing else; for a forked child."""
        for send_link in self._send_links.values():
            send_link.connection.abandon()
        for recv_link in self._recv_links.values():
            recv_link.connection.abandon()
        if self._monitor is not None:
            self._monitor.abandon()
        if self.nic.uplink is not None:
            self.nic.uplink.close()

    # Events of the monitor, in its thread.

    def accepted(self, hello: Hello, sock: socket.socket) -> None:
        key = (hello.source, hello.channel)
        config = self.nic.config
        for name, ours, theirs in (
            ("WIREZIP_MTU", config.mtu, hello.mtu),
            ("WIREZIP_RANKS_PER_NODE", config.ranks_per_node, hello.ranks_per_node),
            ("WIREZIP_ALGORITHM", config.algorithm, hello.algorithm),
            ("WIREZIP_ELEMENT", config.element, hello.element),
            ("WIREZIP_FAULTS", config.faults is not None, hello.faults),
        ):
            if ours != theirs:
                sock.close()
                raise CollectiveMismatch(
                    f"this rank has {name} {ours}; {self.name_of(hello.source)} has {theirs}"
                )
        if hello.target != self.rank or hello.source >= self.size or key in self._recv_links:
            # A hello that was overheard and said again: no reason to end the job.
            sock.close()
            return
        link = RecvLink(
            self.nic,
            self._connection(sock, hello.source, f"{hello.channel.name} from {hello.source}"),
            peer=hello.source,
            tap=self._tap(hello.source, self.rank, hello.channel),
            trace=self._trace(hello.source, self.rank, hello.channel),
            intra=self.shares_node(hello.source),
        )
        with self._changed:
            self._recv_links[key] = link
            self._changed.notify_all()
            reason = self._abort_reason
        if reason:
            link.leave(Note.ABORT, reason)
        if hello.channel is Channel.POINT_TO_POINT:
            self.on_opened(link)

    def noted(self, link: SendLink, note: Note, value: int, text: str) -> None:
        if note is Note.ABORT:
            self.fail(PeerFailed(self.name_of(link.peer), text))
        elif note is Note.GOODBYE:
            self._depart(link.peer)
        elif note is Note.LEFT:
            self._depart(value)
        else:
            self.on_clear_to_send(link, value)

    def _depart(self, peer: int) -> None:
        """Note that `peer` has left in peace, and tell the rank before this one in the ring."""
        with self._changed:
            if peer in self._departed:
                return
            self._departed.add(peer)
            self._changed.notify_all()
            before = self._recv_links.get(((self.rank - 1) % self.size, Channel.COLLECTIVE))
        if before is not None and before.peer not in self._departed:
            # It may be leaving itself, as all do at the end.
            with contextlib.suppress(PeerLost, PeerTimeout):
                before.notify(Note.LEFT, peer)
        self.on_departed(peer)

    def disconnected(self, link: SendLink) -> None:
        if link.peer not in self._departed:
            lost = PeerLost(f"{self.name_of(link.peer)} died or was killed")
            self.fail(link.connection.error or lost)

    def ticked(self) -> None:
        self.on_tick()

    def failed(self, error: BaseException) -> None:
        self.fail(error)

    def _connect(self, sock: socket.socket, peer: int, channel: Channel) -> None:
        """Connect `sock` to `peer` and prove to each other who we are."""
        if self.switch_path is not None and peer == SWITCH:
            self.switch_path.connect_up(sock)
            return
        if self.switch_path is not None and self.switch_path.leads_to(peer):
            self.switch_path.connect(sock, peer, self._addresses[peer])
        else:
            self._connect_directly(sock, peer)
        config = self.nic.config
        hello = Hello(
            self.rank,
            peer,
            channel,
            config.mtu,
            config.ranks_per_node,
            config.algorithm,
            config.element,
            config.faults is not None,
        )
        greet(sock, hello, self._secret, self.name_of(peer))

    def _connect_directly(self, sock: socket.socket, peer: int) -> None:
        sock.settimeout(self.timeout_s)
        try:
            sock.connect(self._addresses[peer])
        except OSError as error:
            raise PeerLost(f"{self.name_of(peer)} cannot be reached: {error}") from error
        set_blocking(sock, self.timeout_s)

    def _open_down(self, channel: Channel) -> None:
        """Open the link that sums come on; only the group's thread has use for it."""
        key = (SWITCH, channel)
        with self._opening(key) as sock:
            if self.switch_path is not None:
                self.switch_path.connect_down(sock)
            link = RecvLink(
                self.nic,
                Connection(sock, peer=self.name_of(SWITCH), timeout_s=self.timeout_s + GRACE_S),
                peer=SWITCH,
                tap=self._tap(SWITCH, self.rank, channel),
                trace=self._trace(SWITCH, self.rank, channel),
            )
            with self._changed:
                self._check_open()
                self._recv_links[key] = link

    @contextlib.contextmanager
    def _opening(self, key: Key) -> Iterator[socket.socket]:
        """A socket to be connected for the link `key`; closing the group ends what waits for it."""
        with self._changed:
            self._check_open()
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._connecting[key] = sock
        try:
            yield sock
        except BaseException:
            sock.close()
            raise
        finally:
            with self._changed:
                self._connecting.pop(key, None)
                self._changed.notify_all()

    def _add(self, key: Key, sock: socket.socket) -> SendLink:
        with self._changed:
            self._check_open()
            link = SendLink(
                self.nic,
                self._connection(sock, key[0], f"{key[1].name} to {key[0]}"),
                peer=key[0],
                fail=self.fail,
                tap=self._tap(self.rank, key[0], key[1]),
                trace=self._trace(self.rank, key[0], key[1]),
                intra=self.shares_node(key[0]),
            )
            self._send_links[key] = link
            del self._connecting[key]
            if self._monitor is not None:
                self._monitor.watch(link)
            return link

    def _connection(self, sock: socket.socket, peer: int, end: str) -> Connection:
        """The connection of `sock`, of which this rank has the `end`."""
        return self.nic.connection(
            sock,
            peer=self.name_of(peer),
            timeout_s=self.timeout_s,
            name=f"{self.group}/{self.rank} {end}",
            intra=self.shares_node(peer),
        )

    def _tap(self, source: int, target: int, channel: Channel) -> Tap | None:
        through = source != SWITCH != target
        return self.nic.tap(
            group=self.group if through or self.switch_path is None else self.switch_path.token,
            channel=channel.name.lower(),
            source=self._station(source),
            target=self._station(target),
        )

    def _trace(self, source: int, target: int, channel: Channel) -> LinkTrace | None:
        trace = self.nic.trace
        if trace is None or channel is not Channel.COLLECTIVE:
            return None
        return trace.link(self.group, self._station(source), self._station(target))

    def _station(self, peer: int) -> int:
        """The number in the job that `peer` has in addresses."""
        return STATION if peer == SWITCH else self._job_ranks[peer]

    def _check_open(self) -> None:
        self.nic.failure.check()
        if self._closing:
            raise GroupClosed("the group has been shut down")

    def _begin_closing(self, abort_reason: str = "") -> None:
        """Refuse new links, and wake whoever waits for one or makes one."""
        with self._changed:
            self._closing = True
            self._abort_reason = abort_reason or self._abort_reason
            for sock in self._connecting.values():
                close_abruptly(sock)
            self._changed.notify_all()

    def _stop(self, reason: str) -> None:
        self._begin_closing(reason)
        with self._changed:
            recv_links, send_links = [*self._recv_links.values()], [*self._send_links.values()]
        for recv_link in recv_links:
            recv_link.leave(Note.ABORT, reason)
        for send_link in send_links:
            send_link.abort()
        self.on_stopped()


def _share_secret(store: Store, rank: int, timeout_s: float) -> bytes:
    """Draw the group's secret on rank 0; everybody gets it through the store."""
    if rank == 0:
        store.set("wirezip/secret", secrets.token_hex(SECRET_BYTES))
    _wait(store, ["wirezip/secret"], timeout_s)
    return bytes.fromhex(store.get("wirezip/secret").decode())


def _share_address(
    store: Store, rank: int, size: int, address: tuple[str, int], timeout_s: float
) -> list[tuple[str, int]]:
    """Publish this rank's address and collect everybody's, in rank order."""
    store.set(f"wirezip/address/{rank}", json.dumps(address))
    keys = [f"wirezip/address/{peer}" for peer in range(size)]
    _wait(store, keys, timeout_s)
    return [(str(host), int(port)) for host, port in map(json.loads, map(store.get, keys))]


def _wait(store: Store, keys: list[str], timeout_s: float) -> None:
    try:
        store.wait(keys, timedelta(seconds=timeout_s))
    except RuntimeError as error:
        raise PeerTimeout(
            f"a rank of the group did not come in {timeout_s:g} s ({str(error).splitlines()[0]})"
        ) from error


def _ignore(*_: object) -> None:
    """The default of a hook that nobody has taken."""
