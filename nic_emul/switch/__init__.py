# SPDX-License-Identifier: Apache-2.0
"""The switch between the nodes: forwards messages, sums slices on their way, counts by port.

    python -m nic_emul.switch

It is a process of its own. `Uplink` (`nic_emul/uplink.py`) is a rank's way to it.
"""
