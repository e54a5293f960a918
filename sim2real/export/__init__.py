"""The export bundle: ONNX, C99, contract and golden vectors, and the check that compares them."""
