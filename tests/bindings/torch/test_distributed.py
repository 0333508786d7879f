"""FakeQuantize where two processes train one model: DistributedDataParallel and FSDP, with gloo on the CPU. The processes run
every scenario once; each test looks at what both brought back."""

import copy
import re
import warnings

import planck.torch as pt
import pytest
import torch
from torch import distributed, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

CHANNELS = {"learnable": True, "dim": 1, "shape": (8,)}
TENSOR = {"learnable": True, "shape": (1,)}
MOVING = {"dim": 1}
WORLD = 2


def model(**options):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), pt.FakeQuantize(**options), nn.Linear(8, 2))


def batch(seed):
    return (1 + seed) * torch.randn(16, 4, generator=torch.Generator().manual_seed(seed))


def start(options, seed=0):
    net = model(**options)
    pt.initialize(net, batch(seed))
    return net


def whole(tensor):
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach().clone()


def train(net, dtype=torch.float32, steps=3, lr=1e-4):
    """Each process has batches of its own."""
    rank = distributed.get_rank()
    optimizer = torch.optim.SGD(net.parameters(), lr)
    for step in range(steps):
        optimizer.zero_grad()
        net(batch(10 * step + rank).to(dtype)).square().mean().backward()
        optimizer.step()
    return net


def trained(net, fake, dtype=torch.float32):
    """The scale before and after, and what the first parameter became."""
    before = whole(fake.scale)
    train(net, dtype)
    return {"before": before, "after": whole(fake.scale), "dtype": fake.scale.dtype, "weight": whole(net[0].weight)}


def sharded(net, *alone, **options):
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    for module in alone:
        fully_shard(module, mesh=mesh)
    return fully_shard(net, mesh=mesh, **options)


# ---- scenarios ----


def ddp_not_started():
    train(DistributedDataParallel(model(**CHANNELS)))


def compiled_not_started():
    torch.compile(model(**CHANNELS), backend="aot_eager")(batch(0))


def ddp():
    """Started from different batches: wrapping sends what the first process holds."""
    net = start(CHANNELS, seed=distributed.get_rank())
    own = whole(net[1].scale)
    wrapped = DistributedDataParallel(net)
    before = whole(net[1].scale)
    train(wrapped)
    return {"own": own, "before": before, "after": whole(net[1].scale)}


def ddp_initialized_late():
    pt.initialize(DistributedDataParallel(model(**CHANNELS)), batch(0))


def ddp_loaded():
    net = model(**CHANNELS)
    net.load_state_dict(start(CHANNELS).state_dict())
    return trained(net, net[1])


def ddp_moving():
    net = model(**MOVING)
    wrapped = DistributedDataParallel(net)
    kept = []
    for step in range(3):
        wrapped(batch(10 * step + distributed.get_rank()))
        kept.append(whole(net[1].max_val))
    return {"after": kept[-1], "state": kept}


def fsdp_not_started():
    train(sharded(model(**CHANNELS)))


def fsdp_initialized_late():
    pt.initialize(sharded(model(**CHANNELS)), batch(0))


def fsdp():
    net = start(CHANNELS)
    return trained(sharded(net), net[1])


def fsdp_of_its_own():
    net = start(CHANNELS)
    return trained(sharded(net, net[1]), net[1])


def fsdp_one_scale():
    net = start(TENSOR)
    return trained(sharded(net), net[1])


def fsdp_state():
    """A state of the whole model into a fresh sharded one that was never started."""
    net = sharded(start(CHANNELS))
    train(net)
    whole_state = StateDictOptions(full_state_dict=True)
    state = get_model_state_dict(net, options=whole_state)
    other = sharded(model(**CHANNELS))
    set_model_state_dict(other, copy.deepcopy(state), options=whole_state)
    x = batch(5)
    same = torch.equal(net(x), other(x))
    return {"after": state["1.scale"], "same": same, "scale": whole(other[1].scale)}


def fsdp_negative():
    """The copy that the backward gathers is the parameter's, which nobody has written."""
    net = start(CHANNELS)
    with torch.no_grad():
        net[1].scale[3] = -0.01
    sharded(net, net[1])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = trained(net, net[1])
    return {**result, "warnings": [str(w.message) for w in seen if "FakeQuantize" in str(w.message)]}


def fsdp_mixed_precision():
    net = start(CHANNELS)
    train(sharded(net, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16)))


def fsdp_mixed_precision_of_its_own():
    net = start(CHANNELS)
    return trained(sharded(net, net[1], mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16)), net[1])


def fsdp_bfloat16():
    net = start(CHANNELS).bfloat16()
    return trained(sharded(net, net[1]), net[1], torch.bfloat16)


def fsdp_meta():
    with torch.device("meta"):
        net = model(**CHANNELS)
    sharded(net).to_empty(device="cpu")
    net(batch(0))


def fsdp_moving():
    net = start(MOVING)
    sharded(net)
    train(net)
    return {"after": whole(net[1].max_val)}


def fsdp1(use_orig_params, initialized):
    net = start(CHANNELS) if initialized else model(**CHANNELS)
    before = whole(net[1].scale)
    net = FullyShardedDataParallel(net, use_orig_params=use_orig_params, device_id=torch.device("cpu"))
    train(net)
    return {"before": before, "after": net.state_dict()["1.scale"].clone()}


