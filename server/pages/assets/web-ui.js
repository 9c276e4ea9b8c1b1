// The page of runs: the list, what is shown of it, and the form for a new one. The address tells which: #new, or the ids
// of the run and of those that it's compared with.
import {get_json} from "./api.js";
import {fill_icons, h} from "./dom.js";
import {RunForm} from "./run_form.js";
import {RunLog, path_of} from "./run_log.js";
import {RunView, short_name} from "./run_view.js";
import {short} from "./curves.js";
import {api_key, set_api_key} from "./store.js";

const kInterval = 1000;  // ms between readings

const by_id = (id) => document.getElementById(id);
const narrow = matchMedia("(max-width: 800px)");

class WebUi {
  constructor() {
    this.runs = [];
    this.logs = new Map();
    this.folder = "";
    this.view = new RunView(by_id("run"), {settings_of: (run) => this.settings_of(run), changed: () => this.read(), folder: () => this.folder});
    this.form = new RunForm(by_id("form"), {started: (id) => this.go(id), refused: (error) => this.refused(error)});
  }

  start() {
    fill_icons();
    this.drawer(!narrow.matches);
    narrow.addEventListener("change", () => this.drawer(!narrow.matches));
    by_id("open-drawer").addEventListener("click", () => this.drawer(true));
    by_id("close-drawer").addEventListener("click", () => this.drawer(false));
    by_id("shade").addEventListener("click", () => this.drawer(false));
    by_id("new-run").addEventListener("click", () => this.go("new"));
    by_id("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      set_api_key(by_id("key").value.trim());
      this.read();
    });
    addEventListener("hashchange", () => this.show());
    addEventListener("keydown", (event) => event.key === "Escape" && narrow.matches && this.drawer(false));
    this.poll();
  }

  drawer(open) {
    by_id("drawer").hidden = !open;
    by_id("open-drawer").setAttribute("aria-expanded", String(open));
    by_id("shade").hidden = !(open && narrow.matches);
    if (open && narrow.matches) by_id("close-drawer").focus();
  }

  // ["new"], or the ids that the address names.
  wanted() {
    const ids = location.hash.slice(1).split(",").filter(Boolean).map(decodeURIComponent);
    if (ids.length === 0 && this.runs.length > 0) return [this.runs[0].id];
    return ids;
  }

  go(...ids) {
    if (narrow.matches) this.drawer(false);
    const hash = `#${ids.map(encodeURIComponent).join(",")}`;
    if (hash === location.hash) this.show();
    else location.hash = hash;
    this.read();
  }

  compare(id, on) {
    const [first, ...others] = this.wanted().filter((one) => one !== "new");
    const kept = others.filter((one) => one !== id);
    this.go(...(first ? [first, ...kept, ...(on && first !== id ? [id] : [])] : [id]));
  }

  async poll() {
    for (;;) {
      await this.read();
      await new Promise((resolve) => setTimeout(resolve, kInterval));
    }
  }

  async read() {
    try {
      const {runs, output_dir} = await get_json("/runs");
      this.runs = runs;
      this.folder = output_dir;
      await this.read_logs();
      this.state("Live", "");
      by_id("key-form").hidden = true;
    } catch (error) {
      this.refused(error);
      return;
    }
    this.show();
  }

  async read_logs() {
    for (const id of this.wanted()) {
      const run = this.runs.find((one) => one.id === id);
      if (!run) continue;
      if (!this.logs.has(id)) this.logs.set(id, new RunLog(id));
      await this.logs.get(id).read(run);
    }
  }

  refused(error) {
    const refused = error.status === 401;
    const refusal = api_key() ? "The server refuses this API key." : "This server asks for an API key.";
    this.state("Not connected", refused ? refusal : error.message);
    if (!refused || !by_id("key-form").hidden) return;
    by_id("key-form").hidden = false;
    by_id("key").focus();
  }

  state(state, problem) {
    by_id("state").textContent = state;
    by_id("state").className = problem ? "off" : "live";
    by_id("problem").textContent = problem;
    by_id("problem").hidden = !problem;
  }

  show() {
    const ids = this.wanted();
    const shown = ids.map((id) => ({run: this.runs.find((one) => one.id === id), log: this.logs.get(id) ?? new RunLog(id)})).filter(({run}) => run);
    const making = ids[0] === "new";
    by_id("folder").replaceChildren(h("bdi", {}, this.folder));
    by_id("folder").title = this.folder;
    this.draw_list(shown, making);
    by_id("run").hidden = making || shown.length === 0;
    by_id("form").hidden = !making;
    by_id("nothing").hidden = making || shown.length > 0;
    document.title = making ? "New run - tern" : shown.length > 0 ? `${short_name(shown[0].run.id)} - tern` : "Runs - tern";
    if (making) {
      if (!this.form_open) this.open_form(null);
      this.form_open = true;
      return;
    }
    this.form_open = false;
    if (shown.length > 0) this.view.show(shown[0].run, shown);
    else this.draw_nothing(ids);
  }

  draw_nothing(ids) {
    by_id("nothing").replaceChildren(h("h1", {}, ids.length > 0 ? "This run isn't here" : "No runs yet"),
      h("p.muted", {}, ids.length > 0 ? `${ids[0]} isn't in ${this.folder}.` : `Runs that tern sft writes below ${this.folder} appear here, with their curves, while they're going on.`),
      h("button.primary", {type: "button", onclick: () => this.go("new")}, "Start one"));
  }

  draw_list(shown, making) {
    const colours = new Map(shown.map(({run}, index) => [run.id, (index % 8) + 1]));
    const state = JSON.stringify([this.runs, [...colours], making]);
    if (state === this.list_shown) return;
    this.list_shown = state;
    const kept = document.activeElement?.closest?.("#runs") ? document.activeElement.getAttribute("data-key") : null;
    by_id("runs").replaceChildren(...this.runs.map((run) => this.entry(run, colours.get(run.id), run.id === shown[0]?.run.id && !making)));
    if (kept) [...by_id("runs").querySelectorAll("[data-key]")].find((one) => one.getAttribute("data-key") === kept)?.focus();
  }

  entry(run, colour, current) {
    const progress = run.total_steps ? `${run.step}/${run.total_steps}` : "";
    const loss = typeof run.loss === "number" ? `loss ${short(run.loss)}` : "";
    const box = h("input", {type: "checkbox", checked: colour !== undefined, disabled: current, "aria-label": `Compare ${run.id}`, title: "Draw it beside the run that's shown",
      "data-key": `compare ${run.id}`, onchange: (event) => this.compare(run.id, event.target.checked)});
    return h(`div.entry${current ? ".current" : ""}`, {},
      h("a", {href: `#${encodeURIComponent(run.id)}`, "aria-current": current ? "true" : null, "data-key": run.id, onclick: () => narrow.matches && this.drawer(false)},
        h("b", {title: run.id}, colour && h(`i.swatch.series-${colour}`), run.id.split("/").slice(0, -1).join("/") || run.id),
        run.id.includes("/") && h("span.line2", {}, short_name(run.id)),
        h("span.line2", {}, h(`span.badge.${run.state}`, {}, run.stopping ? "stopping" : run.state), [progress, loss].filter(Boolean).join("  \u00b7  "))),
      h("label", {}, box));
  }

  async open_form(values) {
    try {
      await this.form.open(values);
    } catch (error) {
      this.form_open = false;
      this.refused(error);
    }
  }

  async settings_of(run) {
    try {
      const values = await get_json(`/runs/arguments/${path_of(run.id)}`);
      this.form_open = true;
      this.go("new");
      await this.open_form(values);
    } catch (error) {
      this.refused(error);
    }
  }
}

const web_ui = new WebUi();
web_ui.start();
