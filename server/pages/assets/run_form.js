// The form that starts a run: its fields come from the server, which judges them as the command line does.
import {get_json, post_json} from "./api.js";
import {h} from "./dom.js";

const kWide = new Set(["model", "dataset", "val_dataset"]);
const kPause = 400;  // ms after the last key before the values are judged

// 'a "b c" d' to its words, as a shell has them.
export function words_of(text) {
  return [...text.matchAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'|(\S+)/g)].map(([, double, single, plain]) => double?.replace(/\\(.)/g, "$1") ?? single ?? plain);
}

const in_words = (words) => words.map((word) => (/^[^\s"']+$/.test(word) ? word : `"${word.replace(/(["\\])/g, "\\$1")}"`)).join(" ");

export class RunForm {
  // hooks: {started(id), refused(error)}
  constructor(element, hooks) {
    this.element = element;
    this.hooks = hooks;
    this.fields = new Map();  // by name: {field, input, error}
  }

  async open(values = null) {
    if (this.fields.size === 0) {
      const {groups} = await get_json("/runs/form");
      if (this.fields.size === 0) this.build(groups);
    }
    if (values) this.fill(values);
    this.check();
  }

  build(groups) {
    const [essential, ...others] = groups;
    const find = h("input.find", {type: "search", placeholder: "Find a flag", "aria-label": "Find a flag"});
    this.details = others.map((group) => h("details", {}, h("summary", {}, group.title), this.grid(group)));
    find.addEventListener("input", () => this.find(find.value.trim().toLowerCase()));
    this.command = h("pre", {"aria-label": "The command"});
    this.problem = h("div.field-error", {role: "alert"});
    this.start_button = h("button.primary", {type: "submit", id: "start-run"}, "Start the run");
    const form = h("form", {autocomplete: "off", noValidate: true}, h("div.head", {}, h("h1", {}, "A new run of tern sft")), this.grid(essential),
      find, ...this.details, h("div.actions", {}, h("div.command", {}, this.command), this.problem, h("div.row-of-buttons", {}, this.start_button,
        h("button.quiet", {type: "button", onclick: () => this.fill({})}, "Clear"))));
    form.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.check(), kPause);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.start();
    });
    this.element.replaceChildren(form);
  }

  grid(group) {
    return h("div.fields", {}, group.fields.map((field) => this.row(field)));
  }

  row(field) {
    const id = `flag-${field.name}`;
    const fallback = field.default || field.computed;
    const input = field.type === "boolean" || field.type === "choice"
      ? h("select", {id}, h("option", {value: ""}, fallback ? `default: ${fallback}` : "default"), (field.type === "boolean" ? ["true", "false"] : field.choices).map((one) => h("option", {value: one}, one)))
      : h("input", {id, type: "text", placeholder: fallback, spellcheck: false, ...((field.type === "integer" || field.type === "real") && {inputMode: "decimal"})});
    const several = field.type === "list" ? " Several are separated by spaces." : "";
    const help = h("div.help", {id: `${id}-help`}, `${field.help}${field.help.endsWith(".") ? "" : "."}${several}`);
    input.setAttribute("aria-describedby", help.id);
    const error = h("div.field-error");
    this.fields.set(field.name, {field, input, error});
    const element = h(`div.field${kWide.has(field.name) ? ".wide" : ""}`, {}, h("label", {for: id}, `--${field.name}`), input, error, help);
    element.dataset.words = `${field.name} ${field.help}`.toLowerCase();
    return element;
  }

  find(text) {
    for (const details of this.details) {
      let some = false;
      for (const row of details.querySelectorAll(".field")) {
        row.hidden = text !== "" && !row.dataset.words.includes(text);
        some ||= !row.hidden;
      }
      details.hidden = !some;
      details.open = text !== "" && some;
    }
  }

  // values: what args.json holds; what is its flag's default stays empty
  fill(values) {
    for (const {field, input} of this.fields.values()) {
      const value = values[field.name];
      const text = value === null || value === undefined ? "" : Array.isArray(value) ? in_words(value) : typeof value === "object" ? JSON.stringify(value) : String(value);
      input.value = text === field.default || (Number(text) === Number(field.default) && text !== "" && field.default !== "") ? "" : text;
    }
    this.check();
  }

  flags() {
    const flags = {};
    for (const {field, input} of this.fields.values()) {
      const text = input.value.trim();
      if (text !== "") flags[field.name] = field.type === "list" ? words_of(text) : text;
    }
    return flags;
  }

  show_error(message) {
    const named = message && this.fields.get(/--(\w+)/.exec(message)?.[1]);
    for (const one of this.fields.values()) {
      const here = one === named && one.input.value.trim() !== "";
      one.input.setAttribute("aria-invalid", String(here));
      one.error.textContent = here ? message : "";
    }
    this.problem.textContent = message;
  }

  async check() {
    const number = (this.checked = (this.checked ?? 0) + 1);
    try {
      const {command, problem} = await post_json("/runs/check", {flags: this.flags()});
      if (number !== this.checked) return;
      this.command.textContent = command ?? "";
      this.command.hidden = !command;
      this.show_error(problem ?? "");
    } catch (error) {
      if (number === this.checked) this.hooks.refused(error);
    }
  }

  async start() {
    clearTimeout(this.timer);
    this.checked = (this.checked ?? 0) + 1;
    this.start_button.disabled = true;
    try {
      const {id} = await post_json("/runs/start", {flags: this.flags()});
      this.show_error("");
      this.hooks.started(id);
    } catch (error) {
      this.show_error(error.message);
      if (error.status !== 400) this.hooks.refused(error);
    } finally {
      this.start_button.disabled = false;
    }
  }
}
