"""System identification: the physical parameters of a robot from its log, with intervals.

    readers/  any log  ->  Table  ->  logs.JointLog or logs.MultirotorLog, checked
    Problem: parameters -> residuals of windows that are simulated again, many candidates at a time
    estimate: Gauss-Newton, weights that know correlated residuals, intervals, profiles, what cannot be told apart
    report, ranges, plots: JSON, `--randomize` files, values for the robot, predicted against logged

`problem.py` is the mental model. Jointed robots are simulated by `mujoco.batch`, multirotors by the compiled equations of the
rotor engine.
"""
