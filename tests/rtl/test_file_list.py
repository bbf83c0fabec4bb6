# SPDX-License-Identifier: Apache-2.0
"""wz_engine.f: every file that the engine needs, none that it does not, and in a usable order."""

from hw.sim.sources import RTL, needed, sources

FILES = [
    line
    for line in (RTL / "wz_engine.f").read_text("ascii").splitlines()
    if line[:1] not in ("", "/")
]


def test_is_complete() -> None:
    wanted = {path.relative_to(RTL).as_posix() for path in sources("wz_engine")}
    assert sorted(set(FILES) - wanted) == [], "not needed"
    assert sorted(wanted - set(FILES)) == [], "missing"
    assert len(FILES) == len(set(FILES))


def test_each_file_comes_after_what_it_needs() -> None:
    known = {RTL.joinpath(name).stem: place for place, name in enumerate(FILES)}
    for place, name in enumerate(FILES):
        for other in set(needed(RTL / name)) & set(known):
            assert known[other] <= place, f"{name} before {FILES[known[other]]}"