SCENARIOS = [
    *(ddp_not_started, compiled_not_started, ddp, ddp_initialized_late, ddp_loaded, ddp_moving),
    *(fsdp_not_started, fsdp_initialized_late, fsdp, fsdp_of_its_own, fsdp_one_scale, fsdp_state, fsdp_negative),
    *(fsdp_mixed_precision, fsdp_mixed_precision_of_its_own, fsdp_bfloat16, fsdp_meta, fsdp_moving),
]
FSDP1 = [(orig, initialized) for orig in (False, True) for initialized in (False, True)]


def attempt(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def work(rank, folder):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    results = {scenario.__name__: attempt(scenario) for scenario in SCENARIOS}
    results |= {f"fsdp1 {which}": attempt(fsdp1, *which) for which in FSDP1}
    torch.save(results, f"{folder}/{rank}.pt")
    distributed.barrier()  # a process that leaves while the other still talks to it has been seen to abort
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("processes"))
    torch.multiprocessing.spawn(work, (folder,), nprocs=WORLD)
    return [torch.load(f"{folder}/{rank}.pt", weights_only=False) for rank in range(WORLD)]


def both(results, name):
    pair = [result[name] for result in results]
    assert all(isinstance(r, dict) for r in pair), pair
    return pair


# ---- starts ----

FIRST = r"Call planck.torch.initialize\(model, batch\) before the model is wrapped"


@pytest.mark.parametrize(
    "name, text",
    [
        ("ddp_not_started", f"each of the 2 processes would start from its own input. {FIRST}"),
        ("compiled_not_started", f"each of the 2 processes would start from its own input. {FIRST}"),
        ("ddp_initialized_late", "initialize comes before DistributedDataParallel"),
        ("fsdp_not_started", f"held by a wrapper, such as FSDP, that would lose them. {FIRST}"),
        ("fsdp_initialized_late", f"held by a wrapper, such as FSDP, that would lose them. {FIRST}"),
        ("fsdp_meta", f"held by a wrapper, such as FSDP, that would lose them. {FIRST}"),
        ("fsdp1 (False, False)", FIRST),
        ("fsdp1 (True, False)", FIRST),
        ("fsdp_mixed_precision", "scales arrive as torch.bfloat16 .*mixed precision"),
    ],
)
def test_what_cannot_be_right_is_refused_in_every_process(results, name, text):
    for result in results:
        assert isinstance(result[name], str) and re.search(text, result[name]), result[name]


TRAINED = [
    *("ddp", "fsdp", "fsdp_of_its_own", "fsdp_one_scale", "fsdp_mixed_precision_of_its_own", "fsdp_bfloat16"),
    *("fsdp1 (False, True)", "fsdp1 (True, True)"),
]


@pytest.mark.parametrize("name", TRAINED)
def test_started_scales_are_equal_and_move(results, name):
    """From the range of the batch; the gradient of both processes moves them, alike."""
    first, second = both(results, name)
    want = start(TENSOR if name == "fsdp_one_scale" else CHANNELS)[1].scale.detach()
    for result in (first, second):
        assert torch.equal(result["before"], want) and not torch.equal(result["after"], want)
        assert result["after"].dtype == torch.float32 and (result["after"] > 0).all()
    assert torch.equal(first["after"], second["after"])


def test_ddp_sends_the_start_of_the_first_process(results):
    first, second = both(results, "ddp")
    assert not torch.equal(second["own"], second["before"]) and torch.equal(first["own"], second["before"])


def test_ddp_and_fsdp_train_alike(results):
    for name in ("fsdp", "fsdp_of_its_own", "fsdp1 (True, True)"):
        torch.testing.assert_close(results[0][name]["after"], results[0]["ddp"]["after"], rtol=1e-4, atol=0)


def test_a_loaded_state_is_a_start(results):
    first, second = both(results, "ddp_loaded")
    assert torch.equal(first["before"], second["before"]) and not torch.equal(first["after"], first["before"])
    first, second = both(results, "fsdp_state")
    assert first["same"] and second["same"]
    assert torch.equal(first["scale"], first["after"]) and torch.equal(second["scale"], first["after"])


def test_a_negative_scale_under_fsdp_warns_and_goes_on(results):
    for result in both(results, "fsdp_negative"):
        assert len(result["warnings"]) == 1 and "-0.01" in result["warnings"][0]
        assert result["after"].isfinite().all() and result["after"][3] != result["before"][3]


# ---- what is not synchronised: docs/pytorch.md says so ----


def test_moving_averages_under_ddp_are_those_of_the_first_process(results):
    """Buffers are sent before each forward, which then moves each process' copy by its own batch."""
    first, second = both(results, "ddp_moving")
    alone = model(**MOVING)
    for step, kept in enumerate(first["state"]):
        alone(batch(10 * step))
        assert torch.equal(alone[1].max_val, kept)
    assert not torch.equal(first["after"], second["after"])
    assert torch.isfinite(second["after"]).all()


def test_moving_averages_under_fsdp_are_each_process_own(results):
    first, second = both(results, "fsdp_moving")
    assert not torch.equal(first["after"], second["after"])


def test_one_process_needs_no_initialize():
    """A group of one starts from its first batch, as without a group."""
    store = distributed.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        net = train(DistributedDataParallel(model(**CHANNELS)))
        assert net.module[1].initialized
        with pytest.raises(RuntimeError, match=FIRST):
            train(sharded(model(**CHANNELS)))
    finally:
        distributed.destroy_process_group()
