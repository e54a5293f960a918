"""Colors and light of all pages of the viewer, which a page can have before torch and the environment are loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from viser import ViserServer

SKY = (225, 236, 250)
GROUND = (150, 140, 130)
AMBIENT = 1.3
"""Colors from above and below, and intensity, of the light that has no direction."""


def set_page(server: ViserServer, title: str, shadows: bool) -> None:
    """Colors and light.

    Light without direction is that of a hemisphere, not viser's photograph of a place: a page without a GPU needs a second
    and a half of its processor to prepare one, and shows nothing meanwhile.

    Args:
        server: of the page.
        title: over the panels.
        shadows: whether bodies cast any.
    """
    server.gui.configure_theme(control_width="medium", show_logo=False, show_share_button=False)
    server.gui.set_panel_label(f"rookery: {title}")
    sky = np.linspace((150, 186, 224), (232, 240, 246), 64)[:, None].repeat(2, 1)
    server.scene.set_background_image(sky.astype(np.uint8))
    server.scene.configure_environment_map(None)
    server.scene.add_light_hemisphere(
        "/sky", sky_color=SKY, ground_color=GROUND, intensity=AMBIENT, position=(0.0, 0.0, 100.0)
    )
    cast_shadows(server, shadows)


def cast_shadows(server: ViserServer, on: bool) -> None:
    """Let the light that has a direction cast shadows, or not."""
    server.scene.configure_default_lights(True, cast_shadow=on)
