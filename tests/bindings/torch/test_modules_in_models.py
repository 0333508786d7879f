"""Learnable scales, bad options, and both modules inside models: Sequential, torch.compile, export."""

import copy

import planck.torch as pt
import pytest
import torch
from torch import nn
from torch_problems import SCOPES, SHAPE, assert_same_bits, randn

EACH_SCOPE = pytest.mark.parametrize("scope", SCOPES)


def learnable(scope="tensor", **more):
    keywords, shape = SCOPES[scope]
    return pt.FakeQuantize(learnable=True, shape=shape, **keywords, **more)


# ---- learnable ----


@EACH_SCOPE
def test_the_first_batch_sets_the_parameters(scope):
    fake, observed = learnable(scope), pt.FakeQuantize(**SCOPES[scope][0])
    assert {name for name, _ in fake.named_parameters()} == {"scale", "zero_point"}
    first, second = randn(*SHAPE), 5 * randn(*SHAPE, seed=1)
    assert_same_bits(fake(first).detach(), observed(first))
    state = copy.deepcopy(fake.state_dict())
    torch.testing.assert_close(state["scale"], observed.scale, rtol=0, atol=0)
    assert torch.equal(state["zero_point"], observed.zero_point.float())
    fake(second)
    assert all(torch.equal(state[key], value) for key, value in fake.state_dict().items())


@EACH_SCOPE
def test_an_optimizer_trains_the_parameters(scope):
    """Both move, and downhill: clipped outliers ask for a larger scale."""
    fake = learnable(scope)
    fake(randn(*SHAPE))
    before = copy.deepcopy(fake.state_dict())
    x = 3 * randn(*SHAPE)
    optimizer = torch.optim.SGD(fake.parameters(), 1e-3)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = ((fake(x) - x) ** 2).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert not torch.equal(fake.scale, before["scale"]) and not torch.equal(fake.zero_point, before["zero_point"])


def test_grad_factor_multiplies_the_gradients():
    gradients = []
    for factor in (1.0, 0.25):
        fake = learnable(grad_factor=factor)
        fake(randn(*SHAPE))
        fake(2 * randn(*SHAPE)).sum().backward()
        gradients.append((fake.scale.grad, fake.zero_point.grad))
    for full, part in zip(*gradients, strict=True):
        assert full != 0
        torch.testing.assert_close(0.25 * full, part)


@pytest.mark.parametrize("value, code", [(2.4, 2), (-2.5, -2), (900.0, 127), (-900.0, -128)])
def test_zero_points_are_rounded_and_clamped_in_both_passes(value, code):
    fake = learnable()
    fake(torch.tensor([-1.0, 1.0]))
    with torch.no_grad():
        fake.zero_point.fill_(value)
        fake.scale.fill_(0.5)
    y = fake(torch.tensor([-1000.0, 1000.0]))
    assert y.tolist() == [0.5 * (-128 - code), 0.5 * (127 - code)]
    y.sum().backward()
    assert fake.scale.grad == (-128 - code) + (127 - code) and fake.zero_point.grad == -1
    assert fake.zero_point == value


def test_symmetric_parameters_stay_symmetric():
    """What mode="symmetric" promises holds through training: int8 kernels leave the zero point out."""
    fake = learnable(mode="symmetric", quant_min=-127)
    optimizer = torch.optim.SGD(fake.parameters(), 0.01)
    fake(randn(*SHAPE))
    scale = fake.scale.item()
    for seed in range(5):
        fake(3 * randn(*SHAPE, seed=seed) + 2).sum().backward()
        optimizer.step()
    assert fake.scale.item() != scale
    assert fake.zero_point.item() == 0


def test_learnable_state_round_trip():
    fake, other = learnable("group"), learnable("group")
    fake(randn(*SHAPE))
    other.load_state_dict(fake.state_dict(), strict=True)
    assert other.initialized
    x = 5 * randn(*SHAPE, seed=1)
    assert_same_bits(other(x).detach(), fake(x).detach())


# ---- errors ----


@pytest.mark.parametrize(
    "bad, match",
    [
        ({"mode": "affine"}, "mode"),
        ({"observer": "minmax"}, "observer"),
        ({"scope": "row"}, "scope"),
        ({"scope": "channel"}, "dim"),
        ({"scope": "group"}, "group_size"),
        ({"quant_min": 7, "quant_max": -8}, "quant_m"),
        ({"mode": "symmetric", "quant_min": -8, "quant_max": 0}, "quant_m"),
        ({"learnable": True, "dim": 0}, "shape"),
        ({"learnable": True, "observer": "dynamic"}, "learnable"),
        ({"scale_form": "multiply"}, "scale_form"),
        ({"group_size": 0}, "group_size"),
        ({"scope": "tensor", "dim": 0}, "dim"),
        ({"scope": "token", "group_size": 2}, "group_size"),
    ],
    ids=str,
)
def test_fake_quantize_refuses_bad_options_at_once(bad, match):
    with pytest.raises(ValueError, match=match):
        pt.FakeQuantize(**bad)


