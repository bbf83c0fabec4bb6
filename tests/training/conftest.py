# SPDX-License-Identifier: Apache-2.0
"""What the tests of training share."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Test processes share the cores, and threads that spin while they wait slow all of them."""
    torch.set_num_threads(1)
