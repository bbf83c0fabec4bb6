# SPDX-License-Identifier: Apache-2.0
"""The part of a page that is generated stands between two marks."""

from pathlib import Path

from codec.errors import InvalidInput


def replace_between(page: Path, begin: str, end: str, part: str) -> str:
    """The text of a page with `part` between the marks `begin` and `end`.

    Raises:
        InvalidInput: the page does not have both, in this order.
    """
    text = page.read_text(encoding="utf-8")
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise InvalidInput(
            f"{page.name}: expected the marks {begin} and {end}; found {text[:60]!r}"
        )
    return f"{before}{begin}\n\n{part}\n\n{end}{after}"