@pytest.mark.parametrize(
    "bad, match",
    [
        ({"mode": "affine"}, "mode"),
        ({"scope": "row"}, "scope"),
        ({"scope": "channel"}, "dim"),
        ({"scope": "group"}, "group_size"),
        ({"quant_min": 7, "quant_max": -8}, "quant_m"),
        ({"scope": "token", "group_size": 2}, "group_size"),
        ({"scope": None, "group_size": 0}, "group_size"),
        ({"quant_max": 300}, "quant_m"),
        ({"dtype": torch.int32}, "dtype"),
    ],
    ids=str,
)
def test_dynamic_quantize_refuses_bad_options_at_once(bad, match):
    with pytest.raises(ValueError, match=match):
        pt.DynamicQuantize(**bad)


def test_inputs_of_another_number_of_channels_are_refused():
    for fake in (pt.FakeQuantize(dim=1), learnable("channel")):
        fake(randn(3, 5))
        with pytest.raises(ValueError, match="shape"):
            fake(randn(3, 4))


# ---- in models ----


def model(**options):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 8), pt.FakeQuantize(**options), nn.ReLU(), nn.Linear(8, 2), pt.DynamicQuantize())


def test_inside_sequential():
    net = model()
    x = randn(4, 5).requires_grad_()
    net(x).sum().backward()
    assert x.grad.count_nonzero() and all(p.grad is not None for p in net.parameters())
    assert "1.scale" in net.state_dict() and len(list(net.parameters())) == 4
    twin = model()
    twin.load_state_dict(net.state_dict())
    assert_same_bits(twin.eval()(x).detach(), net.eval()(x).detach())


@pytest.mark.parametrize("options", [{}, {"dim": 1}, {"observer": "dynamic"}, {"learnable": True}], ids=str)
def test_one_module_used_twice_before_backward(options):
    """As in unrolled recurrent nets, shared layers and gradient accumulation: each use has the gradient of its own scales."""
    fake = pt.FakeQuantize(averaging_constant=0.5, **options)
    first, second = (randn(*SHAPE, seed=i).requires_grad_() for i in range(2))
    y, z = fake(first), fake(3 * second)
    (y.sum() + z.sum()).backward()
    alone = pt.FakeQuantize(averaging_constant=0.5, **options)
    copies = [t.detach().clone().requires_grad_() for t in (first, second)]
    alone(copies[0]).sum().backward()
    alone(3 * copies[1]).sum().backward()
    assert_same_bits((first.grad, second.grad), (copies[0].grad, copies[1].grad))


def test_repr_tells_the_options():
    assert (
        repr(pt.FakeQuantize(dim=1))
        == "FakeQuantize(scope=channel, dim=1, codes=-128..127, mode=asymmetric, moving_average)"
    )
    assert "group_size=32" in repr(pt.FakeQuantize(group_size=32)) and "learnable" in repr(learnable())
    assert "token" in repr(pt.DynamicQuantize()) and "-127..127" in repr(pt.DynamicQuantize())
    assert "dim=1" in repr(pt.DynamicQuantize(scope="channel", dim=1)) and "group_size=4" in repr(
        pt.DynamicQuantize(scope="group", group_size=4)
    )


COMPILED = [
    {},
    {"dim": 1},
    {"group_size": 3},
    {"observer": "dynamic", "scope": "token"},
    {"learnable": True},
    {"learnable": True, "dim": 1, "shape": (8,)},
]


@pytest.mark.parametrize("options", COMPILED, ids=str)
def test_compiled_models_train_like_eager_ones(options):
    """Three steps with fullgraph=True: outputs, gradients and everything kept."""
    eager = model(**options)
    twin = copy.deepcopy(eager)
    compiled = torch.compile(twin, backend="aot_eager", fullgraph=True)
    for seed in range(3):
        x = (1 + seed) * randn(6, 5, seed=seed)
        outputs = [net(x) for net in (eager, compiled)]
        assert_same_bits(*outputs)
        for net, y in zip((eager, twin), outputs, strict=True):
            y.square().sum().backward()
            with torch.no_grad():
                for p in net.parameters():
                    p -= 0.01 * p.grad
                    p.grad = None
    assert_same_bits(tuple(twin.state_dict().values()), tuple(eager.state_dict().values()))


def test_a_model_compiled_by_inductor_is_near_the_eager_one():
    """torch's own layers may differ by roundings there, which a step of int8 can make visible."""
    net = model(dim=1)
    x = randn(6, 5)
    net(x)
    net.eval()
    torch.testing.assert_close(torch.compile(net, fullgraph=True)(x), net(x), rtol=0, atol=0.02)


def test_models_in_evaluation_mode_export():
    net = model()
    x = randn(4, 5)
    net(x)
    net.eval()
    program = torch.export.export(net, (x,))
    assert "planck.fake_quantize" in str(program.graph)
    assert_same_bits(program.module()(x), net(x))
