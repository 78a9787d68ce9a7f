"""``torch.onnx.symbolic_opset11``: named by functions that only an ONNX exporter would call; empty, as there is
none."""
