# SPDX-License-Identifier: Apache-2.0
"""What the switch learns from the header of a message: it is in no collective itself."""

from nic_emul.dtypes import by_tag
from nic_emul.errors import ProtocolError
from nic_emul.message import Header, Traffic
from nic_emul.roles import Collective, Role


def traffic_of(header: Header) -> Traffic:
    """The traffic that `header` announces a message of.

    Raises:
        ProtocolError: no such collective, role or type.
    """
    if header.collective not in Collective._value2member_map_:
        raise ProtocolError(f"{header}: expected a collective; found number {header.collective}")
    if header.role not in Role._value2member_map_:
        raise ProtocolError(f"{header}: expected a role; found number {header.role}")
    return Traffic(
        collective=Collective(header.collective),
        role=Role(header.role),
        dtype=by_tag(header.dtype),
        sequence=header.sequence,
        operation=header.operation,
        root=header.root,
        tag=header.tag,
        total_bytes=header.total_bytes,
    )
