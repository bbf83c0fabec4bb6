# SPDX-License-Identifier: Apache-2.0
"""wz_verdict: every error, in the order of a decoder that reads from front to back."""

import pytest

from tests.rtl import packets
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.packets import Error
from tests.rtl.structs import pack

# A frame of a block of 1,000 bytes: extras of 16, remainders of 160, low bits of 32, 100 bytes of
# unary codes and 5 escapes.
FRAME = {
    "frame": 1,
    "coded": 1,
    "long_header": 1,
    "block_bytes": 1000,
    "extras_words": 1,
    "low_word": 12,
    "unary_word": 14,
    "escape_byte": 324,
    "frame_bytes": 329,
}
# What is wrong, bytes of the packet, the padding of remainders and low bits; the verdict.
CASES = [
    ({}, 329, 0, 0, Error.NONE),
    ({}, 330, 0, 0, Error.CORRUPT),
    ({}, 324, 0, 0, "late"),
    ({}, 323, 0, 0, Error.TRUNCATED),
    ({"bad_escapes": 1}, 324, 0, 0, Error.CORRUPT),
    ({"bad_escapes": 1}, 323, 0, 0, Error.TRUNCATED),
    ({}, 224, 0, 1, Error.CORRUPT),
    ({}, 223, 0, 1, Error.TRUNCATED),
    ({"bad_symbols": 1}, 192, 0, 0, Error.CORRUPT),
    ({"bad_symbols": 1}, 191, 0, 0, Error.TRUNCATED),
    ({}, 192, 1, 0, Error.CORRUPT),
    ({}, 191, 1, 0, Error.TRUNCATED),
    ({"bad_extras": 1}, 32, 0, 0, Error.CORRUPT),
    ({"bad_extras": 1}, 31, 0, 0, Error.TRUNCATED),
    ({"bad_early": 1}, 16, 0, 0, Error.CORRUPT),
    ({"bad_early": 1, "unsupported": 1}, 16, 0, 0, Error.UNSUPPORTED),
    ({"unsupported": 1, "bad_fields": 1}, 16, 0, 0, Error.CORRUPT),
    ({"bad_fields": 1}, 15, 0, 0, Error.TRUNCATED),
    ({"bad_fields": 1, "bad_version": 1}, 15, 0, 0, Error.UNSUPPORTED),
    ({"bad_version": 1}, 7, 0, 0, Error.TRUNCATED),
    ({}, 1009, 0, 0, Error.CORRUPT),
    ({"unsupported": 1}, 1009, 0, 0, Error.CORRUPT),
    ({"unsupported": 1}, 1008, 0, 0, Error.UNSUPPORTED),
    ({"shorter": 1, "frame_bytes": 999}, 999, 0, 0, Error.NONE),
    ({"shorter": 1, "frame_bytes": 1000, "too_long": 1}, 1000, 0, 0, Error.CORRUPT),
    ({"frame_bytes": 1009, "too_long": 1}, 1009, 0, 0, Error.CORRUPT),
    ({"frame_bytes": 2000, "too_long": 1, "escape_byte": 1990}, 329, 0, 0, Error.TRUNCATED),
    ({"frame": 0, "coded": 0, "frame_bytes": 1000}, 1000, 0, 0, Error.NONE),
    ({"frame": 0, "coded": 0, "frame_bytes": 1000}, 999, 0, 0, Error.CORRUPT),
    ({"frame": 0, "coded": 0, "frame_bytes": 1000}, 1001, 0, 0, Error.CORRUPT),
    ({"frame": 0, "coded": 0, "frame_bytes": 0, "bad_fields": 1}, 0, 0, 0, Error.CORRUPT),
]


@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_verdicts(stall: float) -> None:
    dut = Dut("wz_verdict")
    dut.reset()
    claims = [pack(packets.CLAIM, **(FRAME | wrong)) for wrong, *_ in CASES]
    claim = Source("s", claim=claims, valid="claim_valid", ready="claim_ready", stall=stall)
    end = Source(
        "s_end", bytes=[case[1] for case in CASES], valid="valid", ready="ready", stall=stall
    )
    padding = Source(
        "s_padding",
        remainder=[case[2] for case in CASES],
        low=[case[3] for case in CASES],
        valid="valid",
        ready="ready",
        stall=stall,
    )
    got = Sink("m", fields=("error", "late"), stall=stall)
    dut.stream(claim, end, padding, got)
    found = list(zip(got.integers("error"), got.integers("late"), strict=True))
    wanted = [(Error.TRUNCATED, 1) if c[4] == "late" else (c[4], 0) for c in CASES]
    assert found == wanted
    if not stall:
        assert [int(c) for c in got.clocks] == [int(c) + 2 for c in claim.clocks]
