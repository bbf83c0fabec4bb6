# SPDX-License-Identifier: Apache-2.0
"""Every error that training raises on purpose; the command line prints these in one line."""


class TrainingError(Exception):
    """Base class of the errors below."""


class ConfigError(TrainingError, ValueError):
    """A preset, override or option is unknown, of the wrong type, or impossible."""


class DataError(TrainingError, ValueError):
    """The text to train on is missing or too short."""


class RunError(TrainingError, RuntimeError):
    """A rank stopped before the run was over; the message is what that rank said last."""


class DivergenceError(TrainingError, ArithmeticError):
    """A loss or gradient norm is not finite, or ranks that must agree do not."""


class PlanError(TrainingError, ValueError):
    """No strategy fits."""


class CheckpointError(TrainingError, ValueError):
    """A checkpoint is missing, incomplete, damaged, or of another run."""


class RecordError(TrainingError, ValueError):
    """A run folder is missing, incomplete or not one of ours."""


class StrategyError(ConfigError):
    """No such strategy, or one that is impossible on the cluster."""
