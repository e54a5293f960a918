"""The runtime: flies, walks and reaches with a bundle, through a link to a vehicle.

    Link.read() -> Reading -> safety filter -> observation, network and command of the bundle's C -> Link.write(...)

`pilot.py` is the mental model: one vehicle, one state of idle, checked, armed, entry, policy, exit and emergency, and a `step`
that is called once a control period. `loop.py` calls it in time.
"""
