"""The second-order finish: damped Gauss-Newton steps on all weights of a small model at once.

Simulated data have no noise, so that only the optimiser limits the precision: a first-order method gains little once
its error falls as the root of the updates, and a few dozen Gauss-Newton steps go on by an order of magnitude. One
iteration:

1. Jacobians of a sample of windows make J'J (float32), and its damped Cholesky factor a preconditioner.
2. A fixed, large sample gives loss and gradient (float64). Another one gives products with its J'J: conjugate
   gradients solve the damped Gauss-Newton system without its matrix. (J'J of few rows alone misjudges the stiff
   directions, and its steps overshoot.)
3. The fixed sample chooses the length of the step; the damping follows the gain. 2 and 3 are done ``SOLVES`` times.

The sample of the gradient has a hundred residuals a weight, so that fitting it is fitting the data. With a fresh one
each time the noise of the gradient, which rare states dominate, hid what was left to gain, and the finish stalled.
For the same reason states far from the mean are drawn more often than they occur and weighted down by as much;
beyond ``FAR`` they count less.

Everything is a function of weights, damping, seed and the iteration's number: a resumed run takes the same steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.func import functional_call, jacrev, jvp, vjp, vmap

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.training.loss import StateLoss
from flashnerd_ext.training.windows import Windows

MOST_WEIGHTS = 15_000
"""Its Cholesky factor takes 0.9 GB and half a minute of one core; beyond, the finish is refused."""
ROWS = 3.0
"""Residuals behind the preconditioner, in multiples of the weights."""
SOLVES = 6
"""Steps from one preconditioner."""
SHARE = 0.2
"""Frames behind the products with J'J, as a share of those behind the gradient."""
PRODUCTS = 14
"""Most products with J'J in a solve."""
SOLVED = 1e-4
"""A solve ends when its squared residual, in the preconditioner's measure, fell by this."""
LENGTHS = (1.0, 0.5, 0.25, 0.1)
"""Lengths of a step that are tried, until the loss no longer falls."""
LEAST_RIDGE = 1e-4
"""Least damping of the float32 factor; the damping of the system itself may go lower."""
POWER = 2.0
"""Windows are drawn in proportion to (1 + squared distance from the mean) ^ POWER."""
FAR = 12.0
"""Squared distance (mean over features, in standard deviations) beyond which residuals count less."""
_CHUNK = 4096

Weights = dict[str, Tensor]


@dataclass
class Gain:
    """What one iteration did."""

    before: float
    """Weighted loss on the fixed sample before the last step."""
    after: float
    """The same after it."""
    length: float
    """Length of that step; 0 when it was refused."""


