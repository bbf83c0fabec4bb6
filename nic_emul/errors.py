# SPDX-License-Identifier: Apache-2.0
"""Every error that the emulated NIC raises. All derive from `WirezipError` through `NicError`."""

from codec.errors import WirezipError


class NicError(WirezipError):
    """Base class: catch this to catch everything `nic_emul` raises on purpose."""


class ConfigError(NicError, ValueError):
    """A `WIREZIP_*` variable or an option has a value that means nothing."""


class CaptureError(NicError, ValueError):
    """A capture of the emulated wire is damaged, or none of ours."""


class NamespaceError(NicError, RuntimeError):
    """Network namespaces, or what is to be in them, cannot be made here."""


class ReplayError(NicError, ValueError):
    """A recorded step does not fit together, or holds too little to replay it."""


class CorruptWireFrame(NicError, ValueError):
    """A frame that another card in the wire marked is damaged, or was never made by one."""


class UnsupportedTorch(NicError, RuntimeError):
    """The installed torch is outside the range that the backend was written for."""


class UnsupportedOperation(NicError, ValueError):
    """A collective was asked for with arguments that it has no meaning for."""


class TransportError(NicError, ConnectionError):
    """Base class of what goes wrong between ranks. The first one ends the job on every rank."""


class PeerLost(TransportError):
    """A peer died, left, or refused the connection."""


class PeerFailed(TransportError):
    """A peer reported an error of its own; `reason` is the first error of the job."""

    def __init__(self, peer: str, reason: str) -> None:
        super().__init__(f"{peer} passed on: {reason}")
        self.reason = reason


class SwitchLost(TransportError):
    """The switch died, or was never there."""


class PeerTimeout(TransportError, TimeoutError):
    """A peer made no progress for as long as the timeout allows."""


class RetryExceeded(TransportError):
    """A peer acknowledged nothing, however often packets were sent again."""


class ProtocolError(TransportError):
    """Bytes from a peer are not what this version of the protocol sends."""


class AuthenticationError(TransportError):
    """Whoever is at the other end of a connection does not know the job's secret."""


class CorruptMessage(ProtocolError):
    """A message fails its checksum, or its frames do not decode."""


class MessageTooLong(TransportError):
    """A message does not fit the buffer that was posted for it."""


class CollectiveMismatch(TransportError):
    """Ranks disagree about which collective is running, or about its size, type or role."""


class GroupClosed(TransportError):
    """The group was shut down, or aborted, before the operation was done; the process goes on."""


class JobFailed(TransportError):
    """This process has already failed; the message repeats the first error."""
