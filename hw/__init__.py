# SPDX-License-Identifier: Apache-2.0
"""The codec as hardware: its sources, and what builds, runs, lints and synthesises them.

The sources are carried as data: find them with `importlib.resources.files("hw")`.
"""
