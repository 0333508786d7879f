"""Codes of float8 in planck.torch: round trips, compilation, and what is refused."""

import planck
import planck.torch
import pytest
import torch

kinds = pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])


def same(a, b):
    assert a.dtype == b.dtype and torch.equal(a.view(torch.uint8), b.view(torch.uint8))


@kinds
def test_round_trip(kind):
    x = torch.randn(8, 48, generator=torch.Generator().manual_seed(80), dtype=torch.bfloat16)
    scale = torch.full((8,), 0.01)
    q = planck.torch.quantize(x, scale, dtype=kind, dim=0)
    limit = torch.finfo(kind).max
    same(q, (x.float() / scale[:, None]).clamp(-limit, limit).to(kind))
    back = planck.torch.dequantize(q, scale, dim=0)
    assert torch.equal(back, q.float() * scale[:, None])


@kinds
def test_dynamic(kind):
    x = torch.randn(8, 48, generator=torch.Generator().manual_seed(81))
    result = planck.torch.dynamic_quantize(x, dtype=kind)
    same(result.q, planck.dynamic_quantize(x, dtype=kind).q)
    assert result.zero_point is None and result.row_sum is None
    restored = planck.torch.dequantize(result.q, result.scale, result.zero_point, scope="token")
    assert torch.all((restored - x).abs() <= x.abs() / 8 + 1e-5)
    only = planck.torch.dynamic_quantize(x, dtype=kind, qparams_only=True)
    assert only.zero_point is None and torch.equal(only.scale, result.scale)


@kinds
def test_unsaturated(kind):
    x = torch.tensor([1.0, 1e6, -1e6])
    q = planck.torch.quantize(x, 1.0, dtype=kind, saturate=False).float()
    assert q[0] == 1 and not torch.isfinite(q[1:]).any()
    assert torch.isfinite(planck.torch.quantize(x, 1.0, dtype=kind).float()).all()


@kinds
def test_fakes_say_what_comes(kind):
    x, scale, nothing = torch.randn(4, 6), torch.ones(4), torch.empty(0, dtype=torch.int32)
    options = (kind, "channel", 0, None, None, None, "divide", True)
    torch.library.opcheck(torch.ops.planck.quantize.default, (x, scale, nothing, *options), test_utils=["test_schema"])
    with torch._subclasses.fake_tensor.FakeTensorMode(allow_non_fake_inputs=True):
        q, scales, zero_point, _ = torch.ops.planck.dynamic_quantize(
            torch.empty(4, 6), "token", "symmetric", kind, None, None, None, None, True, "saturate", None, False
        )
    assert q.dtype == kind and scales.shape == (4,) and zero_point.shape == (0,)
    real = torch.ops.planck.dynamic_quantize(
        x, "token", "symmetric", kind, None, None, None, None, True, "saturate", None, False
    )
    assert [part.shape for part in real[:3]] == [q.shape, scales.shape, zero_point.shape]


@kinds
def test_refused(kind):
    x = torch.ones(3)
    for zero_point in (1, torch.zeros((), dtype=torch.int32)):
        with pytest.raises(ValueError, match=r"zero_point must be the number 0: codes of torch\.float8_e"):
            planck.torch.quantize(x, 1.0, zero_point, dtype=kind)
    with pytest.raises(ValueError, match="zero_point is present but float codes have no zero points"):
        torch.ops.planck.quantize(
            x,
            torch.ones(()),
            torch.zeros((), dtype=torch.int32),
            kind,
            "tensor",
            None,
            None,
            None,
            None,
            "divide",
            True,
        )
    with pytest.raises(TypeError, match=r"zero_point is None, but codes of torch\.int8 have one"):
        planck.torch.quantize(x, 1.0, None)
