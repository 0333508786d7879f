"""Results as `bench` stores them, made by hand."""

from bench.goals import goal_of
from bench.rows import Row


def result(row: Row, planck_ms: float, copy_ms: float, disturbance: float = 0.0, **peers: float) -> dict:
    names = {"torch": "PyTorch", "numpy": "NumPy", "onnx": "ONNX Runtime"}
    return {
        **row.as_json(),
        "planck_ms": planck_ms,
        "planck_min_ms": planck_ms,
        "copy_ms": copy_ms,
        "copy_min_ms": copy_ms,
        "peers": {names[name]: ms for name, ms in peers.items()},
        "peers_min": {},
        "ratio_copy": planck_ms / copy_ms,
        "goal": goal_of(row),
        "gb_per_s": 10.0,
        "bytes": 8 * row.elements,
        "rounds": 5,
        "max_abs_diff": 0.0 if peers else None,
        "max_rel_diff": 0.0 if peers else None,
        "diffs": {},
        "others": 0.0,
        "disturbance": disturbance,
        "busy": disturbance > 1,
    }


def document(rows: list[dict]) -> dict:
    return {
        "options": "--write",
        "machine": "2 cores of a test",
        "tunables": "glibc.malloc.mmap_max=0",
        "versions": {"torch": "1.0"},
        "complete": True,
        "missing": {"torchao": "cannot be imported: ModuleNotFoundError: no torchao"},
        "absent": {},
        "calls": {"`FakeQuantizePlan_run` on 64 elements": 90.0},
        "rows": rows,
    }
