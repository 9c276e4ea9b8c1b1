// One run, beside others that it's compared with: its figures, curves, checkpoints, samples, output and arguments.
import {get_json, post_json} from "./api.js";
import {Curves, short} from "./curves.js";
import {copy_text, h, icon} from "./dom.js";
import {path_of} from "./run_log.js";

const kColours = 8;
const kTabs = ["Checkpoints", "Samples", "Output", "Arguments"];
// Rows that aren't curves of their own: the axes, and what others say better.
const kNoCurve = new Set(["step", "time", "elapsed_time", "remaining_time", "epoch", "train_speed(s/it)", "eval_runtime", "eval_samples_per_second", "eval_loss"]);
const kFirst = ["loss", "grad_norm", "learning_rate", "tokens_per_second", "memory(GiB)"];
const kTitles = {"loss": "Loss", "grad_norm": "Gradient norm", "learning_rate": "Learning rate", "tokens_per_second": "Tokens per second",
  "memory(GiB)": "Memory, GiB", "token_acc": "Accuracy of tokens", "eval_token_acc": "Accuracy of held-out tokens"};

export function duration(seconds) {
  const whole = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${rest} s` : `${rest} s`;
}

// "v3-20261126-101500" of "model/v3-20261126-101500", or all of it where the last part is a run's that has no version.
export const short_name = (id) => id.split("/").at(-1);

const name_of = (value) => String(value ?? "").split("/").filter(Boolean).at(-1) ?? "";

export class RunView {
  // hooks: {settings_of(arguments), changed()}
  constructor(element, hooks) {
    this.element = element;
    this.hooks = hooks;
    this.charts = new Map();
    this.tab = "Checkpoints";
    this.over = "step";
    this.smooth = 0;
    this.build();
  }

  build() {
    this.head = h("div.head");
    this.why = h("div.why", {hidden: true});
    this.tiles = h("div.tiles", {"aria-label": "Now"});
    const range = h("input", {type: "range", min: "0", max: "0.99", step: "0.01", value: "0", "aria-label": "Smoothing"});
    range.addEventListener("input", () => {
      this.smooth = Number(range.value);
      this.draw_curves();
    });
    this.axis = h("div.choice", {role: "group", "aria-label": "Horizontal axis"});
    this.controls = h("div.controls", {}, this.axis, h("label", {}, "Smoothing", range));
    this.curves = h("div.charts", {"aria-label": "Curves"});
    this.tab_list = h("div.tabs", {role: "tablist"});
    this.box = h("div.box", {role: "tabpanel"});
    this.element.replaceChildren(this.head, this.why, this.tiles, this.controls, this.curves, this.tab_list, this.box);
    this.draw_axis();
  }

  draw_axis() {
    this.axis.replaceChildren(...[["step", "Steps"], ["time", "Time"]].map(([over, label]) =>
      h("button.quiet", {type: "button", "aria-pressed": String(over === this.over), onclick: () => {
        this.over = over;
        this.draw_axis();
        this.draw_curves();
      }}, label)));
  }

  // run: the list's entry; shown: [{run, log}], the run itself first
  show(run, shown) {
    const other = this.run?.id !== run.id;
    this.run = run;
    this.shown = shown;
    if (other) {
      this.printed = null;
      this.box.replaceChildren();
      this.drawn_tab = "";
    }
    this.draw_head();
    this.draw_tiles();
    this.draw_curves();
    // Of a run that failed before its first step there's nothing to draw.
    const empty = run.state !== "running" && shown.every(({log}) => log.rows.length === 0);
    for (const part of [this.tiles, this.controls, this.curves]) part.hidden = empty;
    this.draw_tabs();
  }

  draw_head() {
    const {run} = this;
    const state = JSON.stringify([run.id, run.state, run.stopping, run.started_here, run.model, run.dataset, run.tuner_type, run.begun]);
    this.why.hidden = !run.why;
    this.why.textContent = run.why;
    if (state === this.head_shown) return;
    this.head_shown = state;
    const stop = run.state === "running" && run.started_here && h("button", {type: "button", id: "stop-run", onclick: () => this.stop()},
      icon("stop"), run.stopping ? "End at once" : "Stop");
    const again = h("button", {type: "button", id: "use-settings", onclick: () => this.hooks.settings_of(run)}, icon("retry"), "Use its settings");
    const facts = [name_of(run.model), run.tuner_type, [run.dataset].flat().map(name_of).join(" "), run.begun && `since ${new Date(run.begun).toLocaleString()}`];
    this.head.replaceChildren(h("div.grow", {}, h("h1", {}, run.id), h("div.small.muted", {}, facts.filter(Boolean).join("  \u00b7  "))),
      h(`span.badge.${run.state}`, {role: "status"}, run.stopping ? "stopping" : run.state), stop || "", again);
  }

  async stop() {
    const {run} = this;
    if (run.stopping && !confirm("End the run without saving a checkpoint?")) return;
    try {
      await post_json("/runs/stop", {run: run.id, ...(run.stopping && {at_once: true})});
    } catch (error) {
      this.why.hidden = false;
      this.why.textContent = error.message;
    }
    this.hooks.changed();
  }

  draw_tiles() {
    const {run} = this;
    const tile = (name, value) => h("div.tile", {}, h("div.muted.small", {}, name), h("div.number", {}, value ?? "\u2013"));
    const figure = (value, format = short) => (typeof value === "number" ? format(value) : null);
    const running = run.state === "running";
    this.tiles.replaceChildren(tile("Step", run.total_steps ? `${run.step} / ${run.total_steps}` : null), tile("Loss", figure(run.loss)),
      tile("Held-out loss", figure(run.eval_loss)), tile("Tokens/s", figure(run.tokens_per_second)), tile("Time", figure(run.elapsed_time, duration)),
      tile("Remaining", running ? figure(run.remaining_time, duration) : null));
  }

  draw_curves() {
    if (!this.shown) return;
    const keys = new Set(this.shown.flatMap(({log}) => [...log.keys()]).filter((key) => !kNoCurve.has(key)));
    const wanted = [...kFirst, ...[...keys].filter((key) => !kFirst.includes(key))];
    for (const key of wanted) if (!this.charts.has(key)) this.charts.set(key, new Curves(kTitles[key] ?? key));
    const elements = wanted.map((key) => this.charts.get(key).element);
    if (elements.length !== this.curves.children.length || elements.some((one, at) => one !== this.curves.children[at])) this.curves.replaceChildren(...elements);
    const axis = this.over === "step" ? {format: (value) => `step ${Math.round(value)}`} : {format: duration};
    for (const key of wanted) this.charts.get(key).update(this.series(key), axis, this.smooth);
  }

  series(key) {
    const alone = this.shown.length === 1;
    const folder = (id) => id.split("/").slice(0, -1).join("/");
    const one_folder = this.shown.every(({run}) => folder(run.id) === folder(this.run.id));
    return this.shown.flatMap(({run, log}, index) => {
      const name = one_folder ? short_name(run.id) : run.id;
      const colour = (index % kColours) + 1;
      const one = (of, label, dashed) => ({name: alone ? label : dashed ? `${name}, held out` : name, title: run.id,
        colour: alone && dashed ? 2 : colour, dashed, points: log.points(of, this.over)});
      const lines = [one(key, kTitles[key] ? "" : key, false)];
      if (key === "loss") lines[0].name = alone ? "training" : lines[0].name;
      if (key === "loss" && log.points("eval_loss", this.over).length > 0) lines.push(one("eval_loss", "held out", true));
      return lines;
    });
  }

  draw_tabs() {
    const tabs = kTabs.filter((tab) => tab !== "Output" || this.run.started_here);
    if (!tabs.includes(this.tab)) [this.tab] = tabs;
    const shown = JSON.stringify([tabs, this.tab, this.run.id]);
    if (shown !== this.tabs_shown) {
      this.tabs_shown = shown;
      this.tab_list.replaceChildren(...tabs.map((tab) => h("button.quiet", {type: "button", role: "tab", "aria-selected": String(tab === this.tab), onclick: () => {
        this.tab = tab;
        this.drawn_tab = "";
        this.draw_tabs();
      }}, tab)));
    }
    this.draw_box();
  }

  // What doesn't change is drawn once; a run's output grows.
  async draw_box() {
    const {run, tab} = this;
    const drawn = JSON.stringify([tab, run.id, tab === "Checkpoints" ? [run.checkpoints, run.best, run.command] : tab === "Samples" ? run.checkpoints : ""]);
    try {
      if (tab === "Output") await this.draw_output();
      else if (drawn !== this.drawn_tab) {
        this.drawn_tab = drawn;
        const parts = tab === "Checkpoints" ? this.checkpoints() : tab === "Samples" ? await this.samples() : await this.arguments();
        if (this.drawn_tab === drawn) this.box.replaceChildren(...parts);
      }
    } catch (error) {
      this.drawn_tab = "";
      this.box.replaceChildren(h("p.muted", {}, error.message));
    }
  }

  checkpoints() {
    const {run} = this;
    const command = (text) => {
      const copy = h("button.quiet.small", {type: "button", "aria-label": "Copy", title: "Copy", onclick: () => copy_text(text, copy)}, icon("copy"));
      return h("div.command", {}, h("pre", {}, text), copy);
    };
    const quoted = (text) => (/^[\w./+=:,@%-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
    const path = (name) => quoted(`${this.hooks.folder()}/${run.id}/${name}`);
    const flag = run.tuner_type === "full" ? "--model" : "--adapters";
    const last = run.best ?? run.checkpoints.at(-1);
    return [
      run.checkpoints.length > 0 ? h("p", {}, run.checkpoints.map((name) => (name === run.best ? `${name} (best)` : name)).join(", "))
        : h("p.muted", {}, "No checkpoint is saved yet."),
      ...(last ? [h("h2", {}, "Chat with it"), command(`tern app ${flag} ${path(last)}`)] : []),
      ...(run.command ? [h("h2", {}, "Its command"), command(run.command)] : []),
    ];
  }

  async samples() {
    const {files} = await get_json(`/runs/samples/${path_of(this.run.id)}`);
    if (files.length === 0) return [h("p.muted", {}, "The run has no rows of text beside its log: held-out rows that were split off, or answers that were written into its folder.")];
    return files.map(({name, rows, more}) => h("div.sample-file", {}, h("h3", {}, name), ...rows.map(sample), more && h("p.small.muted", {}, "There are more.")));
  }

  async draw_output() {
    const {run} = this;
    if (this.printed === null || this.drawn_tab !== "Output") {
      this.printed = {offset: 0, element: h("pre.output", {tabIndex: 0, "aria-label": "What the run printed"})};
      this.drawn_tab = "Output";
      this.box.replaceChildren(this.printed.element);
    }
    const {printed} = this;
    const part = await get_json(`/runs/output/${path_of(run.id)}?offset=${printed.offset}`);
    if (part.offset === printed.offset || this.printed !== printed) return;
    const at_end = printed.element.scrollHeight - printed.element.scrollTop - printed.element.clientHeight < 40;
    printed.offset = part.offset;
    printed.element.append(part.text);
    if (at_end) printed.element.scrollTop = printed.element.scrollHeight;
  }

  async arguments() {
    const given = await get_json(`/runs/arguments/${path_of(this.run.id)}`);
    const rows = Object.entries(given).filter(([, value]) => value !== null && !(Array.isArray(value) && value.length === 0));
    if (rows.length === 0) return [h("p.muted", {}, "The run hasn't written its arguments yet.")];
    return [h("dl.pairs", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, Array.isArray(value) ? value.join(" ") : typeof value === "object" ? JSON.stringify(value) : String(value))]))];
  }
}

// A row as its fields; a dialogue as its turns.
function sample(row) {
  const pairs = Array.isArray(row.messages) ? row.messages.map((message) => [message?.role ?? "message", message?.content ?? ""]) : [];
  for (const [key, value] of Object.entries(row)) if (key !== "messages" && value !== null) pairs.push([key, value]);
  return h("div.row", {}, h("dl.pairs", {}, pairs.map(([name, value]) => [h("dt", {}, name), h("dd", {}, typeof value === "string" ? value : JSON.stringify(value))])));
}
