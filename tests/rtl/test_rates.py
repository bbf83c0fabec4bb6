# SPDX-License-Identifier: Apache-2.0
"""The page of rates shows the figures that were measured."""

from tests.rtl import rates_page


def test_the_page_is_made_of_the_figures() -> None:
    assert (rates_page.DOCS / "rates.md").read_text() == rates_page.page()
    readme = (rates_page.DOCS.parent / "README.md").read_text()
    for row in rates_page.readme_rows():
        assert f"| {row.case} |" in readme
        assert f"| {row.rate:.3f} | {row.clocks_a_packet:.1f} | {row.latency_clocks} |" in readme
