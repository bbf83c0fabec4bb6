# SPDX-License-Identifier: Apache-2.0
"""Synthesis of the RTL with open tools: sizes, logic depth, and a clock rate on a real device."""
