# SPDX-License-Identifier: Apache-2.0
"""A GPT, its data, and the sharded training loop whose traffic the emulated NICs compress.

Read in this order: `config`, `model`, `data`, `mesh` (ranks, nodes, groups), `strategy` (what is
sharded), `volumes` (what that moves), `sharding` (flat units), `network` (collectives by role),
`optimizer`, `loop`. The rest runs and reports: `run` and `rank` (one rank), `launch` (local ranks),
`compare`, `records`, `report`, `cli`.
"""
