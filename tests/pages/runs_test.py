"""The page of `tern web-ui` in headless Chromium, over runs that are made up; run by pages_test.py."""

import json
import time

from chromium import PageError

LIVE = "document.getElementById('state').innerText === 'Live'"
FIRST = "qwen3-4b/v1-20261126-101500"
LINES = "document.querySelectorAll('#run .line:not(.faint)').length"


def expect(condition, what):
    if not condition:
        raise PageError(what)


def equal(found, expected, what):
    expect(found == expected, f"{what}: expected {expected!r}, found {found!r}")


def address(*names):
    return "/web-ui#" + ",".join(name.replace("/", "%2F") for name in names)


def tile(run, name):
    return run.browser.run(f"[...document.querySelectorAll('.tile')].find((e) => e.children[0].innerText === {json.dumps(name)}).children[1].innerText")


def test_runs_live(run):
    """Broken if curves stood still while a run writes, or drew a row twice."""
    run.open(address(FIRST), height=1150)
    run.browser.wait(f"{LIVE} && {LINES} >= 6", what="six curves")
    equal(run.browser.run("[...document.querySelectorAll('.entry .badge')].map((e) => e.innerText)"), ["running", "ended", "stopped", "failed"], "states")
    path = "document.querySelector('#run .line:not(.dashed)').getAttribute('d').split(/[ML]/).length - 1"
    before, step = run.browser.run(path), int(tile(run, "Step").split()[0])
    run.browser.wait(f"({path}) > {before} + 10", what="the curve to grow")
    expect(int(tile(run, "Step").split()[0]) > step, "the step stands still")
    expect(run.browser.run(path) < 1.5 * int(tile(run, "Step").split()[0]), "more points than steps")
    run.browser.wait("document.querySelector('#run .line.dashed')", what="the held-out loss")
    run.server.runs.generation += 1  # as a run does that goes on from a checkpoint
    time.sleep(2.2)
    expect(run.browser.run(path) < 1.5 * int(tile(run, "Step").split()[0]), "rows are drawn twice after the log began again")
    run.shot("runs")
    run.browser.click("[data-theme-toggle]")
    run.browser.run("{const e = document.querySelector('.controls input'); e.value = 0.8; e.dispatchEvent(new Event('input'));}")
    equal(run.browser.run("document.querySelectorAll('#run .card:first-child .line.faint').length"), 1, "the line below the smoothed one")
    run.browser.run("[...document.querySelectorAll('.controls button')].at(-1).click()")
    expect("min" in run.browser.run("document.querySelector('#run .card svg').textContent"), "time on the axis")
    run.shot("runs_dark")


def test_runs_compared(run):
    run.open(address(FIRST), height=1150)
    run.browser.wait(f"{LIVE} && {LINES} >= 6")
    run.browser.run("document.querySelectorAll('.entry input')[1].click()")
    run.browser.wait("document.querySelectorAll('#run .card:first-child .legend b').length === 4", what="two runs, each with its held-out loss")
    run.browser.run("document.querySelectorAll('.entry input')[2].click()")
    run.browser.wait("document.querySelector('#run .line.series-3')", what="a third colour")
    equal(run.browser.run("decodeURIComponent(location.hash).split(',').length"), 3, "runs in the address")
    run.browser.reload()
    run.browser.wait("document.querySelector('#run .line.series-3')", what="the comparison after a reload")
    equal(run.browser.run("document.querySelector('h1').innerText"), FIRST, "the run that's shown")
    box = run.browser.run("(() => {const r = document.querySelector('#run .plot').getBoundingClientRect(); return [r.x + r.width / 2, r.y + 60];})()")
    run.browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
    expect("step" in run.browser.run("document.querySelector('#run .legend').innerText"), "the step under the pointer")
    run.shot("runs_compared")
    run.browser.run("document.querySelectorAll('.entry input')[1].click()")
    run.browser.wait("!document.querySelector('#run .line.series-3')", what="one to be taken out")


