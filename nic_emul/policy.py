# SPDX-License-Identifier: Apache-2.0
"""What the NIC compresses."""

from codec.elements import ElementType
from nic_emul.config import ElementSource
from nic_emul.roles import Role

MIN_COMPRESSED_BYTES = 256


def compresses(
    role: Role, element: ElementType, message_bytes: int, source: ElementSource = "tagged"
) -> bool:
    """Whether a message goes through the engine (True) or around it (False).

    | message                      | engine | reason                                           |
    |------------------------------|--------|--------------------------------------------------|
    | elements without an exponent | no     | indices, masks, counters: nothing to code        |
    | role other                   | no     | control traffic; also how a group opts out       |
    | shorter than 256 bytes       | no     | headers dominate; latency is all that matters    |
    | everything else              | yes    | a block that does not shrink travels bare anyway |

    The first row that applies decides; role and type are tags, and so the first two rows are for
    NICs that go by tags (`element_source.py`). The decision may differ between sender and receiver
    without harm: every packet is marked.
    """
    if source == "tagged" and (element is ElementType.RAW or role is Role.OTHER):
        return False
    return message_bytes >= MIN_COMPRESSED_BYTES
