# SPDX-License-Identifier: Apache-2.0
"""wz_encoder: blocks in, the reference codec's frames out; widths, policy, rates and latencies."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from codec import reference
from codec.elements import ElementType
from codec.format import Mode
from codec.header import parse_header
from tests.rtl.blocks import ALL_TYPES, Block, blocks, packets, with_symbols
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.plans import payloads

BF16, FP32 = ElementType.BF16, ElementType.FP32
SINK = ("tdata", "tkeep", "tlast", "tuser")


def encoder(width: int = 512, *, types: int = ALL_TYPES, **static: int) -> Dut:
    dut = Dut("wz_encoder", parameters={"DATA_W": width, "TYPES": types})
    for name, value in static.items():
        dut[name] = value
    dut.reset()
    return dut


def source(sent: Sequence[Block], width: int = 512, *, stall: float = 0.0) -> Source:
    """The blocks in beats of `width` bits."""
    fields: dict[str, Any] = packets(sent)
    if width == 512:
        return Source("s_axis", stall=stall, burst=5, **fields)
    size = width // 8
    parts = 64 // size
    data = np.asarray(fields["tdata"]).reshape(-1, size)
    keep = [
        int(mask) >> size * part & (1 << size) - 1
        for mask in np.asarray(fields["tkeep"])
        for part in range(parts)
    ]
    user = np.repeat(np.asarray(fields["tuser"]), parts)
    there = np.array([mask != 0 for mask in keep])
    last = np.zeros(len(keep), np.uint8)
    for end in np.flatnonzero(np.asarray(fields["tlast"])):
        last[np.flatnonzero(there[: (end + 1) * parts])[-1]] = 1
    return Source(
        "s_axis",
        tdata=data[there],
        tkeep=np.array(keep, np.uint64)[there],
        tlast=last[there],
        tuser=user[there],
        stall=stall,
        burst=5,
    )


def run(
    dut: Dut,
    sent: Sequence[Block],
    expected: Sequence[tuple[bytes, bool]],
    *,
    width: int = 512,
    stall: float = 0.0,
    burst: int = 7,
    seed: int = 1,
) -> tuple[Source, Sink, Sink]:
    """Encode and compare the packets, which must be `(payload, coded)`."""
    beats = source(sent, width, stall=stall)
    got = Sink("m_axis", fields=SINK, stall=stall, burst=burst)
    events = Sink("event", fields=("coded", "mode"), valid="valid", ready=None)
    dut.stream(beats, got, events, seed=seed, drain=300 + 10 * burst)
    result = payloads(got["tdata"], got["tkeep"], got["tlast"])
    for i, (payload, (wanted, _)) in enumerate(zip(result, expected, strict=False)):
        assert payload == wanted, f"block {i}: {len(payload)} bytes, expected {len(wanted)}"
    ends = np.flatnonzero(got["tlast"])
    assert list(got["tuser"][ends]) == [coded for _, coded in expected]
    # The same in every beat of a packet.
    end_of_beat = ends[np.searchsorted(ends, np.arange(len(got)))]
    assert np.array_equal(got["tuser"], got["tuser"][end_of_beat])
    modes = [parse_header(wanted).mode if coded else Mode.RAW for wanted, coded in expected]
    assert list(zip(events["coded"], events["mode"], strict=True)) == list(
        zip([coded for _, coded in expected], modes, strict=True)
    )
    assert np.array_equal(events.clocks, got.clocks[ends] + 1)
    return beats, got, events


def frames(
    sent: Sequence[Block], *, types: int = ALL_TYPES, bare: bool = True, min_bytes: int = 0
) -> list[tuple[bytes, bool]]:
    """What must come out."""
    out = []
    for block in sent:
        code = block.code and types >> block.element & 1 and len(block.data) >= min_bytes
        payload = block.data
        if code:
            frame = reference.encode_frame(block.data, block.element, block.phase)
            code = not bare or len(frame) < len(block.data)
            payload = frame if code else payload
        out.append((payload, bool(code)))
    return out


def mixed(count: int, seed: int, *, longest: int = 4096) -> list[Block]:
    """Blocks of all types in turn."""
    each = [blocks(element, count, seed, longest=longest) for element in ElementType]
    return [block for row in zip(*each, strict=True) for block in row]


@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_all_types(stall: float) -> None:
    sent = mixed(12, 1, longest=1500)
    run(encoder(bare=1), sent, frames(sent), stall=stall, seed=2)


@pytest.mark.full
@pytest.mark.parametrize("width", [128, 256])
def test_widths(width: int) -> None:
    sent = mixed(8, 2, longest=1500)
    for stall in (0.0, 0.2):
        dut = encoder(width, bare=1)
        run(dut, sent, frames(sent), width=width, stall=stall, seed=3)


def test_frames_of_any_length() -> None:
    """Without `bare`, what does not shrink is a raw frame."""
    sent = mixed(4, 3, longest=1000)
    run(encoder(bare=0), sent, frames(sent, bare=False))


@pytest.mark.parametrize("min_bytes", [60, 300])
def test_short_blocks_as_they_are(min_bytes: int) -> None:
    sent = mixed(6, 4, longest=600)
    for bare in (False, True):
        dut = encoder(bare=bare, min_bytes=min_bytes)
        run(dut, sent, frames(sent, bare=bare, min_bytes=min_bytes))


def test_short_blocks_that_wait_for_the_output() -> None:
    """Values of a beat, from the second byte of a row on, in two rows of the buffer each."""
    short = [Block(bytes(range(first, first + 65)), BF16, 1, code=False) for first in range(180)]
    long = [Block(bytes(range(256)) * 16, BF16, code=False)]
    sent = [*short[:60], *long * 2, *short[60:120], *long, *short[120:]]
    run(encoder(bare=1), sent, frames(sent), stall=0.6)
    run(encoder(bare=1), sent, frames(sent), stall=0.8, burst=150)


@pytest.mark.full
def test_bf16_alone() -> None:
    """Blocks of other types pass."""
    sent = mixed(8, 5)
    types = 1 << BF16
    run(encoder(bare=1, types=types), sent, frames(sent, types=types), stall=0.1)


def test_reset_in_mid_frame() -> None:
    dut = encoder(bare=1)
    sent = mixed(3, 6, longest=1500)
    expected = frames(sent)
    for clocks in (1, 70, 133, 190, 260, 401):
        got = Sink("m_axis", fields=SINK, stall=0.2)
        dut.stream(source(sent), got, clocks=clocks)
        dut.reset()
        run(dut, sent, expected)


def test_first_block_after_a_reset() -> None:
    """It waits for nothing of the frame that the reset dropped."""
    values = np.frombuffer(with_symbols(_with_zeros(NEAR), BF16), "<u2").copy()
    values[_with_zeros(NEAR) == 0] = 0
    bare_zeros, as_it_is = Block(values.tobytes(), BF16), Block(bytes(range(64)), BF16, code=False)
    dut = encoder(bare=1)
    # Its last beats are in the network of the second pass, or about to be.
    clocks = []
    for stop in range(205, 265, 6):
        dut.stream(source([bare_zeros] * 2), Sink("m_axis", fields=SINK), clocks=stop)
        dut.reset()
        for _ in range(2):
            beats, got, _ = run(dut, [as_it_is], frames([as_it_is]))
            clocks.append(got.clocks[0] - beats.clocks[0])
    assert len(set(clocks)) == 1


def gradients(count: int, element: ElementType, seed: int = 1) -> list[Block]:
    """Full blocks of normally distributed numbers, a few of them zero."""
    random = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        numbers = random.normal(0, 1e-3, 4096 // element.width_bytes).astype(np.float32)
        out.append(Block(_cast(numbers, element), element))
    return out


def _cast(numbers: NDArray[np.float32], element: ElementType) -> bytes:
    if element == FP32:
        return numbers.tobytes()
    return (numbers.view(np.uint32) >> 16).astype("<u2").tobytes()


@pytest.mark.parametrize("element", [BF16, FP32])
def test_rate(element: ElementType) -> None:
    dut = encoder(bare=1)
    sent = gradients(24, element)
    _, got, _ = run(dut, sent, frames(sent))
    ends = np.flatnonzero(got["tlast"])
    per_block = np.diff(got.clocks[ends])[4:-2].mean()
    assert 64 / per_block >= 0.99


@pytest.mark.parametrize(("code", "min_bytes"), [(False, 0), (True, 65)])
def test_rate_of_blocks_as_they_are(code: bool, min_bytes: int) -> None:
    """A beat a clock."""
    values = with_symbols(NEAR[:32], BF16)
    sent = [Block(values, BF16, code=code)] * 200
    _, got, _ = run(encoder(bare=1, min_bytes=min_bytes), sent, frames(sent, min_bytes=min_bytes))
    assert set(np.diff(got.clocks[100:])) == {1}


# Symbols of 2048 values: ten that are near to each other; such with a value in every group of 32
# besides, once in the middle, once at the end; all there are, 128 most often.
NEAR = 110 + np.arange(2048) % 10
STRAYS = np.arange(5, 256, 32)
FAR = np.append(STRAYS, NEAR[:-8])
LAST = np.append(STRAYS, 255 - np.arange(2040) % 10)
ALL = np.append(np.arange(2040) % 256, [128] * 8)


def _with_zeros(symbol: NDArray[np.int64]) -> NDArray[np.int64]:
    """Zeros in the second half, where they do not keep the first word from filling."""
    zero = (np.arange(symbol.size) > 1024) & (np.arange(symbol.size) % 4 == 0)
    return np.where(zero, 0, symbol)


# What wz_analyze and wz_pack take, besides one for each beat.
LATENCY = {
    "few symbols": (BF16, NEAR, 47 + 12 + 2),
    "few symbols, one record in a word": (FP32, NEAR[:1024], 47 + 12 + 1),
    "a short block": (BF16, NEAR[:64], 47 + 12 + 2),
    "bare zeros": (BF16, _with_zeros(NEAR), 47 + 8 + 12 + 2 + 8),
    "all groups": (BF16, FAR, 57 + 7 * 8 + 12 + 2),
    "all groups, one side": (BF16, LAST, 58 + 7 * 8 + 12 + 2),
    "all groups, one side, bare zeros": (BF16, _with_zeros(LAST), 58 + 7 * 8 + 12 + 2 + 8),
    "as it is": (BF16, ALL, 57 + 7 * 8 + 12 + 1),
}


@pytest.mark.parametrize("kind", LATENCY)
def test_latency(kind: str) -> None:
    element, symbol, clocks = LATENCY[kind]
    data = np.frombuffer(with_symbols(symbol, element), f"<u{element.width_bytes}").copy()
    if "bare zeros" in kind:
        data[symbol == 0] = 0
    block = Block(data.tobytes(), element)
    fields = block.plan(bare=True).fields
    assert (fields["bare_zeros"] > 0) == ("bare zeros" in kind)
    assert fields["coded"] == (kind != "as it is")
    dut = encoder(bare=1)
    # The first block waits until memories are cleared; the second finds all idle.
    run(dut, [block], frames([block]))
    beats, got, _ = run(dut, [block], frames([block]))
    latency = got.clocks[0] - beats.clocks[0]
    assert latency == beats.beats + clocks
    assert latency <= 200
