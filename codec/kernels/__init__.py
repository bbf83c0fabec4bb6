# SPDX-License-Identifier: Apache-2.0
"""Compiled loops of the Numba engine: they check what the format demands, and allocate scratch."""
