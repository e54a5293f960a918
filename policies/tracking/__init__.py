"""Trackers of training runs: TensorBoard, Weights & Biases, MLflow, and your own."""
