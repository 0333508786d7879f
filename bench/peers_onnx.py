"""ONNX Runtime as a peer: one node in a model, reading and writing the tensors where they lie (I/O binding)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnxruntime
import torch
from onnx import TensorProto, helper
from torch import Tensor

from bench.problems import Problem
from bench.rows import GROUP_SIZE

Call = Callable[[], tuple[Tensor, ...]]
ELEMENTS = {
    torch.float32: TensorProto.FLOAT,
    torch.float64: TensorProto.DOUBLE,
    torch.float16: TensorProto.FLOAT16,
    torch.bfloat16: TensorProto.BFLOAT16,
    torch.int8: TensorProto.INT8,
    torch.uint8: TensorProto.UINT8,
    torch.int64: TensorProto.INT64,
}
OPSET = 21


def make(problem: Problem) -> Call | None:
    row, given = problem.row, problem.inputs
    if row.op == "cumsum":
        if row.direction == "forward":
            return _run(problem, "CumSum", [given["x"], torch.tensor(row.axis)], problem.peer_outputs)
        return _run(problem, "CumSum", [given["dy"], torch.tensor(row.axis)], problem.peer_outputs, reverse=1)
    if row.direction == "backward":
        return None
    if row.op == "dynamic_quantize":
        q, scale, _ = problem.peer_outputs
        if row.variant != "asymmetric" or row.dtype != "f32":
            return None  # it knows one range of u8 alone
        code = torch.empty((), dtype=torch.uint8)
        call = _run(problem, "DynamicQuantizeLinear", [given["x"]], (q, scale, code))
        return lambda: (*call()[:2], code.to(torch.int32))
    if row.op not in ("quantize", "dequantize"):
        return None
    codes = problem.outputs[0] if row.op == "quantize" else given["q"]
    like = given["x"] if row.op == "quantize" else problem.outputs[0]
    # The scale has the floats' type here, so that 16-bit results differ in rounding; the work is the same.
    scale = torch.as_tensor(given["scale"]).to(like.dtype)
    zero_point = torch.as_tensor(given["zero_point"]).to(codes.dtype)
    options: dict[str, Any] = {"axis": {"token": 0, "channel 0": 0}.get(row.scope, 1)} if scale.dim() else {}
    if row.scope == "group":
        options["block_size"] = GROUP_SIZE
    kind = "QuantizeLinear" if row.op == "quantize" else "DequantizeLinear"
    first = given["x"] if row.op == "quantize" else given["q"]
    return _run(problem, kind, [first, scale, zero_point], problem.peer_outputs, **options)


def _run(problem: Problem, kind: str, inputs: list[Tensor], outputs: tuple[Tensor, ...], **options: Any) -> Call:
    def info(name: str, tensor: Tensor) -> Any:
        return helper.make_tensor_value_info(name, ELEMENTS[tensor.dtype], list(tensor.shape))

    inputs = [tensor.contiguous() for tensor in inputs]
    of_inputs, of_outputs = [f"i{i}" for i in range(len(inputs))], [f"o{i}" for i in range(len(outputs))]
    node = helper.make_node(kind, of_inputs, of_outputs, **options)
    graph = helper.make_graph([node], kind, [*map(info, of_inputs, inputs)], [*map(info, of_outputs, outputs)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = problem.row.threads
    session_options.log_severity_level = 4
    # Its threads would go on spinning after a call, into the turn of the next contestant.
    session_options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model.SerializeToString(), session_options, ["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, tensor in zip(of_inputs, inputs, strict=True):
        binding.bind_input(name, "cpu", 0, ELEMENTS[tensor.dtype], list(tensor.shape), tensor.data_ptr())
    for name, tensor in zip(of_outputs, outputs, strict=True):
        binding.bind_output(name, "cpu", 0, ELEMENTS[tensor.dtype], list(tensor.shape), tensor.data_ptr())

    def call() -> tuple[Tensor, ...]:
        session.run_with_iobinding(binding)
        return (*outputs, *inputs)[: len(outputs)]  # the inputs stay alive with the call

    return call
