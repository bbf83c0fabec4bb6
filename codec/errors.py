# SPDX-License-Identifier: Apache-2.0
"""Every error that the codec raises. All derive from `WirezipError`."""


class WirezipError(Exception):
    """Base class: catch this to catch everything the codec raises on purpose."""


class InvalidInput(WirezipError, ValueError):
    """The caller asked for something that has no meaning: a wrong type, size or option."""


class EngineUnavailable(WirezipError, RuntimeError):
    """The named engine does not exist, or what it needs is not installed."""


class EngineFault(WirezipError, RuntimeError):
    """The engine itself is broken: it stopped, or broke a promise that its interface makes."""


class FrameError(WirezipError, ValueError):
    """A frame or stream cannot be decoded: what was expected and found, and where."""


class TruncatedFrame(FrameError):
    """The bytes end before the frame or stream does."""


class CorruptFrame(FrameError):
    """The bytes are not a valid frame, or do not decode to what their checksum promises."""


class UnsupportedFrame(FrameError):
    """A frame of another format version, or of a mode that this engine does not implement."""


class ReferenceMismatch(FrameError):
    """A reference frame was given no resident copy, or one that it was not coded against."""
