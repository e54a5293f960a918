"""Meta-strategies: games with known equilibria, conditions that define the solutions, and OpenSpiel's own solvers."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.policies.multiagent.alpha_rank import alpha_rank_pairs, alpha_rank_population, fixation, stationary
from rookery.policies.multiagent.solvers import (
    SOLVERS,
    WEIGHTINGS,
    Mixture,
    check_symmetric,
    exploitability,
    is_symmetric,
    nash,
    prioritized,
    replicator,
    uniform,
)
from rookery.sim.errors import RookeryError

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


def weighted_cycle(a: float, b: float, c: float) -> np.ndarray:
    """Rock beats scissors by a, paper beats rock by b, scissors beat paper by c; equilibrium: c : a : b."""
    return np.array([[0.0, -b, a], [b, 0.0, -c], [-a, c, 0.0]])


def random_games(count: int):
    rng = np.random.default_rng(7)
    for _ in range(count):
        rows, columns = rng.integers(2, 9, 2)
        yield rng.uniform(-1.0, 1.0, (rows, columns))


def test_rock_paper_scissors_and_a_weighted_cycle_have_their_known_equilibria() -> None:
    np.testing.assert_allclose(nash(ROCK_PAPER_SCISSORS).rows, [1 / 3] * 3, atol=1e-14)
    game = weighted_cycle(0.2, 0.3, 0.7)
    mixture = nash(game)
    np.testing.assert_allclose(mixture.rows, np.array([0.7, 0.2, 0.3]) / 1.2, atol=1e-14)
    np.testing.assert_allclose(mixture.columns, mixture.rows, atol=0)
    assert max(exploitability(game, mixture)) < 1e-15


def test_of_several_equilibria_the_newest_members_play() -> None:
    mixture = nash(np.ones((3, 2)))
    assert mixture.rows.tolist() == [0.0, 0.0, 1.0] and mixture.columns.tolist() == [0.0, 1.0]
    doubled = np.kron(ROCK_PAPER_SCISSORS, np.ones((2, 2)))
    np.testing.assert_allclose(nash(doubled).rows, [0.0, 1 / 3] * 3, atol=1e-12)


@pytest.mark.slow
def test_no_member_gains_against_an_equilibrium() -> None:
    """The definition, in 100 random games of any shape, and of one population."""
    for game in random_games(100):
        lower = np.tril(game @ game.T, -1)
        for matrix in (game, lower - lower.T):
            mixture = nash(matrix)
            for part in (mixture.rows, mixture.columns):
                assert part.min() >= 0.0 and abs(part.sum() - 1.0) < 1e-12
            assert abs(sum(exploitability(matrix, mixture))) < 1e-9


def test_equilibria_are_those_of_open_spiel(monkeypatch: pytest.MonkeyPatch) -> None:
    pyspiel = pytest.importorskip("pyspiel", reason="open_spiel is not installed")
    lp_solver = pytest.importorskip("open_spiel.python.algorithms.lp_solver", reason="cvxpy is not installed")
    solve = lp_solver.LinearProgram.solve
    tight = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13}
    # an interior-point method, where ours is a simplex
    monkeypatch.setattr(
        lp_solver.LinearProgram, "solve", lambda self: solve(self, solver="CLARABEL", solver_kwargs=tight)
    )
    for game in random_games(100):
        rows, columns, value, _ = lp_solver.solve_zero_sum_matrix_game(
            pyspiel.create_matrix_game(game.tolist(), (-game).tolist())
        )
        mixture = nash(game)
        np.testing.assert_allclose(mixture.rows, np.ravel(rows), atol=1e-9)
        np.testing.assert_allclose(mixture.columns, np.ravel(columns), atol=1e-9)
        assert mixture.rows @ game @ mixture.columns == pytest.approx(float(value), abs=1e-9)


def test_alpha_rank_is_that_of_open_spiel() -> None:
    alpharank = pytest.importorskip("open_spiel.python.egt.alpharank", reason="open_spiel is not installed")
    for alpha in (0.05, 0.5):  # where its own eigenvectors are still exact
        for game in random_games(25):
            _, _, mass, *_ = alpharank.compute([game, -game], m=20, alpha=alpha)
            np.testing.assert_allclose(alpha_rank_pairs(game, alpha, 20).ravel(), mass, atol=1e-9)
            own = np.triu(game @ game.T, 1)
            own -= own.T
            assert is_symmetric(own)
            _, _, mass, *_ = alpharank.compute([own], m=20, alpha=alpha)
            np.testing.assert_allclose(alpha_rank_population(own, alpha, 20), mass, atol=1e-9)


def test_alpha_rank_finds_the_circle_and_the_winner() -> None:
    np.testing.assert_allclose(alpha_rank_population(ROCK_PAPER_SCISSORS), [1 / 3] * 3, atol=1e-12)
    beaten = np.pad(ROCK_PAPER_SCISSORS, ((0, 1), (0, 1)), constant_values=1.0)
    beaten[3] = -1.0
    beaten[3, 3] = 0.0
    np.testing.assert_allclose(alpha_rank_population(beaten), [1 / 3, 1 / 3, 1 / 3, 0.0], atol=1e-12)
    dominant = np.array([[0.0, 0.4], [-0.4, 0.0]])
    assert alpha_rank_population(dominant)[0] > 1.0 - 1e-12
    assert alpha_rank_pairs(np.array([[1.0, 0.5], [-0.5, -1.0]]))[0, 1] > 1.0 - 1e-9  # best row, and best reply


def test_a_mutant_takes_over_as_in_the_moran_process() -> None:
    """Absorption probability of the birth and death chain, by its linear equations."""
    m = 12
    for u in (-0.7, -0.1, 0.0, 0.2, 1.3):
        up = 1.0 / (1.0 + np.exp(-u))  # Fermi selection between a mutant and a resident
        system = np.eye(m + 1)
        for i in range(1, m):
            system[i, i - 1], system[i, i + 1] = -(1.0 - up), -up
        taken = np.linalg.solve(system, np.eye(m + 1)[m])
        assert fixation(np.array(u), 1.0, m) == pytest.approx(taken[1], rel=1e-9)


def test_a_stationary_distribution_stays_what_it_is() -> None:
    rng = np.random.default_rng(3)
    change = rng.uniform(size=(7, 7)) ** 40  # of very different sizes
    change /= 7.0
    np.fill_diagonal(change, 0.0)
    mass = stationary(change)
    np.testing.assert_allclose(mass @ change, mass * change.sum(1), rtol=1e-9)


@pytest.mark.slow
def test_replicators_grow_as_the_logistic_curve_and_average_to_an_equilibrium() -> None:
    row = np.array([[0.3], [-0.2]])  # the first strategy gains 0.5 more: x1 / x2 = exp(t / 2)
    for steps in (1, 10, 40):
        expected = np.mean([1.0 / (1.0 + np.exp(-0.5 * 0.05 * k)) for k in range(steps)])
        assert replicator(row, steps, 0.05, 0.0).rows[0] == pytest.approx(expected, abs=1e-12)
    game = weighted_cycle(0.2, 0.3, 0.7)
    np.testing.assert_allclose(replicator(game).rows, nash(game).rows, atol=0.01)
    for matrix in random_games(5):
        assert sum(exploitability(matrix, replicator(matrix))) < 0.02 < sum(exploitability(matrix, uniform(matrix)))


def test_prioritized_weights_are_alphastars() -> None:
    rates = np.array([0.0, 0.25, 0.5, 1.0])
    expected = {
        "squared": [1.0, 0.5625, 0.25, 0.0],
        "linear": [1.0, 0.75, 0.5, 0.0],
        "linear_capped": [0.5, 0.5, 0.5, 0.0],
        "variance": [0.0, 0.1875, 0.25, 0.0],
    }
    assert expected.keys() == WEIGHTINGS.keys()
    for name, weights in expected.items():
        np.testing.assert_allclose(prioritized(rates, name), np.array(weights) / sum(weights), atol=1e-15)
    np.testing.assert_allclose(prioritized([1.0, 1.0]), [0.5, 0.5])


def test_every_solver_gives_mixtures_of_square_and_other_games() -> None:
    for game in (ROCK_PAPER_SCISSORS, np.array([[0.2, -0.3, 0.9]]), np.array([[0.4]]), np.zeros((3, 2))):
        for name, solver in SOLVERS.items():
            mixture = solver(game)
            assert isinstance(mixture, Mixture)
            for part, size in ((mixture.rows, game.shape[0]), (mixture.columns, game.shape[1])):
                assert part.shape == (size,) and part.min() >= 0.0, name
                assert part.sum() == pytest.approx(1.0, abs=1e-12)
    assert SOLVERS["self-play"](ROCK_PAPER_SCISSORS).rows.tolist() == [0.0, 0.0, 1.0]
    assert SOLVERS["fictitious"](np.zeros((4, 2))).rows.tolist() == [0.25] * 4


def test_what_cannot_be_solved_is_refused() -> None:
    holes = ROCK_PAPER_SCISSORS.copy()
    holes[0, 2] = np.nan
    for solver in SOLVERS.values():
        with pytest.raises(RookeryError, match=r"has 1 hole, at \(0, 2\): let those pairs play"):
            solver(holes)
    with pytest.raises(RookeryError, match="a row and a column at least"):
        nash(np.zeros((0, 3)))
    with pytest.raises(RookeryError, match="is for one population that plays itself"):
        check_symmetric(np.ones((2, 3)), "a rating")
    with pytest.raises(RookeryError, match="unknown weighting 'squard': did you mean 'squared'"):
        prioritized([0.5], "squard")
    with pytest.raises(RookeryError, match="between 0 and 1"):
        prioritized([0.5, 1.5])
