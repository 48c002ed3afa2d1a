# SPDX-License-Identifier: Apache-2.0
"""Optimizers, with MXNet's names of classes and parameters. They run inside the library: an object here says
which one, and with what parameters.

Parameters that all have: `learning_rate` (each optimizer has a default of its own), `wd`, `rescale_grad`,
`clip_gradient` (None and 0: off), `multi_precision`, `begin_num_update`, `lr_scheduler`, and `param_idx2name`, a
dict of names by key. A learning rate that is named together with a schedule replaces the schedule's own.
ValueError: an unknown parameter, or a value that it doesn't take.

>>> import kvstore, numpy as np
>>> kv = kvstore.create()
>>> kv.init(3, np.zeros((2, 2), "f4"))
>>> kv.set_optimizer(kvstore.optimizer.SGD(learning_rate=0.5, momentum=0.9))
>>> kv.push(3, np.ones((2, 2), "f4"))
>>> out = np.empty((2, 2), "f4")
>>> kv.pull(3, out=out)
>>> out
array([[-0.5, -0.5],
       [-0.5, -0.5]], dtype=float32)
"""

import os
import tempfile
from ctypes import byref, c_void_p, sizeof
from typing import Any, Dict, List, Optional, Tuple, Type, Union

from ._arrays import fill, key_of
from ._library import Multiplier, OptimizerSpec, ParamName, Tensor, lib
from ._params import params_of
from ._plain import NotCopied, path_of
from .errors import KVStoreStateError, KVStoreTypeError, KVStoreValueError, Status, check
from .lr_scheduler import LRScheduler

# How the arithmetic is arranged, in MXNet; here it is always fused.
_ARRANGEMENT = ("aggregate_num", "use_fused_step")


class _Spec:
    """An optimizer as the C library takes it, and what its pointers point to."""

    def __init__(self, optimizer: "Optimizer") -> None:
        self.keep: List[Any] = []
        spec = OptimizerSpec(sizeof(OptimizerSpec))
        spec.name = optimizer.name.encode()
        spec.params, spec.n_params = self._params(optimizer.params, optimizer.name)
        spec.lr_mult, spec.n_lr_mult = self._multipliers(optimizer.lr_mult)
        spec.wd_mult, spec.n_wd_mult = self._multipliers(optimizer.wd_mult)
        names = (ParamName * max(len(optimizer.idx2name), 1))()
        for struct, (key, name) in zip(names, optimizer.idx2name.items()):
            self._set_key(struct, key)
            struct.name = name.encode()
        self.keep.append(names)
        spec.names, spec.n_names = names, len(optimizer.idx2name)
        if optimizer.lr_scheduler is not None:
            spec.schedule = optimizer.lr_scheduler._kind.encode()
            spec.schedule_params, spec.n_schedule_params = self._params(
                optimizer.lr_scheduler._params(), f"schedule {optimizer.lr_scheduler._kind!r}")
        self.struct = spec

    def _params(self, params: Dict[str, Any], about: str) -> Tuple[Any, int]:
        made = params_of(params, about)
        self.keep.append(made)
        return made, len(params)

    def _set_key(self, struct: Any, key: Any) -> None:
        made = key_of(key)
        struct.key.str, struct.key.num = made.str, made.num

    def _multipliers(self, multipliers: Dict[Any, float]) -> Tuple[Any, int]:
        made = (Multiplier * max(len(multipliers), 1))()
        for struct, (key, value) in zip(made, multipliers.items()):
            self._set_key(struct, key)
            struct.value = float(value)
        self.keep.append(made)
        return made, len(multipliers)


