"""The report as one HTML page that needs nothing else: a verdict, tables, and a plot of every factor as inline SVG."""

from __future__ import annotations

import html
from collections.abc import Sequence

from rookery.sim2real.gate.plots import factor_plot
from rookery.sim2real.gate.report import Figure, Margin, Report

STYLE = """
:root { color-scheme: light; --pass: #1a7f4b; --fail: #b3261e; --none: #8a5a00; --ink: #1b1f24; --soft: #5b6470;
  --line: #d9dee4; }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: #fff; margin: 0 auto; max-width: 1080px;
  padding: 24px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 32px 0 8px; }
p { margin: 4px 0; } .soft { color: var(--soft); }
.badge { display: inline-block; padding: 2px 10px; border-radius: 4px; color: #fff; font-weight: 600; }
.badge.pass { background: var(--pass); } .badge.fail { background: var(--fail); }
.badge.incomplete { background: var(--none); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--soft); }
td.pass { color: var(--pass); } td.fail { color: var(--fail); font-weight: 600; } td.none { color: var(--none); }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(320px, 1fr)); gap: 16px; }
figure { margin: 0; border: 1px solid var(--line); border-radius: 6px; padding: 8px; }
figcaption { font-weight: 600; } svg { width: 100%; height: auto; display: block; }
.wide { overflow-x: auto; }
"""
MEANING = """Each point is the success rate at one value, the other factors nominal, with its 95&nbsp;% interval; all points
have the same starts and noise. The green band is the range that the profile requires, the dashed line the least success."""


