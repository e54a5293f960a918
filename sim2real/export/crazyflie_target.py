"""`--target crazyflie`: an out-of-tree controller for the Crazyflie's firmware, with the policy and its rate loop on board.

    make CRAZYFLIE_BASE=~/crazyflie-firmware     # in the folder crazyflie/ of the export
    make cload

It runs at 500 Hz, flies to position set-points that come by radio (`commander.send_position_setpoint` of cflib), and descends
when none has come for a while. The firmware's self-test fails where the network answers otherwise than in training.

Interface: controller.h, stabilizer_types.h and docs/development/oot.md of github.com/bitcraze/crazyflie-firmware (2024). The
estimator's quaternion takes body to world axes, x forward and y left; its gyroscope gives deg/s.
"""

from __future__ import annotations

from pathlib import Path

from rookery.policies.stages.c_text import literal
from rookery.sim.actuation import Multirotor
from rookery.sim.errors import RookeryError
from rookery.sim.specs import CommandRange
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.exporter import C_FILE, HEADER, Export, Exporter, TargetGuide, file_name
from rookery.sim2real.export.golden_c import golden_header
from rookery.sim2real.export.loops_c import LoopsC
from rookery.sim2real.export.multirotor_c import MultirotorC
from rookery.sim2real.export.on_board import check_on_board, only_group
from rookery.sim2real.export.state_c import StateC

CONTROLLER, POLICY, GOLDEN_HEADER, KBUILD, SOURCES, CONFIG, MAKEFILE = (
    "crazyflie/src/controller_rookery.c",
    "crazyflie/src/policy.c",
    "crazyflie/src/golden.h",
    "crazyflie/Kbuild",
    "crazyflie/src/Kbuild",
    "crazyflie/app-config",
    "crazyflie/Makefile",
)
FIELDS = {
    "target": ("target[0]", "target[1]", "target[2]"),
    "position": ("state->position.x", "state->position.y", "state->position.z"),
    "velocity": ("state->velocity.x", "state->velocity.y", "state->velocity.z"),
    "rotation": tuple(f"state->attitudeQuaternion.{axis}" for axis in "wxyz"),
    "angular velocity": tuple(f"RADIANS * sensors->gyro.{axis}" for axis in "xyz"),
}
"""Quantities that the firmware gives, by the names that all tasks share; the target comes by radio."""
MOTORS = (((1, -1), -1), ((-1, -1), 1), ((-1, 1), -1), ((1, 1), 1))
"""Of M1 to M4, in which quarter they stand (x forward, y left) and how they turn: +1 clockwise from above."""
TICK = 0.001
"""s, of the firmware's main loop."""
MOST_STACK = 1100
"""Bytes of the stabilizer task's 1800 that a control step may take."""


class Crazyflie(Exporter):
    """The bundle and an out-of-tree controller of the Crazyflie's firmware."""

    name = "crazyflie"
    includes = ("bundle",)
    files = (CONTROLLER, POLICY, GOLDEN_HEADER, KBUILD, SOURCES, CONFIG, MAKEFILE)

    def guide(self, export: Export) -> TargetGuide:
        return TargetGuide(
            "crazyflie/",
            "an out-of-tree controller for the Crazyflie's firmware, with the policy and its loops on board",
            (
                "make -C crazyflie CRAZYFLIE_BASE=~/crazyflie-firmware          # a checkout of bitcraze/crazyflie-firmware",
                "make -C crazyflie CRAZYFLIE_BASE=~/crazyflie-firmware cload    # flashes it by radio",
            ),
            "It flies to position set-points that come by radio (cflib's `commander.send_position_setpoint`), descends when "
            "none has come for 200 ms, and switches the motors off at a stop. Its self-test at boot fails where the network "
            "answers otherwise than in training.",
            (
                "stand-ins of the firmware's headers with its warnings; flown in simulation through its functions",
                "the firmware's build, a Crazyflie",
            ),
        )

    def check(self, export: Export) -> None:
        group = only_group(export, "a Crazyflie")
        export.contract.groups[group].refuse_team()
        actuation = export.contract.groups[group].actuation
        if actuation is None or actuation.multirotor is None:
            raise RookeryError(f"the group {group!r} commands no rotors: --target linux takes every robot.")
        state = check_on_board(export, group, "the firmware", FIELDS, "the firmware's task", MOST_STACK)
        below = LoopsC(export.contract, group, export.c_prefix(group)).written
        if not isinstance(below, MultirotorC):
            raise RookeryError(
                "the action enters no loop that has C: train with ctbr, attitude, velocity or rotor_thrust."
            )
        _rotors(below.craft)
        for what, seconds in (("control_dt", state.control_dt), ("the loops' period", below.period)):
            if abs(seconds / TICK - round(seconds / TICK)) > 1e-6:
                raise RookeryError(f"{what} is {seconds:g} s, and the firmware counts in steps of {TICK:g} s.")

    def write(self, export: Export, folder: Path) -> None:
        ((group, policy),) = export.policies.items()
        header = file_name(HEADER, export.contract, group)
        texts = {
            CONTROLLER: controller(export.contract, group, export.c_prefix(group)),
            POLICY: f'/* For the firmware to build. */\n#include "../../{file_name(C_FILE, export.contract, group)}"\n',
            GOLDEN_HEADER: golden_header(policy, export.c_prefix(group), f"../../{header}"),
            KBUILD: "obj-y += src/\n",
            SOURCES: "obj-y += controller_rookery.o policy.o\n",
            CONFIG: _CONFIG,
            MAKEFILE: _MAKEFILE,
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="ascii")


