"""A few golden vectors as a C header, by which a program checks the network where it runs, at its start."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from rookery.policies.stages.c_text import literal
from rookery.sim2real.export.golden import act_golden, golden_observations

if TYPE_CHECKING:
    from rookery.policies.policy import Policy

MOST_NUMBERS = 2048
"""Of all observations, so that a microcontroller has room for them."""
MOST_ROWS = 8


def golden_header(policy: Policy, prefix: str, header: str) -> str:
    """The text: tables of observations, one after the other from an episode's start, and of the actions for them, and
    ``<prefix>_golden_error``, the largest difference of the C from them."""
    import torch

    plain = copy.deepcopy(policy).to("cpu", torch.float32).eval()
    count = max(1, min(MOST_ROWS, MOST_NUMBERS // plain.observation_size))
    rows = golden_observations(plain)[:: max(1, 1000 // count)][:count]
    with torch.no_grad():
        actions = act_golden(plain, rows)
    outputs = actions.shape[1]
    memory = plain.state_size > 0
    events = len(plain.events)
    none = f"    static const unsigned char events[{events}] = {{0u}}; /* none happens */\n" if events else ""
    given = "events, " * (events > 0) + "&memory, " * memory + "logits, " * (plain.options > 0)
    logits = f"        float logits[{plain.options}];\n" if plain.options else ""
    tables = "\n\n".join(
        f"static const float {prefix}_golden_{name}[{len(values)}][{values.shape[1]}] = {{\n"
        + ",\n".join("    {" + ", ".join(literal(float(v)) for v in row) + "}" for row in values)
        + "\n};"
        for name, values in (("observation", rows), ("action", actions))
    )
    return f"""/* Golden vectors: what the network answered where it was trained. Written by Rookery. */
#ifndef {prefix.upper()}_GOLDEN_H
#define {prefix.upper()}_GOLDEN_H

#include "{header}"

#define {prefix.upper()}_GOLDEN_MOST 1e-4f /* largest difference that is a matter of rounding */

{tables}

/* The largest difference of this machine's answers; not a number where one of them is none. */
static inline float {prefix}_golden_error(void)
{{
    float worst = 0.0f;
    int row;
    int i;
{none}{f"    {prefix}_memory memory;" + chr(10) * 2 + f"    {prefix}_reset(&memory);" if memory else ""}
    for (row = 0; row < {len(rows)}; row++) {{
        float action[{outputs}];
{logits}
        {prefix}_policy({prefix}_golden_observation[row], {given}action);
        for (i = 0; i < {outputs}; i++) {{
            const float off = action[i] - {prefix}_golden_action[row][i];
            const float size = (off < 0.0f) ? -off : off;

            worst = (worst != worst || size <= worst) ? worst : size;
        }}
    }}
    return worst;
}}

#endif /* {prefix.upper()}_GOLDEN_H */
"""
