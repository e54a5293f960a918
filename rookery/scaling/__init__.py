"""Speed of a task by processes and threads of a machine: measured, fitted by a model of cost, and remembered."""
