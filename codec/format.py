# SPDX-License-Identifier: Apache-2.0
"""The constants of the frame format, version 1: the one source for Python, RTL and HLS.

`docs/format.md` gives their meaning; section numbers below are its. `make autogen` writes them for
the hardware. A field `X` is `X_BITS` wide and starts at bit `X_LSB` of the little-endian header.
"""

import enum

FORMAT_VERSION = 1


class Mode(enum.IntEnum):
    """How a frame holds its block (section 4)."""

    RAW = 0
    CONSTANT = 1
    CODED = 2
    REFERENCE = 3


class Coder(enum.IntEnum):
    """How ranks become bits in a coded frame (section 8)."""

    R0 = 0
    R1 = 1
    R2 = 2
    F2 = 3


# Sizes (section 2)
BLOCK_BYTES_MAX = 4096
BEAT_BYTES = 64
ALIGN_BYTES = 16
SHORT_HEADER_BYTES = 8
LONG_HEADER_BYTES = 16
BITMAP_BYTES = 8

# Fields of every header (section 4)
VERSION_LSB, VERSION_BITS = 0, 3
MODE_LSB, MODE_BITS = 3, 2
ELEMENT_LSB, ELEMENT_BITS = 5, 3
BITMAP_LSB, BITMAP_BITS = 8, 1
PHASE_LSB, PHASE_BITS = 14, 2
LENGTH_LSB, LENGTH_BITS = 16, 12
CRC_LSB, CRC_BITS = 32, 32

# Fields of a coded header
PLANE_FLAGS_LSB, PLANE_FLAGS_BITS = 9, 3
SIGN_FLAG_LSB, SIGN_FLAG_BITS = 12, 1
SIGN_VALUE_LSB, SIGN_VALUE_BITS = 13, 1
ZERO_RANK_LSB, ZERO_RANK_BITS = 28, 4
BASE_LSB, BASE_BITS = 64, 8
PATH_LSB, PATH_BITS = 72, 14
CODER_LSB, CODER_BITS = 86, 2
RESERVED_LSB, RESERVED_BITS = 88, 8
UNARY_BYTES_LSB, UNARY_BYTES_BITS = 96, 11
ESCAPES_LSB, ESCAPES_BITS = 107, 8
BARE_ZEROS_LSB, BARE_ZEROS_BITS = 115, 13

# Fields of a reference header that take the place of coded ones
GAPS_LSB, GAPS_BITS = 9, 1
GAP_SHIFT_LSB, GAP_SHIFT_BITS = 10, 4
SHIFT_LSB, SHIFT_BITS = 28, 4
REFERENCE_CRC_LSB, REFERENCE_CRC_BITS = 64, 32
ENTRIES_LSB, ENTRIES_BITS = 115, 13

# Coding (sections 7 to 9)
ZERO_RANK_NONE = 15
CODER_LOW_BITS = (0, 1, 2, 2)
CODER_RANKS = (15, 15, 31, 15)
CODE_BITS_MAX = 16
UNARY_BITS_PER_VALUE_MAX = 3
VALUES_PER_ESCAPE = 32
ESCAPES_MAX = 255
REFERENCE_QUOTIENT_ESCAPE = 15
GAP_ESCAPE_BYTES = 2

# CRC-32C (section 5), reflected
CRC_POLYNOMIAL = 0x82F63B78
CRC_INIT = 0xFFFFFFFF

# Stream (section 10)
STREAM_MAGIC = b"WZS"
STREAM_VERSION = 1
STREAM_HEADER_BYTES = 16