class GaussNewton:
    """See the module's text.

    Args:
        model: Made float64 here and changed in place; it must not need contact rows.
        loss: Its residuals are what is minimised.
        windows: Training windows.
        seed: Seed of the samples.
        frames: Frames in the sample that gives loss and gradient.
        uniform: Draw uniformly and weigh all rows the same.

    Attributes:
        damping: Of the system, relative to its diagonal.

    Raises:
        FlashNerdError: When the model has too many weights, or works on contact rows.
    """

    def __init__(
        self, model: DynamicsModel, loss: StateLoss, windows: Windows, seed: int, frames: int, uniform: bool = False
    ) -> None:
        refuse(model)
        self.model = model.double()
        self.loss, self.seed, self.damping = loss, seed, 1e-3
        self.mean, self.std, self.power = model.frame_norm.mean, model.frame_norm.std, 0.0 if uniform else POWER
        self.windows = replace(windows)
        self.windows.emphasise(self.mean.cpu(), self.std.cpu(), self.power)
        self.sample = self._draw(max(1, frames // windows.length), 1)
        self.names = [name for name, _ in model.named_parameters()]
        self.sizes = [parameter.numel() for parameter in model.parameters()]
        self.shapes = [parameter.shape for parameter in model.parameters()]
        # Weights without any effect (keys of an attention that sees one frame) would only cost.
        self.live = self._jacobian(self.theta(), self._draw(64, 0)[0]).abs().sum(0) > 0
        self.count = int(self.live.sum())

    def iterate(self, number: int) -> Gain:
        """Iteration ``number``, 0 first: change the model's weights and the damping."""
        theta = self.theta()
        scale, factor = self._preconditioner(theta, number)
        gain = Gain(0.0, 0.0, 0.0)
        for part in range(SOLVES):
            gradient = self._gradient(*self.sample)
            frames, _, weight = self._draw(max(1, round(SHARE * len(self.sample[0]))), 2 * number + 3, part)
            move = self._solve(gradient, self._products(theta, frames, weight), scale, factor)
            theta, gain = self._take(theta, move, float(-gradient @ move))
            self._put(theta)
        return gain

    def theta(self) -> Tensor:
        """All weights in one vector, float64."""
        return torch.cat([parameter.detach().flatten() for parameter in self.model.parameters()])

    def _put(self, theta: Tensor) -> None:
        with torch.no_grad():
            for name, value in self._split(theta).items():
                self.model.get_parameter(name).copy_(value)

    def _split(self, theta: Tensor) -> Weights:
        parts = zip(self.names, self.shapes, theta.split(self.sizes), strict=True)
        return {name: part.view(shape) for name, shape, part in parts}

    def _whole(self, live: Tensor) -> Tensor:
        whole = live.new_zeros(len(self.live))
        whole[self.live] = live
        return whole

    def _draw(self, count: int, stream: int, part: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Frames [count, T, F], targets [count, T, O] and the factor of each frame's residuals [count, T, 1]."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + 2_000_000_000 + 10 * stream + part)
        frames, targets, _ = self.windows.batch(self.windows.draw(count, generator))
        frames, targets = frames.to(self.mean.device).double(), targets.to(self.mean.device).double()
        distance = ((frames - self.mean) / self.std).square().mean(-1, keepdim=True)
        weight = (1.0 + distance).pow(-0.5 * self.power) * (FAR / distance).clamp(max=1.0).pow(3)
        return frames, targets, weight if self.power else torch.ones_like(weight)

    def _residuals(self, weights: Weights, frames: Tensor) -> Tensor:
        out = functional_call(self.model, weights, (frames,))
        return self.loss.residuals(out, torch.zeros_like(out))

    def _jacobian(self, theta: Tensor, frames: Tensor) -> Tensor:
        """Rows of all residuals of the windows, float32 [B T O, all weights]."""
        weights = self._split(theta.float())
        rows = vmap(jacrev(lambda w, window: self._residuals(w, window[None]).flatten()), in_dims=(None, 0))
        parts = rows(weights, frames.float())
        return torch.cat([parts[name].flatten(0, 1).flatten(1) for name in self.names], 1)

    @torch.no_grad()
    def _preconditioner(self, theta: Tensor, number: int) -> tuple[Tensor, Tensor]:
        """Scale [P] and lower Cholesky factor [P, P] of the damped, unit-diagonal J'J, float32."""
        length, outputs = self.windows.length, self.model.out_size
        frames, _, weight = self._draw(max(1, round(ROWS * self.count / (length * outputs))), 2 * number + 2)
        gram = torch.zeros((self.count, self.count), device=theta.device)
        chunk = max(1, _CHUNK // (length * outputs))
        for part, factor in zip(frames.split(chunk), weight.float().split(chunk), strict=True):
            rows = self._jacobian(theta, part)[:, self.live]
            add_gram(gram, rows * factor.expand(-1, -1, outputs).reshape(-1, 1))
        gram /= len(frames) * length
        diagonal = gram.diagonal()
        scale = (diagonal + 1e-8 * diagonal.mean()).rsqrt()
        gram = gram * scale[:, None] * scale
        ridge = max(self.damping, LEAST_RIDGE)
        while True:
            gram.diagonal().fill_(1.0 + ridge)
            factor, info = torch.linalg.cholesky_ex(gram, upper=True)
            if not int(info):
                return scale.double(), factor
            ridge *= 10.0

    def _gradient(self, frames: Tensor, targets: Tensor, weight: Tensor) -> Tensor:
        """Half the gradient of the mean squared weighted residual, float64 [P]."""
        self.model.zero_grad(set_to_none=True)
        for f, t, w in zip(frames.split(_CHUNK), targets.split(_CHUNK), weight.split(_CHUNK), strict=True):
            residual = self.loss.residuals(self.model.sequence(f), t) * w
            (0.5 * residual.square().sum() / weight.numel()).backward()
        parts = [
            (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).flatten()
            for parameter in self.model.parameters()
        ]
        self.model.zero_grad(set_to_none=True)
        return torch.cat(parts)[self.live]

    def _products(self, theta: Tensor, frames: Tensor, weight: Tensor) -> Callable[[Tensor], Tensor]:
        """The map v [P] -> J'J v of a sample; J in float32."""
        weights = self._split(theta.float())
        share = (weight.square() / weight.numel()).float()
        chunks = list(zip(frames.float().split(_CHUNK), share.split(_CHUNK), strict=True))

        def product(vector: Tensor) -> Tensor:
            tangent = self._split(self._whole(vector).float())
            total = torch.zeros_like(theta)
            for f, w in chunks:

                def residuals(values: Weights, f: Tensor = f) -> Tensor:
                    return self._residuals(values, f)

                forward = jvp(residuals, (weights,), (tangent,))[1]
                back = vjp(residuals, weights)[1](forward * w)[0]
                total += torch.cat([back[name].flatten() for name in self.names]).double()
            return total[self.live]

        return product

    def _solve(self, gradient: Tensor, product: Callable[[Tensor], Tensor], scale: Tensor, factor: Tensor) -> Tensor:
        """(J'J + damping diag) move = -gradient, by preconditioned conjugate gradients, float64 [P]."""

        def precondition(vector: Tensor) -> Tensor:
            # The residual shrinks below what float32 resolves beside 1: solve for its direction.
            size = vector.norm()
            right = (scale * vector / size).float()[:, None]
            return scale * size * torch.cholesky_solve(right, factor, upper=True)[:, 0].double()

        ridge = self.damping / scale.square()
        move, residual = torch.zeros_like(gradient), -gradient
        turned = precondition(residual)
        direction, size = turned, residual @ turned
        first = size
        for _ in range(PRODUCTS):
            image = product(direction) + ridge * direction
            along = size / (direction @ image)
            move = move + along * direction
            residual = residual - along * image
            turned = precondition(residual)
            now = residual @ turned
            if now < SOLVED * first:
                break
            direction, size = turned + now / size * direction, now
        return move

    def _take(self, theta: Tensor, move: Tensor, promised: float) -> tuple[Tensor, Gain]:
        """The best of some lengths of a step; the damping follows the gain."""
        before = self._loss(theta, *self.sample)
        whole, best, kept, length = self._whole(move), before, theta, 0.0
        for trial in LENGTHS:
            moved = theta + trial * whole
            loss = self._loss(moved, *self.sample)
            if loss < best:
                best, kept, length = loss, moved, trial
            elif length:
                break
        if length == 1.0 and before - best > 0.5 * promised:
            self.damping = max(self.damping / 2.0, 1e-10)
        elif length < 1.0:
            self.damping = min(self.damping * (1.5 if length == 0.5 else 3.0 if length else 10.0), 10.0)
        return kept, Gain(before, best, length)

    @torch.no_grad()
    def _loss(self, theta: Tensor, frames: Tensor, targets: Tensor, weight: Tensor) -> float:
        """Mean squared weighted residual, float64."""
        weights, total = self._split(theta), 0.0
        for f, t, w in zip(frames.split(_CHUNK), targets.split(_CHUNK), weight.split(_CHUNK), strict=True):
            out = functional_call(self.model, weights, (f,))
            total += float((self.loss.residuals(out, t) * w).square().sum())
        return total / weight.numel()


def add_gram(gram: Tensor, rows: Tensor, strip: int = 768) -> None:
    """Add rows' rows to the upper triangle of ``gram`` [P, P], in place: half the work of the whole product."""
    for begin in range(0, len(gram), strip):
        end = min(begin + strip, len(gram))
        gram[begin:end, begin:].addmm_(rows[:, begin:end].T, rows[:, begin:])


def refuse(model: DynamicsModel, processes: int = 1) -> None:
    """Say what the finish cannot handle, before time is spent on what comes first.

    Raises:
        FlashNerdError: When the model has too many weights or works on contact rows, or under torchrun.
    """
    if processes > 1:
        raise FlashNerdError(f"train.newton works in one process, but there are {processes}: type train.newton=0.")
    if model.rows_capacity:
        raise FlashNerdError("train.newton works for models without contact rows only: type train.newton=0.")
    if model.parameter_count() > MOST_WEIGHTS:
        raise FlashNerdError(
            f"train.newton works on at most {MOST_WEIGHTS:,} weights, but this model has {model.parameter_count():,}: "
            "type smaller options.width= and options.hidden=, or train.newton=0."
        )
