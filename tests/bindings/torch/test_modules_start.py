"""FakeQuantize before it has seen anything: every way in is an error until each scale has had a finite range."""

import copy
import io

import planck.torch as pt
import pytest
import torch
from torch import nn
from torch_problems import SCOPES, SHAPE, assert_same_bits, randn

EACH_SCOPE = pytest.mark.parametrize("scope", SCOPES)
EACH_KIND = pytest.mark.parametrize("learnable", [False, True], ids=["observer", "learnable"])
NOTHING = "observed no finite input yet.*in training mode.*planck.torch.initialize"


def make(scope="tensor", learnable=False, **more):
    keywords, shape = SCOPES[scope]
    return pt.FakeQuantize(learnable=learnable, shape=shape if learnable else None, **keywords, **more)


@EACH_KIND
@EACH_SCOPE
@pytest.mark.parametrize("prepare", [nn.Module.eval, lambda m: m.enable_observer(False)], ids=["eval", "observer off"])
def test_a_module_that_has_seen_nothing_says_so(prepare, scope, learnable):
    """It had scale 1 for a whole tensor and for learnable scales, without a word."""
    fake = make(scope, learnable)
    prepare(fake)
    with pytest.raises(RuntimeError, match=NOTHING):
        fake(randn(*SHAPE))
    assert not fake.initialized and (fake.scale == 1).all()


@EACH_KIND
@EACH_SCOPE
@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
def test_inputs_that_are_not_finite_set_nothing(scope, learnable, value):
    """Nor does one element: its scale has no range yet, though others may. The next finite input does."""
    fake, good, bad = make(scope, learnable), randn(*SHAPE), randn(*SHAPE)
    bad[1, 2] = value
    for x in (torch.full(SHAPE, value), bad):
        with pytest.raises(RuntimeError, match=NOTHING):
            fake(x)
        with pytest.raises(RuntimeError, match=NOTHING):
            copy.deepcopy(fake).eval()(good)
    assert torch.isfinite(fake(good)).all() and fake.initialized
    fake(bad)
    assert fake.eval()(good).isfinite().all()


def test_inputs_that_are_passed_on_need_no_scale():
    fake = make().eval()
    fake.enable_fake_quant(False)
    x = randn(*SHAPE)
    assert fake(x) is x
    assert pt.FakeQuantize(observer="dynamic").eval()(x).shape == SHAPE


@EACH_KIND
@EACH_SCOPE
def test_a_state_without_ranges_brings_none(scope, learnable):
    """Also into a module that had its own, and by assignment."""
    empty, used = make(scope, learnable).state_dict(), make(scope, learnable)
    used(randn(*SHAPE))
    state = copy.deepcopy(used.state_dict())
    for assign in (False, True):
        fake = copy.deepcopy(used).eval()
        fake(randn(*SHAPE))
        fake.load_state_dict(copy.deepcopy(empty), assign=assign)
        with pytest.raises(RuntimeError, match=NOTHING):
            fake(randn(*SHAPE))
        fake.load_state_dict(copy.deepcopy(state), assign=assign)
        assert_same_bits(fake(randn(*SHAPE)).detach(), used.eval()(randn(*SHAPE)).detach())


def test_a_buffer_that_is_set_by_hand_is_seen():
    fake = make()
    with torch.no_grad():
        fake.scale.fill_(0.5)
        fake.initialized.fill_(True)
    assert fake.eval()(torch.tensor([0.6])).item() == 0.5
    fake.initialized.fill_(False)
    with pytest.raises(RuntimeError, match=NOTHING):
        fake(torch.tensor([0.6]))


def test_memory_that_to_empty_gives_is_no_state():
    """It may hold anything, also True for `initialized`."""
    for learnable in (False, True):
        fake = make("channel", learnable)
        fake(randn(*SHAPE))
        fake.to("meta").to_empty(device="cpu")
        assert not fake.initialized and (fake.scale == 1).all() and fake.min_val.isinf().all()
        with pytest.raises(RuntimeError, match=NOTHING):
            fake.eval()(randn(*SHAPE))


def test_stacked_modules_are_asked_each():
    """torch.func's ensembles, whose buffers are not those of the module that runs."""
    modules = [make() for _ in range(3)]
    for module in modules[:2]:
        module(randn(*SHAPE))
    base, x = copy.deepcopy(modules[0]).eval(), randn(*SHAPE)

    def run():
        _, buffers = torch.func.stack_module_state(modules)
        return torch.vmap(lambda b: torch.func.functional_call(base, b, (x,)))(buffers)

    with pytest.raises(RuntimeError, match=NOTHING):
        run()
    with pytest.raises(RuntimeError, match=NOTHING):
        torch.func.functional_call(base, dict(modules[2].named_buffers()), (x,))
    modules[2](randn(*SHAPE))
    assert_same_bits(run(), torch.stack([m.eval()(x) for m in modules]))


def test_made_in_inference_mode():
    with torch.inference_mode():
        fake = make()
        with pytest.raises(RuntimeError, match=NOTHING):
            fake.eval()(randn(*SHAPE))
        fake.train()(randn(*SHAPE))
        assert fake.eval()(randn(*SHAPE)).shape == SHAPE


# ---- graphs ----