def test_run_parts(run):
    run.open(address(FIRST), height=1000)
    run.browser.wait(f"{LIVE} && {LINES} >= 6")
    tab = "[...document.querySelectorAll('[role=tab]')].find((e) => e.innerText === '{0}').click()"
    run.browser.wait("document.querySelector('.box').innerText.includes('tern app --adapters')", what="the command to chat", timeout=30)
    run.browser.run(tab.format("Samples"))
    run.browser.wait("document.querySelector('.row')", what="samples")
    expect("onerror=alert(1)" in run.browser.run("document.querySelector('.row').innerText"), "text as it is")
    equal(run.browser.run("document.querySelectorAll('.box img, .box script').length"), 0, "elements made of text")
    run.browser.run(tab.format("Output"))
    run.browser.wait("document.querySelector('.output')?.innerText.includes('step 20/400')", what="the output")
    length = run.browser.run("document.querySelector('.output').innerText.length")
    run.browser.wait(f"document.querySelector('.output').innerText.length > {length}", what="the output to grow")
    text = run.browser.run("document.querySelector('.output').innerText").split("\n")
    equal(len([line for line in text if line.startswith("step 7/400 ")]), 1, "a line that was printed once")
    run.browser.run(tab.format("Arguments"))
    run.browser.wait("document.querySelector('.box dl')?.innerText.includes('a b.jsonl')", what="the arguments")
    expect("resume" not in run.browser.run("document.querySelector('.box dl').innerText"), "arguments without a value")
    run.browser.run("document.querySelectorAll('.entry a')[3].click()")
    run.browser.wait("document.querySelector('.why').innerText.includes('rows.jsonl:3')", what="why a run failed")
    equal(run.browser.run("document.querySelector('.charts').hidden"), True, "no empty plots of a run without a step")
    run.shot("run_failed")


def test_run_stop(run):
    run.open(address(FIRST))
    run.browser.wait("document.getElementById('stop-run')")
    run.browser.run("window.confirm = (text) => {window.asked = text; return true;}")
    run.browser.click("#stop-run")
    run.browser.wait("document.querySelector('#run .badge').innerText === 'stopping'", what="the run to be asked")
    equal(run.server.runs.stops, [{"run": FIRST}], "what was sent")
    run.browser.click("#stop-run")
    run.browser.wait("document.querySelector('#run .badge').innerText === 'stopped'", what="the run to end at once")
    expect("without saving" in run.browser.run("window.asked"), "a question before work is lost")
    equal(run.server.runs.stops[1], {"run": FIRST, "at_once": True}, "what was sent then")


def test_run_form(run):
    run.open("/web-ui#new", height=900)
    run.browser.wait("document.getElementById('flag-model')", what="the form")
    run.browser.wait("document.querySelector('#form .field-error[role=alert]').innerText.includes('needs --model')", what="what is missing")
    fill = "{{const e = document.getElementById('flag-{0}'); e.value = {1}; e.dispatchEvent(new Event('input', {{bubbles: true}}));}}"
    for name, value in {"model": "smollm2", "dataset": "a.jsonl \"with a blank.jsonl\" c", "learning_rate": "fast", "tuner_type": "full"}.items():
        run.browser.run(fill.format(name, json.dumps(value)))
    run.browser.wait("document.getElementById('flag-learning_rate').getAttribute('aria-invalid') === 'true'", what="the field that's wrong")
    run.shot("run_form_error")
    run.browser.run("document.getElementById('start-run').click()")
    run.browser.wait("!document.getElementById('start-run').disabled")
    equal(run.server.runs.started, [], "runs of a form that's wrong")
    run.browser.run(fill.format("learning_rate", '"1e-3"'))
    run.browser.wait("document.querySelector('.command pre').innerText.includes('1e-3')", what="the command")
    run.browser.run("{const e = document.querySelector('.find'); e.value = 'checkpoints'; e.dispatchEvent(new Event('input'));}")
    equal(run.browser.run("[...document.querySelectorAll('#form details .field:not([hidden]) label')].map((e) => e.innerText)"), ["--save_steps"], "the flag that was looked for")
    run.shot("run_form")
    run.browser.run("document.getElementById('start-run').click()")
    run.browser.wait("document.querySelector('#run h1')?.innerText === 'smollm2/v9'", what="the new run")
    equal(run.server.runs.started, [{"model": "smollm2", "dataset": ["a.jsonl", "with a blank.jsonl", "c"], "tuner_type": "full", "learning_rate": "1e-3"}], "the flags")
    run.browser.problems = [problem for problem in run.browser.problems if "400" not in problem]


def test_run_settings_again(run):
    run.open(address(FIRST))
    run.browser.wait("document.getElementById('use-settings')")
    run.browser.click("#use-settings")
    run.browser.wait("document.getElementById('flag-model')?.value === 'smollm2'", what="the form with the run's settings")
    values = run.browser.run("Object.fromEntries([...document.querySelectorAll('#form [id^=flag-]')].filter((e) => e.value !== undefined && !e.id.endsWith('help')).map((e) => [e.id.slice(5), e.value]))")
    equal(values, {"model": "smollm2", "dataset": '"a b.jsonl" c.jsonl', "tuner_type": "full", "learning_rate": "0.0003", "max_steps": "", "save_steps": "",
                   "logging_first_step": "false"}, "fields: what is a default stays empty")