def _rotors(craft: Multirotor) -> list[int]:
    """Rotor of the contract for each motor of the Crazyflie.

    Raises:
        RookeryError: they stand or turn otherwise.
    """
    out = []
    for (x, y), direction in MOTORS:
        found = [
            i
            for i, r in enumerate(craft.rotors)
            if r.position[0] * x > 0.0 and r.position[1] * y > 0.0 and r.direction == direction
        ]
        if len(found) != 1 or len(craft.rotors) != len(MOTORS):
            raise RookeryError("the drone's rotors do not stand and turn as a Crazyflie's: train with a Crazyflie.")
        out += found
    return out


def controller(contract: Contract, group: str, prefix: str) -> str:
    """The text of the controller."""
    state = StateC(contract, group, prefix)
    below = LoopsC(contract, group, prefix).written
    assert isinstance(below, MultirotorC)
    craft = below.craft
    fill = [
        f"    measured.{name}[{i}] = {value};"
        for name, q in state.members.items()
        for i, value in enumerate(FIELDS[q.name])
    ]
    sensed = [line.split()[1].split("[")[0] for line in below.sensed()]
    feel = [
        f"    sensed.{name}[{i}] = {value};"
        for name in sensed
        for i, value in enumerate(FIELDS[name.replace("_", " ")])
    ]
    held = contract.groups[group].commands.get("target")
    aims = [_aimed(held, i) for i in range(3)]
    motors = [
        f"    control->normalizedForces[{m}] = force_of(motor[{rotor}]);" for m, rotor in enumerate(_rotors(craft))
    ]
    names = {
        "P": prefix, "U": prefix.upper(), "FILL": "\n".join(fill), "FEEL": "\n".join(feel), "MOTORS": "\n".join(motors),
        "AIM": "\n".join(aims), "WITHIN": "" if held is None else _WITHIN,
        "EVERY": str(round(below.period / TICK)), "T0": literal(craft.thrust_curve[0]), "T1": literal(craft.thrust_curve[1]),
        "T2": literal(craft.thrust_curve[2]), "FULL": literal(sum(craft.thrust_curve)),
        "HEADER": f"../../{file_name(HEADER, contract, group)}",
    }  # fmt: skip
    text = _CONTROLLER
    for name, value in names.items():
        text = text.replace(f"@{name}@", value)
    return text


def _aimed(held: CommandRange | None, i: int) -> str:
    """C that takes a component of a set-point for the target, within what the policy was trained with."""
    asked = f"setpoint->position.{'xyz'[i]}"
    if held is not None:
        origin = f"{FIELDS[held.relative_to][i]} + " if held.relative_to else ""
        asked = f"within({asked}, {origin}{literal(held.low[i])}, {origin}{literal(held.high[i])})"
    return f"        target[{i}] = {asked};"


_WITHIN = """
/* What the policy was trained with. */
static float within(float asked, float low, float high)
{
    return asked < low ? low : (asked > high ? high : asked);
}
"""

_MAKEFILE = """# Builds the firmware with this controller: make CRAZYFLIE_BASE=~/crazyflie-firmware; make cload flashes it.
CRAZYFLIE_BASE ?= ../../crazyflie-firmware
OOT_CONFIG := $(CURDIR)/app-config

include $(CRAZYFLIE_BASE)/tools/make/oot.mk
"""

