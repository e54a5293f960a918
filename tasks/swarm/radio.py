"""Radio links from UAV base stations to users on the ground, and what it costs to keep the stations in the air.

Channel: mean path loss of Al-Hourani, Kandeepan and Lardner ("Optimal LAP altitude for maximum coverage", IEEE Wireless
Communications Letters 3(6), 2014). A link at elevation angle theta (degrees) has line of sight with the probability
``1 / (1 + a exp(-b (theta - a)))`` and loses free space loss plus `los_db` with it, `nlos_db` without. Constants: their urban
environment at 2 GHz.

Propulsion: Zeng, Xu and Zhang ("Energy minimization for wireless communication with rotary-wing UAV", IEEE Transactions on
Wireless Communications 18(4), 2019), with the constants of their 20 N aircraft.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

_fast = njit(cache=True, nogil=True, error_model="numpy")

LIGHT = 299_792_458.0  # m/s


class Channel(NamedTuple):
    """Constants of the links of one cell layer."""

    a: float = 9.61  # 1, urban
    b: float = 0.16  # 1/degree, urban
    los_db: float = 1.0  # dB, excess loss with line of sight, urban
    nlos_db: float = 20.0  # dB, excess loss without, urban
    frequency: float = 2e9  # Hz
    bandwidth: float = 10e6  # Hz, of each station
    power_dbm: float = 30.0  # dBm, radiated by each station
    noise_dbm_hz: float = -174.0  # dBm/Hz, thermal at 290 K
    noise_figure_db: float = 9.0  # dB, of a handset, as in 3GPP's link budgets
    interference: bool = True  # all stations use the same band; False: bands of their own


class Rotorcraft(NamedTuple):
    """Constants of the propulsion power of a rotary-wing UAV; the defaults are those of Zeng, Xu and Zhang."""

    blade_power: float = 79.86  # W, blade profile power in hover
    induced_power: float = 88.63  # W, induced power in hover
    tip_speed: float = 120.0  # m/s
    induced_speed: float = 4.03  # m/s, mean, of the rotor in hover
    drag_ratio: float = 0.6  # 1, of the fuselage
    density: float = 1.225  # kg/m^3
    solidity: float = 0.05  # 1
    disc_area: float = 0.503  # m^2
    weight: float = 20.0  # N


URBAN = Channel()
AIRCRAFT = Rotorcraft()
HOVER_POWER = AIRCRAFT.blade_power + AIRCRAFT.induced_power  # W


@_fast
def line_of_sight(elevation, channel):
    """Probability of line of sight at an elevation angle in rad."""
    return 1.0 / (1.0 + channel.a * math.exp(-channel.b * (math.degrees(elevation) - channel.a)))


@_fast
def path_loss(horizontal, height, channel):
    """Mean path loss in dB over a horizontal distance and a height, both m."""
    distance = max(math.sqrt(horizontal * horizontal + height * height), 1.0)
    free = 20.0 * math.log10(4.0 * math.pi * channel.frequency * distance / LIGHT)
    p = line_of_sight(math.atan2(height, horizontal), channel)
    return free + p * channel.los_db + (1.0 - p) * channel.nlos_db


@_fast
def propulsion_power(speed, climb, craft):
    """W at a horizontal speed and a climb rate in m/s. The paper's model is of level flight; the work of climbing, weight
    times climb rate, is added, and none is won back in descent."""
    v2 = speed * speed
    blade = craft.blade_power * (1.0 + 3.0 * v2 / craft.tip_speed**2)
    ratio = v2 / (2.0 * craft.induced_speed**2)
    induced = craft.induced_power * math.sqrt(max(math.sqrt(1.0 + ratio * ratio) - ratio, 0.0))
    drag = 0.5 * craft.drag_ratio * craft.density * craft.solidity * craft.disc_area * v2 * speed
    return blade + induced + drag + craft.weight * max(climb, 0.0)


@_fast
def jain(rates):
    """Fairness of rates [U] by Jain's index: 1 where all are equal, 1/U where one has all; 0 where nobody has any."""
    total = 0.0
    squares = 0.0
    for r in rates:
        total += r
        squares += r * r
    return total * total / (len(rates) * squares) if squares > 0.0 else 0.0


@_fast
def serve(worlds, state, users, bias_db, channel, rate, server, load):
    """Associate the users of some worlds with stations and share the bands out.

    A user joins the station with the largest received power plus that station's bias (cell range expansion); a station
    divides its band evenly among its users. Rates follow Shannon: ``band share * log2(1 + SINR)``, with the powers of all
    other stations as noise where they use the same band.

    Args:
        worlds: [m] int64 which.
        state: [N, A, 13], stations, see Bodies.state.
        users: [N, U, 2] m, world, on the ground.
        bias_db: [N, A] dB.
        channel: Channel.
        rate: [N, U] bit/s, written.
        server: [N, U] int64, written: the station that serves each user.
        load: [N, A] float32, written: number of users of each station.
    """
    stations = state.shape[1]
    count = users.shape[1]
    noise_dbm = channel.noise_dbm_hz + channel.noise_figure_db + 10.0 * math.log10(channel.bandwidth)
    noise = 10.0 ** (noise_dbm / 10.0)  # mW in the whole band
    for w in worlds:
        for j in range(stations):
            load[w, j] = 0.0
        for u in range(count):
            best = -math.inf
            total = 0.0
            signal = 0.0
            chosen = 0
            for j in range(stations):
                dx, dy = state[w, j, 0] - users[w, u, 0], state[w, j, 1] - users[w, u, 1]
                height = max(state[w, j, 2], 0.0)
                dbm = channel.power_dbm - path_loss(math.sqrt(dx * dx + dy * dy), height, channel)
                power = 10.0 ** (dbm / 10.0)
                total += power
                if dbm + bias_db[w, j] > best:
                    best = dbm + bias_db[w, j]
                    signal = power
                    chosen = j
            others = total - signal if channel.interference else 0.0
            rate[w, u] = channel.bandwidth * math.log2(1.0 + signal / (noise + others))  # still to be shared
            server[w, u] = chosen
            load[w, chosen] += 1.0
        for u in range(count):
            rate[w, u] /= load[w, server[w, u]]