class Optimizer:
    """An optimizer and its parameters. The classes below are those of this project; :func:`create` makes one of
    any optimizer that is installed, by name."""

    def __init__(self, name: Optional[str] = None, learning_rate: Optional[float] = None,
                 lr_scheduler: Optional[LRScheduler] = None, param_idx2name: Optional[Dict[Any, str]] = None,
                 **params: Any) -> None:
        self.name = (name or type(self).__name__).lower()
        for ignored in _ARRANGEMENT:
            params.pop(ignored, None)
        if learning_rate is not None:
            params["learning_rate"] = learning_rate
        if lr_scheduler is not None and not isinstance(lr_scheduler, LRScheduler):
            raise KVStoreTypeError(f"{self.name}: lr_scheduler is one of kvstore.lr_scheduler, not "
                                   f"{type(lr_scheduler).__name__}", Status.ERR_ARGUMENT)
        if lr_scheduler is not None and learning_rate is not None:
            lr_scheduler.base_lr = learning_rate  # as in MXNet: what it shows until it computes one
        self.params = params
        self.lr_scheduler = lr_scheduler
        self.idx2name: Dict[Any, str] = dict(param_idx2name or {})
        self.lr_mult: Dict[Any, float] = {}
        self.wd_mult: Dict[Any, float] = {}
        handle = c_void_p()
        check(lib.kvs_optimizer_create(byref(self._spec().struct), byref(handle)))
        lib.kvs_optimizer_free(handle)

    def _spec(self) -> _Spec:
        return _Spec(self)

    def set_lr_mult(self, args_lr_mult: Dict[Any, float]) -> None:
        """Multipliers of the learning rate, by key or by a key's name. Before the optimizer is given to a store."""
        self.lr_mult = dict(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: Dict[Any, float]) -> None:
        """Multipliers of weight decay, by key or by a key's name. Before the optimizer is given to a store."""
        self.wd_mult = dict(args_wd_mult)

    def set_learning_rate(self, lr: float) -> None:
        """The learning rate, before the optimizer is given to a store. RuntimeError: there is a schedule."""
        if self.lr_scheduler is not None:
            raise KVStoreStateError(f"{self.name}: the learning rate follows the schedule "
                                    f"{self.lr_scheduler._kind!r}", Status.ERR_STATE)
        self.params["learning_rate"] = lr

    @property
    def learning_rate(self) -> Optional[float]:
        """As given, or what the schedule has come to; None: the optimizer's default."""
        if self.lr_scheduler is not None:
            return self.lr_scheduler.base_lr
        return self.params.get("learning_rate")

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.params.items())
        return f"<kvstore optimizer {self.name}({given})>"


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum. Learning rate 0.01."""

    def __init__(self, learning_rate: Optional[float] = None, momentum: float = 0.0, lazy_update: bool = False,
                 **params: Any) -> None:
        super().__init__("sgd", learning_rate, momentum=momentum, lazy_update=lazy_update, **params)


class NAG(Optimizer):
    """Nesterov's accelerated gradient. Learning rate 0.1."""

    def __init__(self, learning_rate: Optional[float] = None, momentum: float = 0.9, **params: Any) -> None:
        super().__init__("nag", learning_rate, momentum=momentum, **params)


class Signum(Optimizer):
    """Steps of one size, in the direction of the mean's sign. Learning rate 0.01."""

    def __init__(self, learning_rate: Optional[float] = None, momentum: float = 0.9, wd_lh: float = 0.0,
                 **params: Any) -> None:
        super().__init__("signum", learning_rate, momentum=momentum, wd_lh=wd_lh, **params)


class Adam(Optimizer):
    """Steps scaled by running mean and variance of the gradient. Learning rate 0.001."""

    def __init__(self, learning_rate: Optional[float] = None, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8, lazy_update: bool = False, **params: Any) -> None:
        super().__init__("adam", learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon, lazy_update=lazy_update,
                         **params)


class AdamW(Optimizer):
    """Adam with weight decay outside of the scaling. Learning rate 0.001."""

    def __init__(self, learning_rate: Optional[float] = None, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-6, correct_bias: bool = True, **params: Any) -> None:
        super().__init__("adamw", learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon, correct_bias=correct_bias,
                         **params)


class AdaBelief(Optimizer):
    """Adam scaled by how far gradients are from their mean. Learning rate 0.001."""

    def __init__(self, learning_rate: Optional[float] = None, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-6, correct_bias: bool = True, **params: Any) -> None:
        super().__init__("adabelief", learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon,
                         correct_bias=correct_bias, **params)


class Adamax(Optimizer):
    """Adam scaled by the largest gradient of late. Learning rate 0.002."""

    def __init__(self, learning_rate: Optional[float] = None, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8, **params: Any) -> None:
        super().__init__("adamax", learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon, **params)