def page(report: Report) -> str:
    """The text of the page."""
    verdict = report.verdict
    title = f"Transfer gate: {report.task}"
    failures = f"<p>Does not pass: {_e(', '.join(report.failures))}.</p>" if report.failures else ""
    if report.skipped:
        failures += f"<p>Not run, and so not known: {_e(', '.join(report.skipped))}.</p>"
    if report.left_out:
        failures += f"<p>Left out on request: {_e(', '.join(report.left_out))}.</p>"
    parts = [
        f'<h1>{_e(title)} <span class="badge {verdict}">{verdict}</span></h1>',
        f'<p class="soft">{_e(report.run)}, engine {_e(report.engine)}, profile <b>{_e(report.profile)}</b>: '
        f"{_e(report.summary)}</p>",
        f"<p>Score <b>{report.score:.3f}</b>; {report.episodes} episodes at each point; {report.episodes_run:,} episodes of "
        f"factors in {report.seconds:.0f} s; seed {report.seed}.</p>",
        *(f"<p>{_e(line[0].upper() + line[1:])}.</p>" for line in report.not_as_registered),
        failures,
        "<h2>Cases</h2>",
        _cases(report),
        *(["<h2>Beside success</h2>", _beside(report.figures)] if report.figures else []),
        "<h2>Margins</h2>",
        _margins(report.margins),
        _left_out(report),
        "<h2>Combinations</h2>",
        _combinations(report),
        "<h2>Success against each factor</h2>",
        f'<p class="soft">{MEANING}</p>',
        f'<div class="plots">{"".join(_figures(report))}</div>',
        "<h2>Sources of the ranges</h2>",
        _sources(report.margins),
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{_e(title)}</title><style>{STYLE}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def number(value: float, unit: str) -> str:
    """A value with its unit, for people: delays in ms, factors with a multiplication sign."""
    if unit == "s":
        return f"{1000.0 * value:.3g} ms"
    return f"{value:.3g}" if unit == "1" else f"{value:.3g} {unit}"


def reached(m: Margin) -> str:
    """A margin for people: at least as far as the search went where nothing fails."""
    if m.beyond == m.nominal:
        return "none: nominal fails"
    if m.beyond is None:
        return f"{'>=' if m.direction == 'up' else '<='} {number(m.value, m.unit)}"
    return number(m.value, m.unit)


def _e(text: str) -> str:
    return html.escape(text)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells that are HTML already; a cell that is a verdict is colored."""
    kinds = {"pass": "pass", "fail": "fail", "no effect": "none", "skipped": "none", "not applicable": "none"}
    top = "".join(f"<th>{h}</th>" for h in head)
    body = "".join(
        "<tr>" + "".join(f'<td class="{kinds[c]}">{c}</td>' if c in kinds else f"<td>{c}</td>" for c in row) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _rate(success: float | None, low: float | None, high: float | None) -> str:
    return "" if success is None or low is None or high is None else f"{success:.3f} ({low:.2f} to {high:.2f})"


def _cases(report: Report) -> str:
    head = ("case", "success (95 % interval)", "required", "verdict", "note")
    rows = [
        (
            _e(c.name),
            _rate(c.success, c.low, c.high),
            "" if c.required is None else f"{c.required:g}",
            c.verdict,
            _e(c.note),
        )
        for c in report.cases
    ]
    return _table(head, rows)


def asked(figure: Figure) -> str:
    """Demand of a profile on a figure, for people."""
    sides = [("at least", figure.least), ("at most", figure.most)]
    return " and ".join(f"{side} {value:g}" for side, value in sides if value is not None)


def mean_of(figure: Figure) -> str:
    """The value of a figure and how many episodes it leaves out, for people."""
    if figure.value is None:
        return "no episode has it"
    return f"{figure.value:.3g}" + (f" (without {figure.missing} episodes that have none)" if figure.missing else "")


def _beside(figures: Sequence[Figure]) -> str:
    rows = [
        (_e(f.name), mean_of(f), asked(f), "pass" if f.passes else "fail", _e(f.meaning), _e(f.source)) for f in figures
    ]
    return _table(("figure", "mean", "required", "verdict", "meaning", "source"), rows)


def _margins(margins: Sequence[Margin]) -> str:
    head = ("factor", "", "nominal", "required", "margin", "fails at", "success there (95 % interval)", "verdict")
    rows = [
        (
            _e(m.factor), m.direction, number(m.nominal, m.unit), "" if m.required is None else number(m.required, m.unit),
            _e(reached(m)), "" if m.beyond is None else number(m.beyond, m.unit), _rate(m.success, m.low, m.high), m.verdict,
        )
        for m in margins
    ]  # fmt: skip
    return _table(head, rows)


def _left_out(report: Report) -> str:
    out = ""
    if report.lacking:
        out += f"<p>{len(report.lacking)} skipped, which the task lacks: {_e(', '.join(report.lacking))}.</p>"
    if report.without_effect:
        out += f"<p>{len(report.without_effect)} without any effect: {_e(', '.join(report.without_effect))}.</p>"
    return out


def _combinations(report: Report) -> str:
    c = report.combinations
    if c is None:
        return "<p>None were drawn.</p>"
    units = {m.factor: m.unit for m in report.margins}
    rows = [
        (f"mean of {c.drawn} drawn", _rate(c.success, c.low, c.high), f"{report.required_combinations:g}",
         "pass" if c.success >= report.required_combinations else "fail"),
        ("worst found", _rate(c.worst_success, c.worst_low, c.worst_high), f"{report.required_worst:g}",
         "pass" if c.worst_success >= report.required_worst else "fail"),
        *((f"mean of {w.drawn} drawn from ranges {w.width:g} times as wide", _rate(w.success, w.low, w.high), "", "")
          for w in report.wider),
    ]  # fmt: skip
    worst = ", ".join(f"{name} {number(value, units.get(name, '1'))}" for name, value in c.worst.items())
    return (
        _table(("combinations", "success (95 % interval)", "required", "verdict"), rows) + f"<p>Worst: {_e(worst)}.</p>"
    )


def _figures(report: Report) -> list[str]:
    nominal = report.cases[0]
    names = dict.fromkeys(m.factor for m in report.margins)
    out = []
    for name in names:
        sides = [m for m in report.margins if m.factor == name]
        verdicts = {m.verdict for m in sides}
        verdict = next((v for v in ("fail", "no effect", "pass") if v in verdicts), "")
        mark = f' <span class="soft">{verdict}</span>' if verdict else ""
        plot = factor_plot(sides, nominal, report.required)
        out.append(f"<figure><figcaption>{_e(name)}{mark}</figcaption>{plot}</figure>")
    return out


def _sources(margins: Sequence[Margin]) -> str:
    sources = {m.factor: m.source for m in margins if m.source}
    return _table(("factor", "source"), [(_e(name), _e(source)) for name, source in sources.items()])
