# SPDX-License-Identifier: Apache-2.0
"""What one group asks of the switch: links to ranks of other nodes, and sums over the group."""

import hmac
import socket
from collections.abc import Sequence
from dataclasses import replace

from nic_emul.nic import Nic
from nic_emul.switch.request import Purpose, Request
from nic_emul.uplink import Uplink

# In place of a rank of the group, whose numbers begin at 0.
SWITCH = -1
# The switch knows which rank is late and is to say so, before the others only say that it is.
GRACE_S = 2.0


class SwitchPath:
    """The way of one group, on one of its ranks, through the switch.

    Attributes:
        token: hexadecimal digits that tell the group from all others at the switch.
        sums: whether the switch sums for the group: it is to, and the group spans nodes.
    """

    def __init__(
        self,
        nic: Nic,
        uplink: Uplink,
        *,
        rank: int,
        job_ranks: Sequence[int],
        group_secret: bytes,
        timeout_s: float,
    ) -> None:
        """Attach to the switch; `rank` is that in the group, whose members know `group_secret`.

        Raises:
            SwitchLost, CollectiveMismatch, AuthenticationError, ProtocolError: as `Uplink.attach`.
        """
        self._topology = nic.topology
        self._uplink = uplink
        self._job_ranks = job_ranks
        group = hmac.digest(group_secret, b"wirezip switch group", "sha256")
        self.token = group.hex()
        self._request = Request(
            purpose=Purpose.CONTROL,
            rank=job_ranks[rank],
            node=nic.topology.node_of(job_ranks[rank]),
            mtu=nic.config.mtu,
            timeout_s=timeout_s,
            group_size=len(job_ranks),
            position=rank,
            group=group,
        )
        spans_nodes = any(self.leads_to(peer) for peer in range(len(job_ranks)))
        self.sums = nic.config.algorithm == "switch" and spans_nodes
        uplink.attach(self._request)

    def leads_to(self, peer: int) -> bool:
        """Whether links to rank `peer` of the group pass the switch: it is on another node."""
        return not self._topology.share_node(self._request.rank, self._job_ranks[peer])

    def connect(self, sock: socket.socket, peer: int, address: tuple[str, int]) -> None:
        """Connect `sock` through the switch to `peer`, which listens at `address`.

        Raises:
            TransportError: as `Uplink.dial`.
        """
        host, port = address
        request = replace(
            self._request,
            purpose=Purpose.FORWARD,
            target_node=self._topology.node_of(self._job_ranks[peer]),
            target_host=host,
            target_port=port,
        )
        self._uplink.dial(sock, request)

    def connect_up(self, sock: socket.socket) -> None:
        """Connect `sock` to the switch, for slices to be summed over the group.

        Raises:
            TransportError: as `Uplink.dial`.
        """
        self._uplink.dial(sock, replace(self._request, purpose=Purpose.SUM_UP))

    def connect_down(self, sock: socket.socket) -> None:
        """Connect `sock` to the switch, for the sums.

        Raises:
            TransportError: as `Uplink.dial`.
        """
        self._uplink.dial(sock, replace(self._request, purpose=Purpose.SUM_DOWN))
