"""``torch.onnx.symbolic_opset11``: empty, as there is no ONNX exporter."""
