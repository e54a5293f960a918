"""The viewer's page in headless Chromium: it draws, reacts to buttons, keys, sliders and the mouse, and survives reloads and
company; the page of a recorded episode plays from its file alone."""

from __future__ import annotations

import io
import shutil
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import rookery
from rookery.sim.viewing.replay import Timeline, record
from rookery.sim.viewing.server import close_server, open_server
from rookery.sim.viewing.viewer import Viewer

needs_chromium = pytest.mark.skipif(
    not (shutil.which("chromium") and shutil.which("chromedriver")),
    reason="Debian's chromium and chromium-driver are not installed",
)

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-quic",
    "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--window-size=560,420",
)  # fmt: skip


@pytest.fixture
def open_browser(tmp_path):
    """Makes browsers, each with an empty profile."""
    made = []

    def make() -> webdriver.Chrome:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in (*FLAGS, f"--user-data-dir={tmp_path / str(len(made))}"):
            options.add_argument(flag)
        made.append(webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver"))))
        made[-1].set_page_load_timeout(90)
        return made[-1]

    yield make
    for browser in made:
        browser.quit()


@pytest.fixture(scope="module")
def watched():
    """A viewer that runs in a thread, and its page's address, with a token as beyond loopback."""
    server, access = open_server("0.0.0.0", 0)
    env = rookery.make("drone-hover", 2)
    pilot = env.controller()
    env.reset(0)
    viewer = Viewer(server, env, {"classical": lambda: pilot}, seed=0)
    viewer.rate = 5.0  # Chromium draws without a GPU here
    viewer.panel._toggle()  # time stands still
    thread = threading.Thread(target=viewer.run)
    thread.start()
    yield viewer, f"http://127.0.0.1:{access.port}/", access.token
    viewer.stop()
    thread.join()
    close_server(server)
    env.close()


def happens(condition: Callable[[], object], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def wait(condition: Callable[[], object], seconds: float = 180.0) -> None:
    assert happens(condition, seconds), "the page did not react"


def scene(browser) -> np.ndarray:
    """[h, w, 3] bytes, the left half of the page, where the scene is, at every fourth pixel."""
    picture = np.asarray(Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB"))
    return picture[::4, : picture.shape[1] // 2 : 4]


def shades(browser) -> int:
    """How many colors the scene has."""
    return len(np.unique(scene(browser).reshape(-1, 3), axis=0))


def press(browser, label: str) -> None:
    """Press the button of that label."""
    wait(lambda: browser.find_elements(By.XPATH, f"//button[.//*[text()='{label}'] or text()='{label}']"))
    browser.find_element(By.XPATH, f"//button[.//*[text()='{label}'] or text()='{label}']").click()


def drag_the_drone(browser, viewer) -> None:
    """Take the drone that the camera follows with Ctrl and the mouse, move it up, and let go.

    Again where the page missed it: without a GPU it draws a second after the window has got its size, and a press before that
    goes by the old picture.
    """
    size = browser.get_window_size()
    browser.set_window_size(1000, 420)  # beside the panels
    taken = False
    for _ in range(8):
        pull_up(browser, viewer)
        taken = happens(lambda: viewer._hand is not None and viewer._hand.mouse[2] > viewer._hand.held[2] + 0.005, 20.0)
        actions = ActionChains(browser)
        actions.release().key_up(Keys.CONTROL).perform()
        if taken:
            break
    assert taken, "the page did not react"
    wait(lambda: viewer._hand is None)
    browser.set_window_size(size["width"], size["height"])


def pull_up(browser, viewer) -> None:
    """Press on the drone with Ctrl, and move the mouse up."""
    (client,) = viewer.server.get_clients().values()
    eye, target, up = (np.asarray(x, float) for x in (client.camera.position, client.camera.look_at, (0.0, 0.0, 1.0)))
    ahead = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(ahead, up) / np.linalg.norm(np.cross(ahead, up))
    drone = viewer._now.pos[viewer._drawing.geoms(0)][viewer._model(0).geom_bodyid == viewer._focus].mean(0)
    drone = drone + viewer._drawing.offsets[0] + viewer._drawing.shift
    width, height = browser.execute_script("return [window.innerWidth, window.innerHeight]")
    depth = float((drone - eye) @ ahead) * np.tan(0.5 * client.camera.fov)
    x, y = (0.5 * height * float((drone - eye) @ axis) / depth for axis in (right, np.cross(right, ahead)))
    actions = ActionChains(browser, duration=50).key_down(Keys.CONTROL)
    actions.w3c_actions.pointer_action.move_to_location(round(0.5 * width + x), round(0.5 * height - y))
    actions.click_and_hold().move_by_offset(0, -15).move_by_offset(0, -15).perform()


@needs_chromium
@pytest.mark.slow
def test_page(open_browser, watched):
    viewer, address, token = watched
    first = open_browser()
    first.get(address)
    assert "token" in first.find_element(By.TAG_NAME, "body").text
    assert not viewer.server.get_clients()
    first.get(f"{address}?token={token}")
    wait(lambda: viewer.server.get_clients())
    wait(lambda: shades(first) > 100)
    press(first, "Step")
    wait(lambda: viewer.steps == 1)
    first.find_element(By.TAG_NAME, "body").send_keys(Keys.SPACE)
    wait(lambda: viewer.steps > 5)
    first.find_element(By.TAG_NAME, "body").send_keys(Keys.SPACE)
    wait(lambda: viewer.paused)
    first.find_elements(By.CSS_SELECTOR, "[role=slider]")[0].send_keys(Keys.ARROW_RIGHT)
    wait(lambda: viewer.speed > 1.0)
    drag_the_drone(first, viewer)

    first.get(address)  # the cookie opens it from now on
    wait(lambda: viewer.server.get_clients())
    wait(lambda: shades(first) > 100)
    second = open_browser()
    second.get(f"{address}?token={token}")
    wait(lambda: len(viewer.server.get_clients()) == 2)
    steps = viewer.steps
    press(second, "Step")
    wait(lambda: viewer.steps == steps + 1)
    first.quit()
    wait(lambda: len(viewer.server.get_clients()) == 1)
    press(second, "Go on")
    wait(lambda: viewer.steps > steps + 1)


@needs_chromium
@pytest.mark.slow
def test_recorded_episode_plays_from_its_file_alone(open_browser, tmp_path):
    server, _ = open_server(port=0)
    env = rookery.make("drone-hover", 1)
    episode = record(env, env.controller(), 0, 0, steps=60)
    file = tmp_path / "episode.html"
    file.write_text(Timeline(server, env, 0, {"one": lambda: episode}, "test").page())
    close_server(server)
    env.close()
    browser = open_browser()
    browser.get(file.as_uri())
    wait(lambda: shades(browser) > 100)
    now = scene(browser)
    wait(lambda: (scene(browser) != now).any())