class Nadam(Optimizer):
    """Adam with Nesterov's momentum. Learning rate 0.001."""

    def __init__(self, learning_rate: Optional[float] = None, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8, schedule_decay: float = 0.004, **params: Any) -> None:
        super().__init__("nadam", learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon,
                         schedule_decay=schedule_decay, **params)


class LAMB(Optimizer):
    """Adam with a rate for each layer, from norms. Learning rate 0.001."""

    def __init__(self, learning_rate: Optional[float] = None, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-6, lower_bound: Optional[float] = None, upper_bound: Optional[float] = None,
                 bias_correction: bool = True, **params: Any) -> None:
        super().__init__("lamb", learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon, lower_bound=lower_bound,
                         upper_bound=upper_bound, bias_correction=bias_correction, **params)


class LANS(Optimizer):
    """LAMB with gradients of norm 1 and Nesterov's momentum. Learning rate 0.001."""

    def __init__(self, learning_rate: Optional[float] = None, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-6, lower_bound: Optional[float] = None, upper_bound: Optional[float] = None,
                 **params: Any) -> None:
        super().__init__("lans", learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon, lower_bound=lower_bound,
                         upper_bound=upper_bound, **params)


class LARS(Optimizer):
    """SGD with a rate for each layer, from norms. Learning rate 0.1."""

    def __init__(self, learning_rate: Optional[float] = None, momentum: float = 0.0, eta: float = 0.001,
                 epsilon: float = 1e-8, **params: Any) -> None:
        super().__init__("lars", learning_rate, momentum=momentum, eta=eta, epsilon=epsilon, **params)


class AdaGrad(Optimizer):
    """Steps scaled by the sum of all squared gradients. Learning rate 0.01."""

    def __init__(self, learning_rate: Optional[float] = None, epsilon: float = 1e-6, **params: Any) -> None:
        super().__init__("adagrad", learning_rate, epsilon=epsilon, **params)


class GroupAdaGrad(Optimizer):
    """AdaGrad with one scale for each row, for embeddings. Learning rate 0.01."""

    def __init__(self, learning_rate: Optional[float] = None, epsilon: float = 1e-6, **params: Any) -> None:
        super().__init__("groupadagrad", learning_rate, epsilon=epsilon, **params)


class AdaDelta(Optimizer):
    """Steps scaled by running means of squared gradients and steps. Learning rate 1."""

    def __init__(self, learning_rate: Optional[float] = None, rho: float = 0.9, epsilon: float = 1e-6,
                 **params: Any) -> None:
        super().__init__("adadelta", learning_rate, rho=rho, epsilon=epsilon, **params)


class RMSProp(Optimizer):
    """Steps scaled by the running mean of squared gradients. Learning rate 0.001."""

    def __init__(self, learning_rate: Optional[float] = None, rho: float = 0.9, momentum: float = 0.9,
                 epsilon: float = 1e-8, centered: bool = False, clip_weights: Optional[float] = None,
                 **params: Any) -> None:
        super().__init__("rmsprop", learning_rate, rho=rho, momentum=momentum, epsilon=epsilon, centered=centered,
                         clip_weights=clip_weights, **params)


class Ftrl(Optimizer):
    """Follow the regularised leader. Learning rate 0.1."""

    def __init__(self, learning_rate: Optional[float] = None, lamda1: float = 0.01, beta: float = 1.0,
                 **params: Any) -> None:
        super().__init__("ftrl", learning_rate, lamda1=lamda1, beta=beta, **params)


class FTML(Optimizer):
    """Follow the moving leader. Learning rate 0.0025."""

    def __init__(self, learning_rate: Optional[float] = None, beta1: float = 0.6, beta2: float = 0.999,
                 epsilon: float = 1e-8, **params: Any) -> None:
        super().__init__("ftml", learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon, **params)


class DCASGD(Optimizer):
    """SGD that makes up for delayed gradients. Learning rate 0.1."""

    def __init__(self, learning_rate: Optional[float] = None, momentum: float = 0.0, lamda: float = 0.04,
                 **params: Any) -> None:
        super().__init__("dcasgd", learning_rate, momentum=momentum, lamda=lamda, **params)


class Test(Optimizer):
    """Plain steps, for tests: any learning rate."""

    def __init__(self, learning_rate: Optional[float] = None, **params: Any) -> None:
        super().__init__("test", learning_rate, **params)


