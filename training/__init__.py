# SPDX-License-Identifier: Apache-2.0
"""A GPT, its data, and the sharded training loop whose traffic the emulated NICs compress.

Read in this order: `config`, `model`, `data`, `sharding` (strategies, flat units, volumes), `loop`.
The rest runs and reports: `run` (one rank), `launch` (local ranks), `compare`, `records`, `report`.
"""
