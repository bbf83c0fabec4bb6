# SPDX-License-Identifier: Apache-2.0
"""The registers of the engine, from one source for RTL and documents."""
