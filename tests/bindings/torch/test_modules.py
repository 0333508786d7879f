"""FakeQuantize and DynamicQuantize: observers, scopes, state, modes, and their place in a model."""

import copy
import io
import pickle

import planck.torch as pt
import pytest
import torch
from torch import nn
from torch_problems import SCOPES, assert_same_bits, randn

SHAPE = (3, 5)
EACH_SCOPE = pytest.mark.parametrize("scope", SCOPES)


def options(scope):
    return SCOPES[scope][0]


def segments(x, scope):
    """For each scale of a scope, in order, the elements it is for: by loops, for tensors of two dimensions."""
    (rows, columns), name = x.shape, scope
    parts = {
        "tensor": [x],
        "channel": list(x.unbind(1)),
        "channel from the end": list(x.unbind(0)),
        "token": list(x.unbind(0)),
        "group": [x[i, j : j + 2] for i in range(rows) for j in range(0, columns, 2)],
        "group along 0": [x[i : i + 2, j] for i in range(0, rows, 2) for j in range(columns)],
    }
    return parts[name]


def batches(count=5, shape=SHAPE, dtype=torch.float32):
    return [(randn(*shape, seed=i) * (1 + i) + 0.3 * i).to(dtype) for i in range(count)]


# ---- observers ----


@EACH_SCOPE
@pytest.mark.parametrize("symmetric", [False, True])
def test_moving_average_is_torchs(scope, symmetric):
    """One torch observer for each segment; torch's symmetric scale has (q_max - q_min) / 2 below it, planck's q_max."""
    from torch.ao.quantization import MovingAverageMinMaxObserver

    low = -127 if symmetric else -128
    fake = pt.FakeQuantize(
        averaging_constant=0.1, quant_min=low, mode="symmetric" if symmetric else "asymmetric", **options(scope)
    )
    scheme = torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine
    observers = [
        MovingAverageMinMaxObserver(
            averaging_constant=0.1, dtype=torch.qint8, quant_min=low, quant_max=127, qscheme=scheme
        )
        for _ in segments(randn(*SHAPE), scope)
    ]
    for x in batches():
        fake(x)
        for observer, part in zip(observers, segments(x, scope), strict=True):
            observer(part)
        assert fake.scale.shape == fake.min_val.shape == SCOPES[scope][1]
        qparams = [observer.calculate_qparams() for observer in observers]
        torch.testing.assert_close(fake.min_val.flatten(), torch.stack([o.min_val for o in observers]), rtol=0, atol=0)
        torch.testing.assert_close(fake.max_val.flatten(), torch.stack([o.max_val for o in observers]), rtol=0, atol=0)
        torch.testing.assert_close(fake.scale.flatten(), torch.cat([s for s, _ in qparams]), rtol=1e-6, atol=0)
        assert fake.zero_point.flatten().tolist() == [int(z) for _, z in qparams]


@EACH_SCOPE
@pytest.mark.parametrize("mode", ["symmetric", "asymmetric"])
def test_moving_average_of_one_is_the_dynamic_observer(scope, mode):
    """Scales of each input alone, as planck's dynamic quantisation finds them; kept scales are those of the last."""
    given = {"mode": mode, "quant_min": -127, **options(scope)}
    moving, dynamic = pt.FakeQuantize(averaging_constant=1.0, **given), pt.FakeQuantize(observer="dynamic", **given)
    for x in batches():
        want = pt.dynamic_quantize(x, mode=mode, quant_min=-127, **{"scope": None, **options(scope)})
        torch.testing.assert_close(moving(x), dynamic(x))
        torch.testing.assert_close(moving.scale, want.scale)
        assert torch.equal(moving.zero_point, want.zero_point)
        torch.testing.assert_close(dynamic(x), pt.dequantize(want.q, want.scale, want.zero_point, **options(scope)))
    assert not dynamic.initialized


