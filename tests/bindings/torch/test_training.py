"""Quantisation-aware training of a two-layer MLP, beside the same loop with torch's own fake-quantise; int8 linear layers."""

import planck.torch as pt
import pytest
import torch
from torch import nn
from torch_problems import randn

STEPS = 60


def data():
    """A smooth function of 8 numbers, with seeds that never change."""
    x = randn(128, 8, seed=11)
    y = torch.sin(x @ randn(8, 3, seed=12)) + 0.5 * x[:, :3]
    return x, y


class Net(nn.Module):
    """Linear, ReLU, linear; `weights` and `activations` make what stands on weights and before each layer."""

    def __init__(self, weights, activations):
        super().__init__()
        torch.manual_seed(13)
        self.layers = nn.ModuleList([nn.Linear(8, 32), nn.Linear(32, 3)])
        self.weights = nn.ModuleList([weights(layer.weight) for layer in self.layers])
        self.activations = nn.ModuleList([activations() for _ in self.layers])

    def forward(self, x):
        for i, (layer, weight, activation) in enumerate(zip(self.layers, self.weights, self.activations, strict=True)):
            x = nn.functional.linear(activation(x), weight(layer.weight), layer.bias)
            x = x.relu() if i == 0 else x
        return x


def train(net):
    """The losses of each step. Scales are small numbers, and so are their steps."""
    x, y = data()
    small = [p for name, p in net.named_parameters() if name.endswith(("scale", "zero_point"))]
    optimizer = torch.optim.Adam([{"params": list(net.layers.parameters())}, {"params": small, "lr": 1e-4}], 0.02)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class TorchFakeQuantize(nn.Module):
    """The moving-average observer and torch's fake-quantise: per tensor, or per channel along 0."""

    def __init__(self, per_channel, symmetric, quant_min, quant_max, averaging_constant):
        super().__init__()
        self.per_channel, self.symmetric = per_channel, symmetric
        self.codes, self.constant = (quant_min, quant_max), averaging_constant
        self.range = None

    def forward(self, x):
        with torch.no_grad():
            now = torch.stack([x.amin(1), x.amax(1)] if self.per_channel else [x.min(), x.max()])
            self.range = now if self.range is None else self.range + self.constant * (now - self.range)
            least, largest = self.range[0].clamp(max=0), self.range[1].clamp(min=0)
            if self.symmetric:
                scale = torch.maximum(-least, largest) / self.codes[1]
                zero_point = torch.zeros_like(scale, dtype=torch.int32)
            else:
                scale = (largest - least) / (self.codes[1] - self.codes[0])
                zero_point = (self.codes[0] - torch.round(least / scale)).clamp(*self.codes).to(torch.int32)
        if self.per_channel:
            return torch.fake_quantize_per_channel_affine(x, scale, zero_point, 0, *self.codes)
        return torch.fake_quantize_per_tensor_affine(x, scale, zero_point, *self.codes)


BITS = {"8 bits": (-127, 127, -128, 127), "4 bits": (-7, 7, -8, 7)}


@pytest.mark.parametrize("bits", BITS)
def test_training_converges_and_is_torchs_at_every_step(bits):
    """Weights per channel and symmetric, activations per tensor; the reciprocal form, as torch has it."""
    w_low, w_high, a_low, a_high = BITS[bits]
    ours = train(
        Net(
            lambda w: pt.FakeQuantize(
                dim=0,
                mode="symmetric",
                quant_min=w_low,
                quant_max=w_high,
                averaging_constant=1.0,
                scale_form="reciprocal",
            ),
            lambda: pt.FakeQuantize(quant_min=a_low, quant_max=a_high, scale_form="reciprocal"),
        )
    )
    theirs = train(
        Net(
            lambda w: TorchFakeQuantize(True, True, w_low, w_high, 1.0),
            lambda: TorchFakeQuantize(False, False, a_low, a_high, 0.01),
        )
    )
    assert len(ours) == len(theirs) == STEPS
    for step, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert abs(a - b) <= 1e-5, step
    assert ours[-1] < 0.3 * ours[0]


def test_quantised_training_is_not_float_training():
    """The test above would prove little if nothing were quantised."""
    quantised = train(
        Net(
            lambda w: pt.FakeQuantize(dim=0, quant_min=-7, quant_max=7, averaging_constant=1.0),
            lambda: pt.FakeQuantize(quant_min=-8, quant_max=7),
        )
    )
    exact = train(Net(lambda w: nn.Identity(), lambda: nn.Identity()))
    assert max(abs(a - b) for a, b in zip(quantised, exact, strict=True)) > 1e-3


