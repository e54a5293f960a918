"""Isaac Gym's `VecTask` (isaacgymenvs/tasks/base/vec_task.py) over this package's worlds and tasks."""