@EACH_SCOPE
def test_forward_is_fake_quantize_with_the_kept_scales(scope):
    fake = pt.FakeQuantize(scale_form="reciprocal", **options(scope))
    for x in batches():
        y = fake(x)
        assert_same_bits(y, pt.fake_quantize(x, fake.scale, fake.zero_point, scale_form="reciprocal", **options(scope)))


def test_evaluation_mode_freezes():
    fake = pt.FakeQuantize(dim=0)
    first, second = batches(2)
    fake(first)
    state = copy.deepcopy(fake.state_dict())
    fake.eval()
    y = fake(second)
    assert all(torch.equal(state[key], value) for key, value in fake.state_dict().items())
    assert_same_bits(y, pt.fake_quantize(second, state["scale"], state["zero_point"], dim=0))
    fake.train()
    fake(second)
    assert not torch.equal(state["scale"], fake.scale)


def test_the_dynamic_observer_follows_in_evaluation_mode():
    fake = pt.FakeQuantize(observer="dynamic", scope="token").eval()
    for x in batches(2):
        torch.testing.assert_close(fake(x), x, atol=(x.max() - x.min()).item() / 255, rtol=0)


def test_switches():
    """enable_observer and enable_fake_quant, each off and on again."""
    fake = pt.FakeQuantize()
    first, second, third = batches(3)
    fake.enable_fake_quant(False)
    assert fake(first) is first and fake.initialized
    scale = fake.scale.clone()
    fake.enable_observer(False)
    fake.enable_fake_quant()
    assert_same_bits(fake(second), pt.fake_quantize(second, scale, fake.zero_point))
    assert torch.equal(fake.scale, scale)
    fake.enable_observer()
    fake(third)
    assert not torch.equal(fake.scale, scale)


def test_a_batch_with_infinities_or_nan_does_not_spoil_the_range():
    """One overflow, as mixed precision has them now and then, must not end the training: the range leaves it out."""
    good, later = batches(2)
    for bad_value in (torch.inf, -torch.inf, torch.nan):
        fake = pt.FakeQuantize()
        for spoil in (False, True, False):
            x = good.clone()
            if spoil:
                x[1, 2] = bad_value
            y = fake(x)
            assert torch.isfinite(fake.scale) and torch.isfinite(y[0]).all()
        assert torch.isfinite(fake(later)).all()


def test_an_input_without_elements_passes():
    fake = pt.FakeQuantize()
    assert fake(torch.empty(0, 3)).shape == (0, 3) and not fake.initialized


def test_a_channel_that_is_zero_has_scale_one():
    fake = pt.FakeQuantize(dim=0)
    y = fake(torch.tensor([[0.0, 0.0], [1.0, -2.0]]))
    assert fake.scale[0] == 1 and fake.zero_point[0] == -128 and torch.equal(y[0], torch.zeros(2))


# ---- dtypes and gradients ----


@EACH_SCOPE
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_dtypes_pass_through(scope, dtype):
    for module in (pt.FakeQuantize(**options(scope)), pt.DynamicQuantize(**{"scope": None, **options(scope)})):
        x = batches(1, dtype=dtype)[0].requires_grad_()
        y = module(x)
        y.sum().backward()
        assert y.dtype == x.grad.dtype == dtype
        torch.testing.assert_close(y.detach().double(), x.detach().double(), atol=0.05, rtol=0.02)


@EACH_SCOPE
def test_the_gradient_passes_straight_through(scope):
    """Every element of an observed batch is inside the range, so that all of dy comes back; later ones may clip."""
    for module in (pt.FakeQuantize(**options(scope)), pt.DynamicQuantize(**{"scope": None, **options(scope)})):
        x = randn(*SHAPE).requires_grad_()
        dy = randn(*SHAPE, seed=4)
        module(x).backward(dy)
        assert torch.equal(x.grad, dy)
        assert not any(t.requires_grad for t in module.buffers())
    fake = pt.FakeQuantize()
    fake(torch.tensor([-1.0, 1.0]))
    fake.eval()
    x = torch.tensor([-3.0, 0.4, 3.0], requires_grad=True)
    fake(x).sum().backward()
    assert x.grad.tolist() == [0, 1, 0]