@EACH_KIND
@pytest.mark.parametrize("scope", ["tensor", "group"])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_modules_raise_too(backend, scope, learnable):
    """In one graph, whose assertion it is; a scale of unknown shape cannot even be recorded."""
    fake = make(scope, learnable)
    compiled = torch.compile(fake, backend=backend, fullgraph=True)
    fake.eval()
    with pytest.raises(RuntimeError, match=NOTHING):
        compiled(randn(*SHAPE))
    fake.train()
    with pytest.raises(RuntimeError, match=NOTHING):
        compiled(torch.full(SHAPE, torch.nan))
    y = compiled(randn(*SHAPE))
    assert_same_bits(y.detach(), make(scope, learnable)(randn(*SHAPE)).detach())
    assert_same_bits(fake.eval()(randn(*SHAPE)).detach(), y.detach())


@pytest.mark.parametrize("strict", [False, True])
def test_exported_modules_raise_too(strict):
    fake = make().eval()
    program = torch.export.export(fake, (randn(*SHAPE),), strict=strict)
    with pytest.raises(RuntimeError, match=NOTHING):
        program.module()(randn(*SHAPE))
    # Nothing is asserted in the program of one that has its ranges, from wherever.
    used = make()
    used(randn(*SHAPE))
    fake.load_state_dict(used.state_dict())
    program = torch.export.export(fake, (randn(*SHAPE),), strict=strict)
    assert "assert" not in str(program.graph)
    assert_same_bits(program.module()(randn(*SHAPE)), fake(randn(*SHAPE)))


def test_ranges_are_read_once():
    """Not with every input: on a device that would wait for all that is under way."""
    reads = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if "_local_scalar_dense" in str(function):
                reads.append(function)
            return function(*args, **(kwargs or {}))

    fake = make("channel")
    with Watch():
        for seed in range(4):
            fake(randn(*SHAPE, seed=seed))
    assert len(reads) <= 2


# ---- initialize ----


def model(**options):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 8), pt.FakeQuantize(**options), nn.ReLU(), pt.FakeQuantize(dim=1))


@EACH_KIND
@pytest.mark.parametrize("training", [False, True])
def test_initialize_starts_what_the_first_batch_would(learnable, training):
    """In any mode, with observers switched off too, and without a gradient."""
    want, got = model(learnable=learnable), model(learnable=learnable).train(training)
    got[1].enable_observer(False)
    want(randn(6, 5))
    assert pt.initialize(got, randn(6, 5)) is None
    assert_same_bits(tuple(got.state_dict().values()), tuple(want.state_dict().values()))
    assert got[1].initialized and got.training == training and all(p.grad is None for p in got.parameters())
    x = randn(6, 5, seed=3)
    assert_same_bits(got.eval()(x).detach(), want.eval()(x).detach())


def test_initialize_leaves_what_has_ranges():
    net = model()
    net[1](randn(6, 8))
    state = copy.deepcopy(net[1].state_dict())
    pt.initialize(net, 100 * randn(6, 5))
    assert_same_bits(tuple(net[1].state_dict().values()), tuple(state.values()))
    assert net[3].initialized
    # And is over when it is over, also by an error.
    net(100 * randn(6, 5))
    assert not torch.equal(net[1].max_val, state["max_val"])
    net = model()
    with pytest.raises(RuntimeError, match=NOTHING):
        pt.initialize(net.eval(), torch.full((6, 5), torch.nan))
    with pytest.raises(RuntimeError, match=NOTHING):
        net(randn(6, 5))
    assert not net[1].initialized


def test_initialize_takes_what_the_model_takes():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.quantize = make(learnable=True)

        def forward(self, x, *, weight):
            return self.quantize(x * weight)

    net = Weighted()
    pt.initialize(net, randn(*SHAPE), weight=3.0)
    assert net.quantize.max_val == 3 * randn(*SHAPE).max()


def test_a_parameter_that_is_not_the_modules_own_is_not_written():
    """The start of functional_call's tensors, and of any wrapper's, would be lost with them."""
    fake = make(learnable=True)
    swapped = {name: t.detach().clone() for name, t in fake.named_parameters()}
    with pytest.raises(RuntimeError, match=r"held by a wrapper.*planck.torch.initialize\(model, batch\) before"):
        torch.func.functional_call(fake, swapped, (randn(*SHAPE),))
    for copied in (copy.deepcopy(fake), saved_and_loaded(fake), make(learnable=True).double().float()):
        copied(randn(*SHAPE))
        assert copied.initialized
    fake.load_state_dict(make(learnable=True).state_dict(), assign=True)
    fake(randn(*SHAPE))
    assert fake.initialized


def saved_and_loaded(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("learnable", [False, True])
def test_one_scale_may_have_a_dimension(learnable):
    """As FSDP wants its parameters."""
    plain, one = pt.FakeQuantize(learnable=learnable), pt.FakeQuantize(learnable=learnable, shape=(1,))
    for seed in range(3):
        x = randn(*SHAPE, seed=seed)
        assert_same_bits(one(x).detach(), plain(x).detach())
    assert one.scale.shape == one.zero_point.shape == one.min_val.shape == (1,)
    if learnable:
        one(3 * x).sum().backward()
        plain(3 * x).sum().backward()
        assert one.scale.grad.item() == plain.scale.grad.item()
    with pytest.raises(ValueError, match=r"shape = \(3,\), but a tensor has one scale"):
        pt.FakeQuantize(learnable=learnable, shape=(3,))
