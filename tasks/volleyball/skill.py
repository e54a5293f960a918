"""Skill: one drone plays one ball as it is told, or flies to a place: what a team's high level commands (docs/volleyball.md).

A command says what to do (nothing: fly to a place; a lob; a drive), where to, how high a lob rises or how long a drive flies,
and at which height the ball is met. The skills of a match, serve, receive, pass, set, attack, block and go, are situations with
ranges of commands, and one policy has them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from rookery.robots.drones.drone import GRAVITY
from rookery.sim.errors import unknown
from rookery.sim.quantities import command
from rookery.sim.specs import CommandRange, Group, Term, Weights
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.rewards import closeness_inverse
from rookery.tasks.volleyball import plays, rally
from rookery.tasks.volleyball.base import VolleyConfig, VolleyTask
from rookery.tasks.volleyball.rules import FREE, NOWHERE, PLANE, Rules

STROKE, AIM = "1, 0 for a lob, 0, 1 for a drive, 0, 0 for none", "where the ball goes, without a stroke the drone"
APEX, FLIGHT = "height up to which a lob rises, else 0", "how long a drive flies, else 0"
CONTACT = "height of the ball's centre at which it is met"
"""Quantities that a drone is told."""
TOLD = {"stroke": STROKE, "aim": AIM, "apex": APEX, "flight": FLIGHT, "contact": CONTACT}
"""The same by term."""

AFTER_M = 2.0  # m, height to which a drone flies after its hit
Span = tuple[float, float]
NONE: Span = (0.0, 0.0)


class Situation(NamedTuple):
    """One skill: how the ball comes and what is asked for; spans are of uniform draws, m and s, of the near side.

    Args:
        meet_x, meet_y: where the ball comes down to the height of contact; without a ball, where the drone starts.
        contact: m, that height; 0 where no ball is to be played.
        come_x: where the ball comes from, at the net's height; NONE for a ball at rest above the drone.
        rise: m, of its apex above the higher end of its flight.
        aim_x, aim_y, aim_z: where the ball is to go, or the drone.
        apex: m, of the lob that is asked for; flight: s, of the drive.
        run: m, most by which the drone starts beside the place where it meets the ball, along each axis.
    """

    meet_x: Span
    meet_y: Span
    contact: float
    come_x: Span
    rise: Span
    aim_x: Span
    aim_y: Span
    aim_z: Span
    apex: Span = NONE
    flight: Span = NONE
    run: float = 1.2


SKILLS = {
    "go": Situation((0.8, 6.0), (-2.5, 2.5), 0.0, (-5.0, 5.0), (1.0, 2.5), (0.8, 6.0), (-2.5, 2.5), (1.4, 2.6)),
    "serve": Situation(
        (6.0, 6.0), (0.0, 0.0), 2.3, NONE, NONE, (-3.5, -1.5), (-1.5, 1.5), (2.0, 2.0), apex=(5.5, 6.5), run=0.0
    ),
    "receive": Situation(
        (1.5, 6.0), (-2.5, 2.5), 2.3, (-6.0, -1.5), (2.0, 3.5), (1.5, 3.5), (-1.5, 1.5), (2.3, 2.3), apex=(4.5, 6.0)
    ),
    "pass": Situation(
        (1.5, 6.0), (-2.5, 2.5), 2.3, (1.5, 6.0), (1.8, 3.5), (-5.0, -1.5), (-2.0, 2.0), (2.0, 2.0), apex=(5.0, 6.5)
    ),
    "set": Situation(
        (1.5, 4.0), (-2.0, 2.0), 2.3, (1.5, 6.0), (1.8, 3.5), (1.0, 2.5), (-2.0, 2.0), (3.2, 3.2), apex=(5.0, 6.0)
    ),
    "attack": Situation(
        (1.2, 2.8), (-2.0, 2.0), 3.2, (1.0, 5.0), (1.5, 2.5), (-5.0, -2.5), (-2.0, 2.0), (0.1, 0.1), flight=(1.0, 1.25),
        run=0.8,
    ),
    "block": Situation(
        (0.7, 1.5), (-2.0, 2.0), 2.6, (-4.0, -1.5), (1.0, 2.0), (-4.5, -1.5), (-2.0, 2.0), (2.0, 2.0), apex=(4.2, 5.5),
        run=0.6,
    ),
}  # fmt: skip
"""The skills by name."""
NAMES = tuple(SKILLS)


@dataclass(frozen=True)
class SkillConfig(VolleyConfig):
    """Values of volley-skill; the court is that of volley-3v3."""

    court_length_m: float = 12.0  # m
    court_width_m: float = 6.0  # m
    episode_s: float = 3.0  # s
    start_box_m: tuple[float, ...] = (0.0, 0.0, 0.4)  # m
    start_tilt: float = 0.1  # rad
    start_speed: float = 0.7  # m/s, half-width of each component
    ball_above_m: float = 3.0  # m, of a serve
    skill: str = "any"  # one of SKILLS, or any of them
    near_m: float = 1.0  # m, miss of the ball that counts as a success
    there_m: float = 0.3  # m, the same of a drone that flies to a place, at the end of the episode
    over_net_m: float = 0.1  # m, the least by which a ball that is to go over the net clears it
    after_s: float = 0.4  # s, that an episode goes on after the hit
    stray: float = (
        0.0  # share of episodes, for training, whose ball flies anywhere: not to be played where it comes down beyond
    )
    reward: Weights = Weights(
        near=0.1, hit=2.0, aimed=10.0, wrong_hit=-10.0, drone_fault=-10.0, ball_fault=-2.0,
    )  # fmt: skip


class VolleySkill(VolleyTask):
    """One drone plays one ball as it is told, or flies to a place.

    After the hit it is told to go somewhere, as in a match.

    Success: a hit with the racket after which the ball flies to within 1 m of where it was told, over the net where that lies
    on the other side, and no fault of the drone's; without a ball to play, to be within 0.3 m of the place after 3 s.
    """

    name = "volley-skill"

    metric_definitions = MappingProxyType(
        {
            "success": "1 where the ball, or the drone, went to where it was told",
            "off_m": "m, by which the ball missed it, 10 without a hit; a drone's own distance where it flies to a place",
            "hits": "hits of the ball by the drone",
            "skill": "number of the skill, in the order of SKILLS",
            **TURNING_METRICS,
        }
    )

    Config: ClassVar[type] = SkillConfig
    over_net: ClassVar[bool] = True
    turned: ClassVar[bool] = True
    anchors: ClassVar[tuple[tuple[float, float, float], ...]] = ((6.0, 0.0, 2.0),)
    cfg: SkillConfig

    kind: Tensor
    aim: Tensor
    after: Tensor
    apex: Tensor
    flight: Tensor
    contact: Tensor
    off: Tensor
    good: Tensor
    hit_at: Tensor

    def rules(self) -> Rules:
        return self.court_rules(
            order=FREE, ball_low=self.ball_kind.radius + 0.01, bounds=NOWHERE, ball_net=True,
            drone_low=0.3, drone_net=PLANE,
        )  # fmt: skip

    def setup(self) -> None:
        super().setup()
        if self.cfg.skill != "any" and self.cfg.skill not in SKILLS:
            raise unknown("skill", self.cfg.skill, ("any", *SKILLS))
        n = self.world.num_envs
        for name in ("kind", "hit_at"):
            self.buffer(name, n, dtype=torch.int64)
        for name in ("apex", "flight", "contact", "off"):
            self.buffer(name, n)
        self.buffer("aim", n, 3)
        self.buffer("after", n, 3)
        self.buffer("good", n, dtype=torch.bool)
        fields = [f for f in Situation._fields if f not in ("contact", "run")]
        spans = [[getattr(s, f) for f in fields] for s in SKILLS.values()]
        self._spans = dict(zip(fields, torch.tensor(spans).unbind(1), strict=True))
        self._contacts = torch.tensor([s.contact for s in SKILLS.values()])
        self._runs = torch.tensor([s.run for s in SKILLS.values()])

    def groups(self) -> dict[str, Group]:
        _, ball, velocity, *landing = self.ball_terms()
        terms = (*self.state_terms(), ball, velocity, *landing, *command_terms(), *self.action_terms())
        return {"drone": Group(1, terms, self.action, history=self.cfg.history)}

    def command_ranges(self) -> Mapping[str, CommandRange]:
        asked = list(SKILLS.values()) if self.cfg.skill == "any" else [SKILLS[self.cfg.skill]]
        go = SKILLS["go"]
        after = Situation(NONE, NONE, 0.0, NONE, NONE, go.aim_x, go.aim_y, (AFTER_M, AFTER_M))  # as `_go_on` says
        told = [_told_in(situation) for situation in (*asked, after)]
        return {name: CommandRange.hull([ranges[name] for ranges in told]) for name in TOLD.values()}

    @property
    def stroke(self) -> Tensor:
        """[N, 2] of lob and drive, as told now."""
        return torch.stack((self.apex > 0.0, self.flight > 0.0), -1).float()

    def measured(self) -> dict[str, dict[str, Tensor]]:
        told = {TOLD[name]: value for name, value in self._told().items()}
        return {"drone": super().measured()["drone"] | told}

    def _told(self) -> dict[str, Tensor]:
        """The commands to the drone now, [N, 1, D] by term."""
        told = {"stroke": self.stroke, "aim": self.aim, "apex": self.apex[:, None], "flight": self.flight[:, None]}
        told |= {"contact": self.contact[:, None]}
        return {name: value[:, None] for name, value in told.items()}

    def observe(self) -> dict[str, dict[str, Tensor]]:
        seen = self.observe_ball()
        del seen["from_anchor"]
        return {"drone": self.observe_state() | seen | self._told() | self.observe_action()}

    def reset(self, ids: Tensor) -> None:
        super().reset(ids)
        u = self.rng(ids).uniform(0.0, 1.0, (19,))
        count = len(SKILLS)
        kind = (u[:, 0] * count).long().clamp_max(count - 1)
        if self.cfg.skill != "any":
            kind.fill_(NAMES.index(self.cfg.skill))
        drawn = {name: low + u[:, 1 + i] * (high - low) for i, (name, (low, high)) in enumerate(self._of(kind))}
        self.kind[ids] = kind
        self.contact[ids] = self._contacts[kind]
        self.apex[ids] = drawn["apex"]
        self.flight[ids] = drawn["flight"]
        self.aim[ids] = torch.stack([drawn[f"aim_{axis}"] for axis in "xyz"], -1)
        go = SKILLS["go"]
        spans = torch.tensor((go.aim_x, go.aim_y))
        self.after[ids, :2] = spans[:, 0] + u[:, 17:] * (spans[:, 1] - spans[:, 0])
        self.after[ids, 2] = AFTER_M
        self.off[ids] = 10.0
        self.good[ids] = False
        self.hit_at[ids] = -1
        self._place(ids, kind, drawn, u[:, 10:])

    def _of(self, kind: Tensor) -> list[tuple[str, tuple[Tensor, Tensor]]]:
        return [(name, tuple(spans[kind].unbind(1))) for name, spans in self._spans.items()]  # type: ignore[misc]

    def _place(self, ids: Tensor, kind: Tensor, drawn: dict[str, Tensor], u: Tensor) -> None:
        """Put the drones near where they meet the balls, and the balls on their way there."""
        assert self.ball is not None
        meet = torch.stack((drawn["meet_x"], drawn["meet_y"]), -1)
        state = self.drones.bodies.state[ids].clone()
        run = self._runs[kind][:, None] * (2.0 * u[:, :2] - 1.0)
        state[:, 0, :2] = meet + run
        state[:, 0, 0].clamp_(min=0.5)
        state[:, 0, 7:10] = self.cfg.start_speed * (2.0 * self.rng(ids).uniform(0.0, 1.0, (3,)) - 1.0)
        serve = kind == NAMES.index("serve")
        state[serve, 0, 7:10] = 0.0
        self.drones.reset(ids, state)

        height = torch.where(self._contacts[kind] > 0.0, self._contacts[kind], 2.0)
        low = torch.full_like(height, 2.3)
        apex = torch.maximum(low, height) + drawn["rise"]
        up = (2.0 * GRAVITY * (apex - low)).sqrt()
        whole = (up + (2.0 * GRAVITY * (apex - height)).sqrt()) / GRAVITY
        come = torch.stack((drawn["come_x"], 5.0 * u[:, 2] - 2.5), -1)
        stray = (u[:, 6] < self.cfg.stray) & (kind != NAMES.index("serve"))
        anywhere = torch.stack((-5.0 * drawn["come_x"].sign() * u[:, 4], 5.0 * u[:, 5] - 2.5), -1)
        meet = torch.where(stray[:, None], anywhere, meet)
        flown = 0.4 * u[:, 3] * whole
        ball = torch.zeros(len(ids), 1, 13)
        ball[..., 3] = 1.0
        speed = (meet - come) / whole[:, None]
        ball[:, 0, :2] = come + flown[:, None] * speed
        ball[:, 0, 2] = low + flown * (up - 0.5 * GRAVITY * flown)
        ball[:, 0, 7:9] = speed
        ball[:, 0, 9] = up - GRAVITY * flown
        ball[serve, 0, :3] = state[serve, 0, :3]
        ball[serve, 0, 2] += self.cfg.ball_above_m
        ball[serve, 0, 7:10] = 0.0
        self.ball.set_state(ids, ball)
        self.referee.start(ids, ball[:, 0], torch.zeros(len(ids), dtype=torch.int64))

    def advance(self) -> None:
        super().advance()
        assert self.ball is not None
        hit = (self.referee.hit_now[:, 0] > 0) & (self.hit_at < 0)
        if hit.any():
            ids = hit.nonzero().squeeze(1)
            self.hit_at[ids] = self.steps[ids]
            self._judge(ids)
            self._go_on(ids)

    def _go_on(self, ids: Tensor) -> None:
        """After the hit: fly to a place."""
        self.aim[ids] = self.after[ids]
        for told in (self.apex, self.flight, self.contact):
            told[ids] = 0.0

    def _judge(self, ids: Tensor) -> None:
        """Judge balls that were just hit by where they come down to the height of their aim, and whether they clear the net."""
        assert self.ball is not None
        ball = self.ball.state[ids, 0]
        aim = self.aim[ids]
        drop = ball[:, 9].square() + 2.0 * GRAVITY * (ball[:, 2] - aim[:, 2])
        time = (ball[:, 9] + drop.clamp_min(0.0).sqrt()) / GRAVITY
        off = (ball[:, :2] + time[:, None] * ball[:, 7:9] - aim[:, :2]).norm(dim=-1)
        off = torch.where(drop >= 0.0, off, 10.0)
        until = -ball[:, 0] / ball[:, 7].clamp_max(-1e-3)
        height = ball[:, 2] + until * (ball[:, 9] - 0.5 * GRAVITY * until)
        r = self.referee.rules
        clear = (aim[:, 0] > 0.0) | (height > r.net_height + r.ball_radius + self.cfg.over_net_m)
        played = self.stroke[ids].sum(-1) > 0.0
        self.off[ids] = off
        self.good[ids] = (off < self.cfg.near_m) & clear & played

    @property
    def away(self) -> Tensor:
        """[N] m, of the drone from the place to which it flies."""
        return (self.drones.bodies.pos[:, 0] - self.aim).norm(dim=-1)

    @property
    def going(self) -> Tensor:
        """[N] bool: no ball is to be played, from the beginning."""
        return self.kind == NAMES.index("go")

    def truncated(self) -> Tensor:
        after = round(self.cfg.after_s / self.cfg.control_dt)
        return (self.hit_at >= 0) & (self.steps - self.hit_at >= after)

    def terminated(self) -> Tensor:
        """A ball that lands is no fault where none is to be played, or after the hit."""
        fault = self.referee.fault.long()
        ball = (fault == rally.BALL_LANDED) | (fault == rally.BALL_IN_NET) | (fault == rally.BALL_OUT)
        return fault.masked_fill(ball & (self.going | self.good), 0)

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        hit = self.hit_at == self.steps
        faults = self.faults()
        faults["ball_fault"] = faults["ball_fault"] * (~self.going & (self.hit_at < 0))[:, None]
        return {
            "drone": {
                "near": (self.going * closeness_inverse(self.away))[:, None],
                "hit": (hit & ~self.going).float()[:, None],
                "aimed": (hit * ~self.going * closeness_inverse(self.off))[:, None],
                **faults,
            }
        }

    def metrics(self) -> dict[str, Tensor]:
        drone_fault = torch.isin(self.referee.fault, torch.tensor((*rally.DRONE_FAULTS, *rally.HIT_FAULTS)))
        there = self.away < self.cfg.there_m
        won = torch.where(self.going, there & (self.hit_at < 0), self.good) & ~drone_fault
        return {
            "success": won.float(),
            "off_m": torch.where(self.going, self.away, self.off),
            "hits": self.referee.total.float(),
            "skill": self.kind.float(),
            **self.turning.metrics(),
        }

    def controller(self) -> plays.Act:
        return plays.AsTold(self, timing=plays.Timing(calm=7.0))


def _told_in(s: Situation) -> dict[str, CommandRange]:
    """Ranges of what a drone is told in a situation, by quantity."""
    contact = (s.contact, s.contact)
    stroke = [(float(span[1] > 0.0),) * 2 for span in (s.apex, s.flight)]
    spans = {STROKE: stroke, AIM: [s.aim_x, s.aim_y, s.aim_z], APEX: [s.apex], FLIGHT: [s.flight], CONTACT: [contact]}
    return {name: CommandRange(tuple(a for a, _ in each), tuple(b for _, b in each)) for name, each in spans.items()}


def command_terms() -> tuple[Term, ...]:
    """The terms of what a drone is told."""
    return (
        Term("stroke", command(STROKE, 2)),
        Term("aim", command(AIM, 3, "m", "court"), scale=0.25),
        Term("apex", command(APEX, 1, "m"), scale=0.25),
        Term("flight", command(FLIGHT, 1, "s")),
        Term("contact", command(CONTACT, 1, "m"), scale=0.5),
    )