def test_runs_phone_and_key(run):
    run.server.key = "secret"
    run.open("/web-ui", width=390, height=844, phone=True, dark=True)
    run.browser.wait("!document.getElementById('key-form').hidden", what="the key to be asked for")
    run.browser.type("secret")
    run.browser.enter()
    run.browser.wait(f"document.getElementById('key-form').hidden && {LINES} >= 6", what="the runs")
    equal(run.browser.run("document.documentElement.scrollWidth <= 390 && document.querySelector('main').scrollWidth <= 390"), True, "the width")
    equal(run.browser.run("document.getElementById('drawer').hidden"), True, "the list is out of the way")
    run.shot("runs_phone")
    run.browser.click("#open-drawer")
    run.browser.wait("!document.getElementById('drawer').hidden")
    run.shot("runs_phone_drawer")
    run.browser.escape()
    run.browser.wait("document.getElementById('drawer').hidden", what="Esc to close the list")
    run.browser.run("location.hash = '#new'")
    run.browser.wait("document.getElementById('flag-model')")
    equal(run.browser.run("document.querySelector('main').scrollWidth <= 390"), True, "the form's width")
    run.shot("run_form_phone")
    run.browser.problems = [problem for problem in run.browser.problems if "401" not in problem]


def test_no_runs(run):
    run.server.runs.runs = {}
    run.open("/web-ui")
    run.browser.wait(f"{LIVE} && !document.getElementById('nothing').hidden")
    expect("No runs yet" in run.browser.run("document.getElementById('nothing').innerText"), "words for no runs")
    run.shot("runs_none")
    run.browser.run("location.hash = '#gone%2Fv1'")
    run.browser.wait("document.getElementById('nothing').innerText.includes(\"gone/v1 isn't in\")", what="a run that's gone")
    run.browser.run("document.querySelector('#nothing button').click()")
    run.browser.wait("document.getElementById('flag-model')", what="the form")


def test_names_in_runs(run):
    """Every control has a name, and the keyboard reaches it."""
    for path in (address(FIRST), "/web-ui#new"):
        run.open(path)
        run.browser.wait(f"{LIVE} && (document.querySelector('#run .line') || document.getElementById('flag-model'))")
        nameless = run.browser.run("""[...document.querySelectorAll('button, input, select, textarea, a')].filter((e) => e.offsetParent !== null &&
            !(e.innerText?.trim() || e.getAttribute('aria-label') || e.labels?.length || e.title)).map((e) => e.outerHTML)""")
        equal(nameless, [], "controls without a name")
        equal(run.browser.run("[...document.querySelectorAll('[tabindex]')].filter((e) => e.tabIndex > 0).length"), 0, "an order of its own")


def test_curve_figures(run):
    run.open("/web-ui")
    found = run.browser.run("""(async () => {
      const {ticks, short, smoothed, thinned} = await import('/pages/curves.js');
      const {words_of} = await import('/pages/run_form.js');
      return [ticks(0, 1), ticks(1.2, 1.4), ticks(5, 5), ticks(0, 3e-5).map(short), [0, 1.23456, 0.0001, 12345, 2.5e6, -0.5].map(short),
        smoothed([[1, 4], [2, 4], [3, 4]], 0.9).map(([, y]) => Number(y.toFixed(6))), smoothed([[1, 0], [2, 1]], 0.5).map(([, y]) => Number(y.toFixed(6))),
        thinned(Array.from({length: 10}, (_, i) => [i, i]), 5), words_of(`a "b c" 'd e' "f\\\\"g"`)];
    })()""")
    equal([round(v, 6) for v in found[0]], [0, 0.25, 0.5, 0.75, 1], "ticks of 0 to 1")
    equal([round(v, 6) for v in found[1]], [1.2, 1.25, 1.3, 1.35, 1.4], "ticks of 1.2 to 1.4")
    expect(found[2][0] < 5 < found[2][-1], f"ticks about one value: {found[2]}")
    equal(found[3], ["0", "1e-5", "2e-5", "3e-5"], "ticks of small numbers")
    equal(found[4], ["0", "1.235", "1e-4", "12.3k", "2.5M", "-0.5"], "numbers in short")
    equal(found[5], [4, 4, 4], "a constant is its own mean")
    equal(found[6], [0, 0.666667], "a mean without a bias to zero")
    equal(found[7], [[1, 0.5], [3, 2.5], [5, 4.5], [7, 6.5], [9, 8.5]], "neighbours' means")
    equal(found[8], ["a", "b c", "d e", 'f"g'], "words as a shell has them")
