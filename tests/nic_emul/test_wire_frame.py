# SPDX-License-Identifier: Apache-2.0
"""Frames between two cards in the wire: any frame comes back, none grows, damage is found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.engine import get_engine
from nic_emul.errors import CorruptWireFrame
from nic_emul.ethernet import flow_label, segment_of
from nic_emul.wire_frame import ETHERTYPE, MARK_BYTES, WireFormat
from tests.nic_emul import frames

MTU = 9000
FORMAT = WireFormat(get_engine("numba"), MTU + 14)
MARKED = ETHERTYPE.to_bytes(2, "big")


def to_wire(frame: bytes) -> bytes:
    """What travels instead of `frame`, which fits."""
    sent = FORMAT.to_wire(frame, segment_of(frame))
    assert sent is not None
    return sent


def is_coded(frame: bytes) -> bool:
    return frame[12:14] == MARKED


@pytest.mark.parametrize("size", [300, 1448, 4096, 8948])
@pytest.mark.parametrize("make", [frames.tcp, frames.udp, frames.udp6])
@pytest.mark.parametrize("cut", [0, 1])
def test_payloads_shrink_and_come_back(make, size: int, cut: int) -> None:  # type: ignore[no-untyped-def]
    frame = make(frames.bf16(size, cut=cut))
    sent = to_wire(frame)
    assert is_coded(sent)
    # BF16 of a normal distribution takes some 10.7 bits; headers and bounds of blocks add to it.
    assert len(sent) < len(frame) * (0.75 if size > 1000 else 0.95)
    assert sent[:12] == frame[:12]
    assert FORMAT.from_wire(sent) == frame


def test_options_of_both_headers_are_kept() -> None:
    frame = frames.tcp(frames.bf16(1400), words=15, options=10)
    sent = to_wire(frame)
    assert is_coded(sent)
    assert FORMAT.from_wire(sent) == frame


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(frames.tcp(frames.bf16(255)), id="short payload"),
        pytest.param(frames.tcp(frames.bf16(1400), fragment=0x2000), id="first fragment"),
        pytest.param(frames.tcp(frames.bf16(1400), fragment=0x00B9), id="last fragment"),
        pytest.param(frames.ipv4(frames.bf16(1400), protocol=47), id="other protocol"),
        pytest.param(frames.tcp(frames.bf16(1400)) + bytes(4), id="padded"),
        pytest.param(frames.tcp(frames.bf16(1400))[:-1], id="cut short"),
        pytest.param(
            frames.ADDRESSES + b"\x81\x00\x00\x05" + frames.tcp(frames.bf16(1400))[12:], id="VLAN"
        ),
        pytest.param(frames.ADDRESSES + b"\x08\x06" + frames.bf16(1400), id="not IP"),
        pytest.param(frames.tcp(frames.bf16(1400), words=4), id="TCP header too short"),
        pytest.param(frames.ADDRESSES + b"\x08\x00", id="header alone"),
        pytest.param(frames.ADDRESSES + b"\x86\xdd" + b"\x60", id="IPv6 begins"),
    ],
)
def test_everything_else_travels_as_it_is(frame: bytes) -> None:
    assert to_wire(frame) is frame
    assert FORMAT.from_wire(frame) is frame


def test_noise_travels_as_it_is() -> None:
    noise = bytes((i * i * 7919 + i * 104_729) >> 5 & 0xFF for i in range(1448))
    frame = frames.tcp(noise)
    assert FORMAT.from_wire(to_wire(frame)) == frame
    assert len(to_wire(frame)) <= len(frame)


_ANY = st.binary(min_size=14, max_size=2000)
_PAYLOADS = st.one_of(
    st.binary(max_size=1500),
    st.builds(lambda b, n: b * n, st.binary(min_size=1, max_size=40), st.integers(1, 200)),
    st.builds(frames.bf16, st.integers(2, 8900)),
)
_SEGMENTS = st.one_of(
    st.builds(frames.tcp, _PAYLOADS, words=st.integers(0, 15), options=st.integers(0, 10)),
    st.builds(frames.udp, _PAYLOADS),
    st.builds(frames.udp6, _PAYLOADS),
)


@given(frame=st.one_of(_ANY, _SEGMENTS))
def test_any_frame_comes_back_and_none_grows(frame: bytes) -> None:
    frame = frame[: MTU + 14]
    if is_coded(frame):
        return
    sent = to_wire(frame)
    assert len(sent) <= len(frame)
    assert FORMAT.from_wire(sent) == frame


@given(rest=st.binary(max_size=300))
def test_a_host_may_use_our_type(rest: bytes) -> None:
    frame = frames.ADDRESSES + MARKED + rest
    sent = to_wire(frame)
    assert len(sent) == len(frame) + MARK_BYTES
    assert FORMAT.from_wire(sent) == frame
    padded = frames.resum(sent + bytes(max(0, 60 - len(sent))))
    assert FORMAT.from_wire(padded) == frame


def test_a_full_frame_of_our_type_does_not_fit() -> None:
    head = frames.ADDRESSES + MARKED
    fits = head + bytes(MTU - MARK_BYTES)
    assert len(to_wire(fits)) == MTU + 14
    assert FORMAT.to_wire(fits + b"\0", None) is None


def test_every_flipped_bit_and_every_cut_of_a_coded_frame_is_found() -> None:
    frame = frames.tcp(frames.bf16(300))
    sent = to_wire(frame)
    assert is_coded(sent)
    for bit in range(8 * len(sent)):
        damaged = bytearray(sent)
        damaged[bit // 8] ^= 1 << bit % 8
        if is_coded(bytes(damaged)):
            with pytest.raises(CorruptWireFrame):
                FORMAT.from_wire(bytes(damaged))
    for size in range(14, len(sent)):
        with pytest.raises(CorruptWireFrame):
            FORMAT.from_wire(sent[:size])


@given(
    body=st.binary(min_size=10, max_size=400),
    fields=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 255)), max_size=4),
)
def test_forged_frames_are_refused_or_harmless(body: bytes, fields: list[tuple[int, int]]) -> None:
    """Checksums fit, fields lie: no other error, nothing larger than a frame."""
    good = bytearray(to_wire(frames.tcp(frames.bf16(600))))
    for place, value in fields:
        good[14 + place] = value
    for forged in (bytes(good), frames.ADDRESSES + MARKED + body):
        try:
            restored = FORMAT.from_wire(frames.resum(forged))
        except CorruptWireFrame:
            continue
        assert 14 <= len(restored) <= MTU + 14


def test_flows_are_named() -> None:
    segment = segment_of(frames.tcp(b"x"))
    assert segment is not None
    assert flow_label(segment.flow) == {
        "protocol": "tcp",
        "source": "10.0.0.1",
        "source_port": 5000,
        "target": "10.0.0.2",
        "target_port": 6000,
    }
    assert segment.payload == 14 + 20 + 32
