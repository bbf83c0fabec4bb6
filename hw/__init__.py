# SPDX-License-Identifier: Apache-2.0
"""The hardware sources, carried as data: find them with `importlib.resources.files("hw")`."""