@_fast
def walk(users, way, step, arrived):
    """Move users towards where they are going.

    Args:
        users, way: [N, U, 2] m: where they are (written) and where they go.
        step: [N, U] m.
        arrived: [N, U] bool, written.
    """
    for w in range(users.shape[0]):
        for u in range(users.shape[1]):
            dx, dy = way[w, u, 0] - users[w, u, 0], way[w, u, 1] - users[w, u, 1]
            left = math.sqrt(dx * dx + dy * dy)
            share = 1.0 if left <= step[w, u] else step[w, u] / left
            users[w, u, 0] += share * dx
            users[w, u, 1] += share * dy
            arrived[w, u] = left <= step[w, u]


def propulsion_powers(velocity: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Write the power (W) of stations [N, A] from their velocities [N, A, 3] m/s, in place."""
    _powers(velocity, AIRCRAFT, out)


@_fast
def _powers(velocity, craft, out):
    for n in range(velocity.shape[0]):
        for a in range(velocity.shape[1]):
            x, y = velocity[n, a, 0], velocity[n, a, 1]
            out[n, a] = propulsion_power(math.sqrt(x * x + y * y), velocity[n, a, 2], craft)


@_fast
def watch(worlds, state, users, rate, server, load, sight, near_users, neighbours, poor_rate, seen):
    """Observations of the stations of some worlds.

    Args:
        worlds to load: as in `serve`.
        sight: m: stations farther away are not seen.
        near_users: M: the nearest M users are observed.
        neighbours: K: the nearest K stations in sight are observed.
        poor_rate: bit/s: the rate at which a user weighs half in the middle of the poor.
        seen: [N, A, 5 + 3 M + 5 K] float32, written: M horizontal offsets 2 (m) of users, nearest first; their rates
            (Mbit/s); offset 2 (m) of the middle of the station's own users; their share of all users; offset 2 (m) of the
            middle of all users, each weighing ``1 / (1 + rate / poor_rate)``; K offsets 3 (m) of stations; their shares of
            the users; K ones, 0 for stations that there are not.
    """
    stations = state.shape[1]
    count = users.shape[1]
    m, k = min(near_users, count), neighbours
    distance = np.empty(max(stations, count))
    order = np.empty(max(stations, count), np.int64)
    for w in worlds:
        for a in range(stations):
            x = state[w, a, 0]
            y = state[w, a, 1]
            out = seen[w, a]
            out[:] = 0.0
            poor_x = 0.0
            poor_y = 0.0
            poor = 0.0
            at = 3 * near_users
            for u in range(count):
                dx, dy = users[w, u, 0] - x, users[w, u, 1] - y
                distance[u] = dx * dx + dy * dy
                order[u] = u
                weight = 1.0 / (1.0 + rate[w, u] / poor_rate)
                poor_x = poor_x + weight * dx
                poor_y = poor_y + weight * dy
                poor = poor + weight
                if server[w, u] == a:
                    out[at] += dx / load[w, a]
                    out[at + 1] += dy / load[w, a]
            out[at + 2] = load[w, a] / count
            out[at + 3] = poor_x / poor
            out[at + 4] = poor_y / poor
            _first(distance, order, count, m)
            for i in range(m):
                u = order[i]
                out[2 * i] = users[w, u, 0] - x
                out[2 * i + 1] = users[w, u, 1] - y
                out[2 * near_users + i] = 1e-6 * rate[w, u]
            at += 5
            found = 0
            for b in range(stations):
                dx, dy, dz = state[w, b, 0] - x, state[w, b, 1] - y, state[w, b, 2] - state[w, a, 2]
                d = dx * dx + dy * dy + dz * dz
                if b != a and d <= sight * sight:
                    distance[found] = d
                    order[found] = b
                    found += 1
            _first(distance, order, found, min(k, found))
            for i in range(min(k, found)):
                b = order[i]
                for c in range(3):
                    out[at + 3 * i + c] = state[w, b, c] - state[w, a, c]
                out[at + 3 * k + i] = load[w, b] / count
                out[at + 4 * k + i] = 1.0


@_fast
def _first(distance, order, count, m):
    """Put the m nearest of `count` first, in order."""
    for i in range(m):
        best = i
        for j in range(i + 1, count):
            if distance[j] < distance[best]:
                best = j
        distance[i], distance[best] = distance[best], distance[i]
        order[i], order[best] = order[best], order[i]
