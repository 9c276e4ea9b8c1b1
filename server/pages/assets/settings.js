// The settings panel: one row of kFields is a field, its place in the request and what it accepts.
import {h} from "./dom.js";
import {api_key, load_settings, save_settings, set_api_key} from "./store.js";

const kFields = [
  {name: "system", label: "System prompt", kind: "text", rows: 4},
  {name: "temperature", label: "Temperature", min: 0, max: 5, step: 0.05},
  {name: "top_p", label: "Top p", min: 0, max: 1, step: 0.01},
  {name: "top_k", label: "Top k", min: -1, step: 1},
  {name: "min_p", label: "Min p", min: 0, max: 1, step: 0.01},
  {name: "max_tokens", label: "Most tokens", min: 1, step: 1},
  {name: "seed", label: "Seed", min: 0, step: 1},
  {name: "presence_penalty", label: "Presence penalty", min: -2, max: 2, step: 0.1},
  {name: "frequency_penalty", label: "Frequency penalty", min: -2, max: 2, step: 0.1},
  {name: "repetition_penalty", label: "Repetition penalty", min: 0.01, max: 10, step: 0.01},
  {name: "thinking", label: "Thinking", kind: "choice", choices: [["", "As the model does"], ["on", "On"], ["off", "Off"]]},
  {name: "tools", label: "Tools (JSON array)", kind: "text", rows: 3, code: true},
];

// The problem of a field's text, or "".
function problem(field, text) {
  if (text === "" || field.name === "system" || field.kind === "choice") return "";
  if (field.name === "tools") {
    try {
      return Array.isArray(JSON.parse(text)) ? "" : "Expected a JSON array of tools.";
    } catch (error) {
      return `Not JSON: ${error.message}`;
    }
  }
  const value = Number(text);
  if (!Number.isFinite(value)) return "Expected a number.";
  if (field.step === 1 && !Number.isInteger(value)) return "Expected a whole number.";
  if (field.min !== undefined && value < field.min) return `At least ${field.min}.`;
  if (field.max !== undefined && value > field.max) return `At most ${field.max}.`;
  return "";
}

function control(field, value) {
  const id = `set-${field.name}`;
  if (field.kind === "text") return h(field.code ? "textarea.mono" : "textarea", {id, rows: field.rows, value});
  if (field.kind === "choice") {
    return h("select", {id}, field.choices.map(([key, label]) => h("option", {value: key, selected: key === value}, label)));
  }
  return h("input", {id, type: "text", inputMode: "decimal", value, placeholder: "default", autocomplete: "off"});
}

export class Settings {
  // on_key(): the API key was changed.
  constructor(form, on_key) {
    this.values = load_settings();
    form.addEventListener("submit", (event) => event.preventDefault());
    const key = h("input", {id: "set-key", type: "password", value: api_key(), autocomplete: "off"});
    key.addEventListener("change", () => {
      set_api_key(key.value.trim());
      on_key();
    });
    const short = kFields.filter((field) => !field.kind);
    form.append(this.row(kFields[0]), h("div.grid", {}, short.map((field) => this.row(field))),
      ...kFields.slice(1).filter((field) => field.kind).map((field) => this.row(field)),
      h("div.field", {}, h("label", {for: key.id}, "API key"), key));
  }

  row(field) {
    const input = control(field, this.values[field.name] ?? "");
    const error = h("div.field-error", {id: `${input.id}-error`});
    const check = () => {
      const text = field.name === "system" ? input.value : input.value.trim();
      const wrong = problem(field, text);
      error.textContent = wrong;
      input.setAttribute("aria-invalid", wrong ? "true" : "false");
      // A value that can't be is not kept: the request says what the panel shows as right.
      if (text === "" || wrong) delete this.values[field.name];
      else this.values[field.name] = text;
      save_settings(this.values);
    };
    input.setAttribute("aria-describedby", error.id);
    input.addEventListener("input", check);
    return h("div.field", {}, h("label", {for: input.id}, field.label), input, error);
  }

  get system() {
    return this.values.system ?? "";
  }

  // What the settings add to a request: nothing for a field that is empty.
  request() {
    const request = {};
    for (const field of kFields.filter((one) => !one.kind)) {
      const text = this.values[field.name];
      if (text !== undefined && problem(field, text) === "") request[field.name] = Number(text);
    }
    if (this.values.tools) request.tools = JSON.parse(this.values.tools);
    if (this.values.thinking) request.chat_template_kwargs = {enable_thinking: this.values.thinking === "on"};
    return request;
  }
}
