"""`auto_batch`: a training whose batches grow as its noise allows, as an Optax transformation."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from gladstorm.core import equations
from gladstorm.core.batch_control import BatchControl, begin
from gladstorm.core.parts import Array
from gladstorm.core.rules import COUNT
from gladstorm.optax.noise import inner, squares
from gladstorm.optax.options import axes_of
from gladstorm.optax.scale_batch import RULES, known_arguments
from gladstorm.optax.trees import Tree, cast_like, copy, drop_without_gradient, zero_estimate


class AutoBatchState(NamedTuple):
    """State of a training whose batches grow; between steps where `micro` is 0."""

    steps: Array  # of the optimizer
    first: Array  # samples of a step of the first size
    micro: Array  # micro-batches of this step so far
    mean: Tree  # of their gradients
    squares: Array  # Σ of their squared lengths
    previous: Tree  # the mean gradient of the step before
    followed: Array  # whether that step was looked at
    control: BatchControl
    scaled: Array  # whether the optimizer's numbers have changed since the start
    length: Array  # the factor of its learning rate
    numbers: dict[str, Array]  # its momenta, weight decay and eps
    inner: Any  # its own state


def auto_batch(
    optimizer: Callable[..., Any],
    *,
    budget: int,
    micro: int,
    accumulate: int = 2,
    pace: str = "safe",
    largest: int = 32,
    dry_run: bool = False,
    before: optax.GradientTransformation | None = None,
    **arguments: Any,
) -> optax.GradientTransformationExtraArgs:
    """Let batches grow by accumulation, as soon as the noise of gradients allows it: `gladstorm.torch.AutoBatch`.

    Each call of `update` takes the mean gradient of a micro-batch, as `optax.MultiSteps` does, and until a step has all
    of its micro-batches the updates are 0. Numbers that change are in the state, so that nothing is compiled again, and
    a checkpoint of the state resumes to the bit. Micro-batches must keep their size. A schedule counts steps of the
    first size, and is read in the middle of a step's samples. `read_batch` says what was decided, and why.

    Args:
        optimizer: optax.sgd, adam, adamw, lion, or `gladstorm.optax.nsgdm`: the function, since what it has made does
            not say which rule it needs.
        budget, micro: The samples that the training will see, and those in a micro-batch, on all devices.
        accumulate: Micro-batches in a step of the first size, at least 2.
        pace, largest, dry_run: As for `gladstorm.torch.AutoBatch`.
        before: What is done to the mean gradient of a step, such as `optax.clip_by_global_norm(1.0)`.
        **arguments: The optimizer's, tuned for steps of the first size.

    Raises:
        ValueError: If there is no rule for the optimizer.

    >>> optimizer = auto_batch(optax.sgd, budget=800, micro=2, learning_rate=0.01)
    >>> slope = jnp.zeros(3)
    >>> state = optimizer.init(slope)
    >>> for batch in 1 + 10 * jax.random.normal(jax.random.key(6), (400, 2, 3)):  # noise, mostly
    ...     updates, state = optimizer.update(jnp.mean(batch, axis=0), state)
    ...     slope = optax.apply_updates(slope, updates)
    >>> read_batch(state)["batch/size"] > 4, int(state.steps) < 200
    (True, True)
    """
    at_first = known_arguments("auto_batch", optimizer, arguments)
    counts = {"budget": budget, "micro": micro, "accumulate": accumulate}
    budget, micro, accumulate = (COUNT.whole("auto_batch", *each) for each in counts.items())
    if accumulate < 2:
        raise ValueError(
            "auto_batch: accumulate must be at least 2, since gradients of two micro-batches are compared; got "
            f"accumulate={accumulate}. Halve the micro-batch."
        )
    control, every = begin("auto_batch", budget / (micro * accumulate), pace, largest, sgd=optimizer is optax.sgd)
    rule, rate = RULES[optimizer], at_first["learning_rate"]
    changing = {name: at_first[name] for name in rule(at_first, 1.0, math.inf, jnp)[1] if not _is_zero(at_first[name])}

    def make(numbers: dict[str, Any]) -> optax.GradientTransformationExtraArgs:
        own = optimizer(**{**arguments, **numbers})
        return optax.with_extra_args_support(optax.chain(*(() if before is None else (before,)), own))

    def init(params: Tree) -> AutoBatchState:
        mean = zero_estimate(params)
        blank = (0, micro * accumulate, 0, mean, 0.0, mean, False, control, False, 1.0, changing)
        return AutoBatchState(*(*jax.tree.map(copy, blank), make({"learning_rate": 0.0}).init(params)))

    def look(state: AutoBatchState) -> AutoBatchState:
        n = state.micro.astype(state.squares.dtype)
        noise, gradient2 = equations.noise_and_gradient2(n, state.squares, n**2 * squares(state.mean))
        agreement = jnp.where(state.followed, inner(state.mean, state.previous), jnp.nan)
        after = state.control.look(noise * micro / state.first, gradient2, agreement, jnp)
        usable = jnp.isfinite(noise + gradient2)
        seen = jax.tree.map(lambda new, old: jnp.where(usable, new, old), after, state.control)
        return state._replace(control=seen, followed=usable, previous=state.mean)

    def move(like: Tree, grads: Tree, state: AutoBatchState, params: Tree, extra: dict[str, Any]) -> tuple[Tree, Any]:
        now = rate(state.control.progress + worth(state) // 2) if callable(rate) else rate

        def by(numbers: dict[str, Any]) -> tuple[Tree, Any]:
            changes, own = make(numbers).update(cast_like(state.mean, grads), state.inner, params, **extra)
            return cast_like(changes, like), cast_like(own, state.inner)

        scaled = {**state.numbers, "learning_rate": state.length * now}
        # Traced numbers round otherwise than Python's: until they change, these are what is meant.
        return tuple(jax.lax.cond(state.scaled, lambda: by(scaled), lambda: by({"learning_rate": now})))

    def worth(state: AutoBatchState) -> Any:
        return 1 if dry_run else state.control.factor

    def advance(state: AutoBatchState) -> AutoBatchState:
        control = state.control.advance(worth(state), jnp)
        change = control.factor / state.control.factor

        def scale(old: AutoBatchState) -> AutoBatchState:
            length, numbers, in_state = rule({**at_first, **old.numbers}, change, old.control.usable(jnp), jnp)

            def changed(path: tuple[Any, ...], leaf: Array) -> Any:
                return leaf * math.prod(in_state.get(getattr(key, "name", ""), 1) for key in path)

            *others, own = old.inner
            own = jax.tree.map_with_path(changed, own)
            new = old._replace(scaled=jnp.asarray(True), length=old.length * length, inner=(*others, own))
            return AutoBatchState(*cast_like(new._replace(numbers={name: numbers[name] for name in changing}), old))

        state = jax.lax.cond((change != 1) & (not dry_run), scale, lambda state: state, state)
        blank = jax.tree.map(jnp.zeros_like, (state.micro, state.mean, state.squares))
        state = state._replace(control=control, steps=state.steps + 1)
        return state._replace(**dict(zip(("micro", "mean", "squares"), blank, strict=True)))

    def update(updates: Tree, state: AutoBatchState, params: Tree = None, **extra: Any) -> tuple[Tree, AutoBatchState]:
        if axes := axes_of(updates):
            raise ValueError(
                f"auto_batch: gradients must be the same on all devices inside jax.shard_map; got some along "
                f"{', '.join(axes)}. Take their mean with jax.lax.pmean; sharded parameters need jax.jit."
            )
        params = None if params is None else drop_without_gradient(params, updates)
        like, n, into = updates if params is None else params, state.micro + 1, state.steps % every
        looked = (into == 0) | (into == every - 1)
        mean = jax.tree.map(lambda m, g: m + (g - m) / n, state.mean, updates)
        length2 = jax.lax.cond(looked, squares, lambda _: jnp.zeros_like(state.squares), updates)
        heard = cast_like(state._replace(micro=n, mean=mean, squares=state.squares + length2), state)

        def step(state: AutoBatchState) -> tuple[Tree, AutoBatchState]:
            state = jax.lax.cond(looked, look, lambda state: state._replace(followed=False), state)
            changes, own = move(like, updates, state, params, extra)
            return changes, cast_like(advance(state._replace(inner=own)), state)

        def wait(state: AutoBatchState) -> tuple[Tree, AutoBatchState]:
            return jax.tree.map(jnp.zeros_like, like), state

        return jax.lax.cond(n * micro >= state.first * worth(state), step, wait, heard)  # type: ignore[no-any-return]

    return optax.GradientTransformationExtraArgs(init, update)


def _is_zero(number: Any) -> bool:
    return isinstance(number, int | float) and number == 0


def read_batch(state: Any) -> dict[str, Any]:
    """Numbers for a dashboard, as `gladstorm.torch.AutoBatch.reading` has them.

    Args:
        state: That of `auto_batch`, or of a chain or any transformation around it.
    """
    nodes = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, AutoBatchState))
    own = next((node for node in nodes if isinstance(node, AutoBatchState)), None)
    if own is None:
        raise ValueError("read_batch: state must be of auto_batch, or of a transformation around it; got another.")
    control = jax.tree.map(lambda number: number.item(), own.control)
    return control.reading(int(own.first), int(own.steps), float(own.length))  # type: ignore[no-any-return]