@EACH_SCOPE
@pytest.mark.parametrize("mode", ["symmetric", "asymmetric"])
def test_dynamic_quantize_is_codes_and_back(scope, mode):
    given = {"scope": None, "mode": mode, **options(scope)}
    for x in batches(2):
        codes = pt.dynamic_quantize(x, **given)
        assert_same_bits(
            pt.DynamicQuantize(**given)(x), pt.dequantize(codes.q, codes.scale, codes.zero_point, **options(scope))
        )


def test_dynamic_quantize_to_uint8():
    x = randn(4, 6).abs()
    codes = pt.dynamic_quantize(x, dtype=torch.uint8)
    assert_same_bits(pt.DynamicQuantize(dtype=torch.uint8)(x), pt.dequantize(codes.q, codes.scale, scope="token"))
    assert codes.q.max() == 255


# ---- state ----


@EACH_SCOPE
@pytest.mark.parametrize("observed", [False, True])
def test_state_round_trip(scope, observed):
    """Ranges are sized by the first input; a fresh module takes them from a state all the same, strictly."""
    source = nn.Sequential(pt.FakeQuantize(**options(scope)))
    if observed:
        source(randn(*SHAPE))
    file = io.BytesIO()
    torch.save(source.state_dict(), file)
    file.seek(0)
    for target in (nn.Sequential(pt.FakeQuantize(**options(scope))), copy.deepcopy(source)):
        assert str(target.load_state_dict(torch.load(file), strict=True)) == "<All keys matched successfully>"
        file.seek(0)
        assert_same_bits(tuple(target.state_dict().values()), tuple(source.state_dict().values()))
        if observed:
            target.eval(), source.eval()
            assert_same_bits(target(randn(*SHAPE, seed=1)), source(randn(*SHAPE, seed=1)))


def test_a_state_that_is_not_one_is_an_error():
    source, target = pt.FakeQuantize(dim=0), pt.FakeQuantize(dim=0)
    source(randn(*SHAPE))
    state = source.state_dict()
    del state["scale"]
    with pytest.raises(RuntimeError, match="scale"):
        target.load_state_dict(state)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies_are_equal_and_apart(copied):
    for module in (pt.FakeQuantize(dim=1), pt.FakeQuantize(learnable=True), pt.DynamicQuantize(mode="asymmetric")):
        module(randn(*SHAPE))
        twin = copied(module)
        assert repr(twin) == repr(module)
        assert_same_bits(twin.eval()(randn(*SHAPE, seed=1)), module.eval()(randn(*SHAPE, seed=1)))
        before = copy.deepcopy(module.state_dict())
        twin.train()(100 * randn(*SHAPE))
        assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())


def test_a_range_whose_width_overflows():
    fake = pt.FakeQuantize(averaging_constant=1.0)
    x = torch.tensor([-3e38, 3e38])
    assert torch.allclose(fake(x), x, rtol=0.01)
    assert torch.isfinite(fake(x.flip(0))).all()


def test_learnable_channels_begin_with_their_first_finite_range():
    fake = pt.FakeQuantize(scope="channel", dim=0, mode="symmetric", learnable=True, shape=(2,))
    with pytest.raises(RuntimeError, match="no finite input"):
        fake(torch.tensor([[1.0, 2.0], [torch.inf, 0.01]]))
    fake(torch.tensor([[5.0, 9.0], [0.02, 0.01]]))
    assert torch.allclose(fake.scale, torch.tensor([2 / 127, 0.02 / 127]))
    fake(torch.tensor([[5.0, 9.0], [0.2, 0.1]]))
    assert torch.allclose(fake.scale, torch.tensor([2 / 127, 0.02 / 127]))
