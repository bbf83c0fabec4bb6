# SPDX-License-Identifier: Apache-2.0
"""What `make rtl` makes of the counts of lines."""

import pytest

from hw.sim.sources import RTL
from tests.rtl.coverage import CONSTANT, constant_lines, lines_by_file

MODULE = """\
module wz_some;
  function automatic int kept(input int x);
    return x;
  endfunction

  function automatic logic [7:0] table_of(
      input int x);
    return 8'(x);
  endfunction
endmodule
"""


def test_counts_of_the_rtl_alone() -> None:
    info = f"SF:{RTL / 'wz_some.sv'}\nDA:3,7\nDA:4,0\nend_of_record\nSF:/else/wz_other.sv\nDA:1,1\n"
    assert lines_by_file(info) == {"wz_some": {3: 7, 4: 0}}


def test_functions_that_give_constants() -> None:
    assert constant_lines(MODULE, ()) == set()
    assert constant_lines(MODULE, ["table_of"]) == {6, 7, 8, 9}
    with pytest.raises(AssertionError, match="gone: no such function"):
        constant_lines(MODULE, ["gone"])


@pytest.mark.parametrize("module", CONSTANT)
def test_they_are_still_there(module: str) -> None:
    assert constant_lines((RTL / f"{module}.sv").read_text(), CONSTANT[module])
