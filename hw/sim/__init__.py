# SPDX-License-Identifier: Apache-2.0
"""The RTL as a program: Verilated models, built on first use and kept in the user's cache."""