_CONFIG = """CONFIG_APP_ENABLE=y
CONFIG_APP_PRIORITY=1
CONFIG_APP_STACKSIZE=350
CONFIG_CONTROLLER_OOT=y
"""

_CONTROLLER = """/* An out-of-tree controller of the Crazyflie's firmware: flies to position set-points by the policy beside it.

   A set-point asks for a place (modeAbs in x, y and z), as commander.send_position_setpoint sends it by radio. The policy
   begins an episode with the first one. When none has come for SILENCE ms the drone descends and switches its motors off on
   the ground; a set-point of another kind, such as a stop, and a number of the state that is none switch them off at once. A
   new set-point after that begins anew. */
#include <stdbool.h>
#include <stdint.h>

#include "app.h"
#include "FreeRTOS.h"
#include "task.h"
#include "controller.h"

#define DEBUG_MODULE "ROOKERY"
#include "debug.h"

#include "@HEADER@"
#include "golden.h"

#define SILENCE 200         /* ms */
#define DESCENT 0.3f        /* m/s, of the target */
#define GROUND 0.05f        /* m */
#define BELOW (-0.2f)       /* m, of a target that sinks: there the descent ends wherever the estimate is */
#define RADIANS 0.0174532925f

enum phase { IDLE, FLYING, LANDED };

static @P@_controller policy;
static @P@_state measured;
static @P@_loops loops;
static @P@_sensed sensed;
static float command[@U@_POLICY_ACTIONS];
static float target[3];
static uint32_t steps;
static uint32_t landed_at;
static enum phase phase;

void appMain(void)
{
    while (1) {
        vTaskDelay(M2T(2000));
    }
}

void controllerOutOfTreeInit(void)
{
    phase = IDLE;
}

bool controllerOutOfTreeTest(void)
{
    const bool right = @P@_golden_error() <= @U@_GOLDEN_MOST;

    DEBUG_PRINT("the network answers %s\\n", right ? "as in training" : "otherwise than in training");
    return right;
}

/* Shares of full force: of thrust where the firmware makes up for the battery's voltage, else of the motor command. */
static float force_of(float motor)
{
#ifdef CONFIG_ENABLE_THRUST_BAT_COMPENSATED
    return (@T0@ + motor * (@T1@ + motor * @T2@)) / @FULL@;
#else
    return motor;
#endif
}

static void off(control_t *control)
{
    int i;

    for (i = 0; i < 4; i++) {
        control->normalizedForces[i] = 0.0f;
    }
}

static bool asked(const setpoint_t *setpoint)
{
    return setpoint->mode.x == modeAbs && setpoint->mode.y == modeAbs && setpoint->mode.z == modeAbs;
}

static bool fresh(const setpoint_t *setpoint)
{
    return xTaskGetTickCount() - setpoint->timestamp <= M2T(SILENCE);
}

static void land(control_t *control, const setpoint_t *setpoint)
{
    landed_at = setpoint->timestamp;
    phase = LANDED;
    off(control);
}

static void begin(void)
{
    @P@_start(&policy);
    @P@_start_loops(&loops);
    steps = 0;
    phase = FLYING;
}

@WITHIN@
/* The target: that of a set-point which is fresh, else one that sinks. */
static void aim(const setpoint_t *setpoint, const state_t *state)
{
    (void)state;
    if (fresh(setpoint)) {
@AIM@
    } else {
        target[2] -= DESCENT * @U@_LOOP_DT;
    }
}

void controllerOutOfTree(control_t *control, const setpoint_t *setpoint, const sensorData_t *sensors, const state_t *state,
                         const uint32_t tick)
{
    float motor[4];

    control->controlMode = controlModeForce;
    if (tick % @EVERY@u != 0u) {
        return; /* what was commanded holds */
    }
    if (phase != FLYING) {
        off(control);
        if (!asked(setpoint) || !fresh(setpoint) || (phase == LANDED && setpoint->timestamp == landed_at)) {
            return;
        }
        begin();
    }
    if (fresh(setpoint) && !asked(setpoint)) {
        land(control, setpoint);
        return;
    }
    aim(setpoint, state);
    if (!fresh(setpoint) && ((target[2] < GROUND && state->position.z < GROUND) || target[2] < BELOW)) {
        land(control, setpoint);
        return;
    }
@FILL@
@FEEL@
    if (steps % @U@_LOOP_STEPS == 0u && @P@_step(&policy, &measured, command) == 0) {
        land(control, setpoint);
        return;
    }
    @P@_motors(&loops, &sensed, command, motor);
@MOTORS@
    steps++;
}
"""
