# SPDX-License-Identifier: Apache-2.0
"""Schedules of the learning rate, with MXNet's names and arguments.

Given to an optimizer as ``lr_scheduler`` a schedule runs inside the library, where pushes are issued; calling
one, ``schedule(num_update)``, shows the rates that it gives.
"""

import math
from typing import Any, Dict, Sequence


class LRScheduler:
    """What all schedules have: a rate to begin with, and a warm-up of `warmup_steps` updates from `warmup_begin_lr`
    up to it, ``"linear"`` or ``"constant"``. ValueError: arguments that make no schedule."""

    _kind = ""

    def __init__(self, base_lr: float = 0.01, warmup_steps: int = 0, warmup_begin_lr: float = 0,
                 warmup_mode: str = "linear") -> None:
        self.base_lr = base_lr
        self._first_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_begin_lr = warmup_begin_lr
        self.warmup_mode = warmup_mode

    def _own(self) -> Dict[str, Any]:
        raise NotImplementedError("use FactorScheduler, MultiFactorScheduler, PolyScheduler or CosineScheduler")

    def _params(self) -> Dict[str, Any]:
        return dict(self._own(), base_lr=self._first_lr, warmup_steps=self.warmup_steps,
                    warmup_begin_lr=self.warmup_begin_lr, warmup_mode=self.warmup_mode)

    def _check(self) -> None:
        from .optimizer import SGD

        SGD(lr_scheduler=self)

    def get_warmup_lr(self, num_update: int) -> float:
        """The rate at an update during warm-up."""
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        rise = (self._first_lr - self.warmup_begin_lr) * num_update / self.warmup_steps
        return self.warmup_begin_lr + rise

    def _advance(self, num_update: int) -> None:
        raise NotImplementedError

    def __call__(self, num_update: int) -> float:
        """The rate at this count of updates."""
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        self._advance(num_update)
        return self.base_lr


class FactorScheduler(LRScheduler):
    """Multiply the rate by `factor` every `step` updates, down to `stop_factor_lr`.

    >>> import kvstore
    >>> schedule = kvstore.lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=1.0)
    >>> [schedule(n) for n in range(1, 6)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    _kind = "factor"

    def __init__(self, step: int, factor: float = 1, stop_factor_lr: float = 1e-8, base_lr: float = 0.01,
                 warmup_steps: int = 0, warmup_begin_lr: float = 0, warmup_mode: str = "linear") -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.step, self.factor, self.stop_factor_lr = step, factor, stop_factor_lr
        self._counted = 0
        self._check()

    def _own(self) -> Dict[str, Any]:
        return {"step": self.step, "factor": self.factor, "stop_factor_lr": self.stop_factor_lr}

    def _advance(self, num_update: int) -> None:
        while num_update > self._counted + self.step:
            self._counted += self.step
            self.base_lr = max(self.base_lr * self.factor, self.stop_factor_lr)


class MultiFactorScheduler(LRScheduler):
    """Multiply the rate by `factor` after each count of updates in `step`, which increase."""

    _kind = "multifactor"

    def __init__(self, step: Sequence[int], factor: float = 1, base_lr: float = 0.01, warmup_steps: int = 0,
                 warmup_begin_lr: float = 0, warmup_mode: str = "linear") -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.step = list(step)
        self.factor = factor
        self._passed = 0
        self._check()

    def _own(self) -> Dict[str, Any]:
        return {"step": self.step, "factor": self.factor}

    def _advance(self, num_update: int) -> None:
        while self._passed < len(self.step) and num_update > self.step[self._passed]:
            self._passed += 1
            self.base_lr *= self.factor


class PolyScheduler(LRScheduler):
    """From the end of warm-up to `max_update` the rate falls to `final_lr` as a power of what is left."""

    _kind = "poly"

    def __init__(self, max_update: int, base_lr: float = 0.01, pwr: float = 2, final_lr: float = 0,
                 warmup_steps: int = 0, warmup_begin_lr: float = 0, warmup_mode: str = "linear") -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.max_update, self.power, self.final_lr = max_update, pwr, final_lr
        self._check()

    def _own(self) -> Dict[str, Any]:
        return {"max_update": self.max_update, "pwr": self.power, "final_lr": self.final_lr}

    def _advance(self, num_update: int) -> None:
        if num_update <= self.max_update:
            progress = (num_update - self.warmup_steps) / (self.max_update - self.warmup_steps)
            self.base_lr = self.final_lr + (self._first_lr - self.final_lr) * (1 - progress) ** self.power


class CosineScheduler(LRScheduler):
    """From the end of warm-up to `max_update` the rate falls to `final_lr` along half a cosine."""

    _kind = "cosine"

    def __init__(self, max_update: int, base_lr: float = 0.01, final_lr: float = 0, warmup_steps: int = 0,
                 warmup_begin_lr: float = 0, warmup_mode: str = "linear") -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.max_update, self.final_lr = max_update, final_lr
        self._check()

    def _own(self) -> Dict[str, Any]:
        return {"max_update": self.max_update, "final_lr": self.final_lr}

    def _advance(self, num_update: int) -> None:
        if num_update <= self.max_update:
            progress = (num_update - self.warmup_steps) / (self.max_update - self.warmup_steps)
            self.base_lr = self.final_lr + (self._first_lr - self.final_lr) * (1 + math.cos(math.pi * progress)) / 2