@pytest.mark.parametrize("scopes", ["tensor", "channel and token", "group"])
def test_training_converges_in_every_scope(scopes):
    weights, activations = {
        "tensor": ({}, {}),
        "channel and token": ({"dim": 0}, {"scope": "token", "observer": "dynamic"}),
        "group": ({"group_size": 3}, {"group_size": 3, "observer": "dynamic"}),
    }[scopes]
    losses = train(
        Net(lambda w: pt.FakeQuantize(averaging_constant=1.0, **weights), lambda: pt.FakeQuantize(**activations))
    )
    assert losses[-1] < 0.3 * losses[0]


def test_training_with_learnable_scales():
    """4-bit codes; scales and zero points are trained along."""
    given = {"quant_min": -8, "quant_max": 7, "learnable": True}
    learnt = Net(lambda w: pt.FakeQuantize(dim=0, shape=tuple(w.shape[:1]), **given), lambda: pt.FakeQuantize(**given))
    x, _ = data()
    learnt(x)
    before = {name: p.detach().clone() for name, p in learnt.named_parameters()}
    losses = train(learnt)
    assert losses[-1] < 0.4 * losses[0]
    assert len(before) == 4 + 2 * 4
    still = [name for name, p in learnt.named_parameters() if torch.equal(p, before[name])]
    # Activations that stay inside the range ask nothing of their zero point.
    assert set(still) <= {"activations.0.zero_point", "activations.1.zero_point"}


def test_bf16_training_converges():
    net = Net(lambda w: pt.FakeQuantize(dim=0, averaging_constant=1.0), lambda: pt.FakeQuantize()).bfloat16()
    x, y = (t.bfloat16() for t in data())
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]


# ---- int8 activations ----


def trained():
    torch.manual_seed(13)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    x, y = data()
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
    return net.requires_grad_(False)


@pytest.mark.parametrize("mode", ["symmetric", "asymmetric"])
def test_simulated_int8_activations_are_close(mode):
    net = trained()
    simulated = nn.Sequential(pt.DynamicQuantize(mode=mode), net[0], net[1], pt.DynamicQuantize(mode=mode), net[2])
    x, _ = data()
    want, got = net(x), simulated(x)
    error = (got - want).square().mean().sqrt() / want.square().mean().sqrt()
    assert 0 < error < 0.01
    coarse = nn.Sequential(pt.DynamicQuantize(mode=mode, quant_min=-7, quant_max=7), *net)(x)
    assert (coarse - want).abs().mean() > 4 * (got - want).abs().mean()


@pytest.mark.parametrize("mode", ["symmetric", "asymmetric"])
def test_an_int8_linear_layer_is_the_simulation(mode):
    """Codes of activations per token and weights per channel, an integer matmul, and one correction with the row sums
    of the weights: what a kernel does, against what the modules simulate."""
    layer, (x, _) = trained()[0], data()
    a = pt.dynamic_quantize(x, mode=mode, row_sum=True)
    w = pt.dynamic_quantize(layer.weight, mode=mode, scope="channel", dim=0, row_sum=True)
    assert torch.equal(a.row_sum, a.q.sum(-1, dtype=torch.int32)) and torch.equal(
        w.row_sum, w.q.sum(1, dtype=torch.int32)
    )
    # sum (qa - za) (qw - zw) = sum qa qw - za sum qw - zw sum qa + n za zw
    products = a.q.int() @ w.q.int().T
    za, zw = a.zero_point[:, None], w.zero_point[None, :]
    sums = products - za * w.row_sum - zw * a.row_sum[:, None] + x.shape[1] * za * zw
    got = sums * a.scale[:, None].double() * w.scale.double() + layer.bias
    simulated = nn.functional.linear(
        pt.DynamicQuantize(mode=mode)(x),
        pt.DynamicQuantize(mode=mode, scope="channel", dim=0)(layer.weight),
        layer.bias,
    )
    torch.testing.assert_close(got.float(), simulated, rtol=1e-5, atol=1e-5)
    assert (zw.any() and za.any()) == (mode == "asymmetric")
    assert not torch.allclose(simulated, layer(x), rtol=1e-5, atol=1e-5)