_CLASSES: Dict[str, Type[Optimizer]] = {
    one.__name__.lower(): one
    for one in (SGD, NAG, Signum, Adam, AdamW, AdaBelief, Adamax, Nadam, LAMB, LANS, LARS, AdaGrad, GroupAdaGrad,
                AdaDelta, RMSProp, Ftrl, FTML, DCASGD, Test)
}


def create(name: str, **params: Any) -> Optimizer:
    """An optimizer by its name, in any case: one of the classes here, or another that is installed
    (``kvstore info optimizers``). ValueError: no such optimizer; the text names near ones.

    >>> import kvstore
    >>> kvstore.optimizer.create("RMSProp", learning_rate=0.1).name
    'rmsprop'
    """
    if not isinstance(name, str):
        raise KVStoreTypeError(f"the name of an optimizer is a str, not {type(name).__name__}", Status.ERR_ARGUMENT)
    klass = _CLASSES.get(name.lower())
    return klass(**params) if klass is not None else Optimizer(name, **params)


class Updater(NotCopied):
    """An optimizer in the worker, for stores that keep no weights: made by :func:`get_updater`. Any thread; one call
    at a time runs."""

    def __init__(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            raise KVStoreTypeError("get_updater takes an optimizer of kvstore.optimizer, not "
                                   f"{type(optimizer).__name__}", Status.ERR_ARGUMENT)
        self.optimizer = optimizer
        self._handle = c_void_p()
        check(lib.kvs_optimizer_create(byref(optimizer._spec().struct), byref(self._handle)))

    def __call__(self, key: Any, grad: Any, weight: Any) -> None:
        """Change `weight` in place by `grad`, which stays as it is: dense arrays in host memory, of one shape and
        floating dtype; lists of keys take lists of arrays. ValueError: shapes; TypeError: dtypes, kinds."""
        if isinstance(key, (list, tuple)):
            if not len(key) == len(grad) == len(weight):
                raise KVStoreValueError(f"{len(key)} keys with {len(grad)} gradients and {len(weight)} weights",
                                        Status.ERR_ARGUMENT)
            for one in zip(key, grad, weight):
                self(*one)
            return
        keep: List[Any] = []
        tensors = Tensor(), Tensor()
        fill(tensors[0], grad, False, keep)
        fill(tensors[1], weight, True, keep)
        check(lib.kvs_optimizer_update(self._handle, key_of(key), byref(tensors[0]), byref(tensors[1])), about="key")

    def set_attr(self, name: str, value: Any) -> None:
        """Change learning_rate, wd, … for the updates after it."""
        check(lib.kvs_optimizer_set_attr(self._handle, params_of({name: value}, "set_attr")))

    def save_states(self, fname: Union[str, "os.PathLike[str]"], dump_optimizer: bool = False) -> None:
        """As ``save_optimizer_states`` of a store: the two read each other's files."""
        path = path_of(fname, "save_states")
        check(lib.kvs_optimizer_save_states(self._handle, path, int(bool(dump_optimizer))), about="file",
              path=os.fsdecode(path))

    def load_states(self, fname: Union[str, "os.PathLike[str]"]) -> None:
        """Replace all states by those of a file. On failure nothing has changed."""
        path = path_of(fname, "load_states")
        check(lib.kvs_optimizer_load_states(self._handle, path), about="file", path=os.fsdecode(path))

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """All states as bytes, in the format of the files."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "states")
            self.save_states(path, dump_optimizer)
            with open(path, "rb") as file:
                return file.read()

    def set_states(self, states: bytes) -> None:
        """Replace all states by those of :meth:`get_states`."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "states")
            with open(path, "wb") as file:
                file.write(states)
            self.load_states(path)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle:
            lib.kvs_optimizer_free(handle)


def get_updater(optimizer: Optimizer) -> Updater:
    """A function ``updater(key, grad, weight)`` that changes weights of the program's own.

    >>> import kvstore, numpy as np
    >>> updater = kvstore.optimizer.get_updater(kvstore.optimizer.SGD(learning_rate=0.5))
    >>> weight = np.ones(2, "f4")
    >>> updater("w", np.ones(2, "f4"), weight)
    >>> weight
    array([0.5, 0.5], dtype=float32)
    """
    return Updater(optimizer)
