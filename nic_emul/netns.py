# SPDX-License-Identifier: Apache-2.0
"""Network namespaces of Linux, and links between them whose rate the kernel limits.

Everything is made inside a *sandbox*: a process with a network, a mount and a process namespace of
its own, in which it is root. What it makes there is visible to nobody else, and when it ends, or is
killed in any way, the kernel takes down all processes, interfaces and namespaces in it. So nothing
is left behind, and no two sandboxes meet.
"""

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nic_emul.errors import NamespaceError

# Nothing is lost on these links, and a queue that fills looks like loss to a probe for it; and a
# connection that paused for a step would begin again with a small window.
_TCP_SETTINGS = ("net/ipv4/tcp_early_retrans", "net/ipv4/tcp_slow_start_after_idle")
_FOLDER = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_TOOLS = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux", "nsenter": "util-linux"}
_ISOLATED = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# Of a token bucket at least: it must hold the largest packet that a kernel keeps in one piece, or
# that is cut up, which costs processor time; and what passes while the kernel's timer sleeps.
_BURST_BYTES_MIN = 64 * 1024
_BURST_S_MIN = 0.001
# Larger than what a few connections have in flight: the queue never drops.
QUEUE_BYTES = 32 << 20


def sandboxed(command: Sequence[str]) -> list[str]:
    """`command` so that it runs in a sandbox of its own, as root in it.

    Raises:
        NamespaceError: this machine does not allow it, or a tool is missing; the message says what.
    """
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            raise NamespaceError(f"network namespaces: expected `{tool}` ({package}); found none")
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    prefix = ["unshare", *user, *_ISOLATED]
    trial = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
    if trial.returncode:
        raise NamespaceError(
            "network namespaces: expected root, or a kernel that gives user namespaces to others; "
            f"found {trial.stderr.strip()!r}"
        )
    # The child's own root folder of names: nobody else's is touched.
    return [*prefix, "sh", "-c", 'mount -t tmpfs none /run && mkdir /run/netns && exec "$@"', "sh",
            *command]  # fmt: skip


def burst_bytes(bits_per_second: float) -> int:
    """Depth of the token bucket of a link of that rate: what passes at once after a pause."""
    return max(_BURST_BYTES_MIN, int(bits_per_second / 8 * _BURST_S_MIN))


@contextlib.contextmanager
def entered(namespace: str | None) -> Iterator[None]:
    """Have this thread make its sockets in `namespace`, a name or a path; None changes nothing.

    Raises:
        NamespaceError: there is none, or it may not be entered.
    """
    if namespace is None:
        yield
        return
    path = Path(namespace) if "/" in namespace else _FOLDER / namespace
    try:
        target = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise NamespaceError(f"{path}: expected a network namespace; {error.strerror}") from error
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _set_namespace(target, str(path))
        yield
    finally:
        _set_namespace(home, "the namespace before")
        os.close(target)
        os.close(home)


def add_namespace(name: str) -> None:
    """Make a namespace, with its loopback up and without IPv6, which speaks by itself."""
    _run("ip", "netns", "add", name)
    if Path("/proc/sys/net/ipv6").exists():
        _set(name, ("net/ipv6/conf/all/disable_ipv6", "net/ipv6/conf/default/disable_ipv6"), 1)
    _run("ip", "-n", name, "link", "set", "dev", "lo", "up")


def add_veth(first: tuple[str, str], second: tuple[str, str], *, mtu: int = 1500) -> None:
    """Make a cable between two (namespace, interface)s, both up."""
    (here, name), (there, peer) = first, second
    _run("ip", "link", "add", name, "netns", here, "mtu", str(mtu), "type", "veth", "peer", "name",
         peer, "netns", there, "mtu", str(mtu))  # fmt: skip
    for namespace, interface in (first, second):
        _run("ip", "-n", namespace, "link", "set", "dev", interface, "up")


def inside(namespace: str, command: Sequence[str]) -> list[str]:
    """`command` so that it runs in `namespace`."""
    return ["nsenter", f"--net={_FOLDER / namespace}", *command]


class Star:
    """`nodes` namespaces, each with one interface to a common bridge, at a rate of their own.

    Both directions of each cable are limited by token buckets: what a node sends where it leaves
    the node, what it receives where it leaves the bridge.

    Attributes:
        names: of the namespaces.
        addresses: of the nodes, IPv4.
    """

    INTERFACE = "eth0"

    def __init__(self, nodes: int, *, mtu: int = 1500) -> None:
        """Make it, without limits."""
        if not 2 <= nodes <= 250:
            raise NamespaceError(f"nodes: expected 2 to 250; found {nodes}")
        self.names = [f"node{node}" for node in range(nodes)]
        self.addresses = [f"10.77.0.{node + 1}" for node in range(nodes)]
        _run("ip", "link", "add", "br0", "type", "bridge")
        for node, name in enumerate(self.names):
            add_namespace(name)
            _run("ip", "link", "add", f"port{node}", "mtu", str(mtu), "type", "veth",
                 "peer", "name", self.INTERFACE, "netns", name, "mtu", str(mtu))  # fmt: skip
            _run("ip", "link", "set", "dev", f"port{node}", "master", "br0", "up")
            _run("ip", "-n", name, "addr", "add", f"{self.addresses[node]}/24", "dev",
                 self.INTERFACE)  # fmt: skip
            _run("ip", "-n", name, "link", "set", "dev", self.INTERFACE, "up")
            _set(name, _TCP_SETTINGS, 0)
        _run("ip", "link", "set", "dev", "br0", "up")

    def limit(self, bits_per_second: float) -> None:
        """Limit both directions of every cable, from now on."""
        burst = burst_bytes(bits_per_second)
        rule = f"root tbf rate {bits_per_second:.0f}bit burst {burst} limit {QUEUE_BYTES}"
        for node, name in enumerate(self.names):
            _batch(name, f"qdisc replace dev {self.INTERFACE} {rule}")
            _batch(None, f"qdisc replace dev port{node} {rule}")

    def sent_bytes(self) -> list[int]:
        """What each node has sent since it was made, in bytes of Ethernet frames without preamble,
        frame check sequence and gap; known once `limit` was called."""
        return [_queue_bytes(name, self.INTERFACE) for name in self.names]


def _set(namespace: str, settings: Sequence[str], value: int) -> None:
    """Give some of a namespace's kernel settings a value."""
    commands = [f"echo {value} > /proc/sys/{setting}" for setting in settings]
    _run(*inside(namespace, ["sh", "-c", " && ".join(commands)]))


def _queue_bytes(namespace: str, interface: str) -> int:
    (queue,) = json.loads(_run("tc", "-n", namespace, "-s", "-j", "qdisc", "show", "dev", interface,
                               "root"))  # fmt: skip
    found: Any = queue["bytes"]
    return int(found)


def _batch(namespace: str | None, rule: str) -> None:
    where = () if namespace is None else ("-n", namespace)
    _run("tc", *where, *rule.split())


def _set_namespace(descriptor: int, name: str) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(descriptor, _CLONE_NEWNET):
        raise NamespaceError(f"{name}: cannot be entered: {os.strerror(ctypes.get_errno())}")


def _run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise NamespaceError(f"`{' '.join(command)}`: {result.stderr.strip()}")
    return result.stdout
