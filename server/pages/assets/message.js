// One message on the page. An answer's view is kept while it comes, and update() shows what has been added.
import {copy_text, h, icon} from "./dom.js";
import {image_row} from "./images.js";
import {MarkdownView, code_block} from "./markdown.js";

function action(name, label, run) {
  return h("button.quiet.small", {type: "button", "aria-label": label, title: label, onclick: run}, icon(name));
}

function pretty(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;  // still coming, or broken: as the model wrote it
  }
}

const kSeconds = (ms) => (ms < 995 ? `${(ms / 1000).toFixed(2)} s` : `${(ms / 1000).toFixed(1)} s`);

// "128 tokens, 41.2 tokens/s, first token 0.18 s"
export function stats_line(message) {
  const parts = [];
  const {stats} = message;
  if (message.model) parts.push(message.model);
  if (stats?.completion_tokens) parts.push(`${stats.completion_tokens} tokens`);
  if (stats?.rate) parts.push(`${stats.rate.toFixed(1)} tokens/s`);
  if (stats?.first) parts.push(`first token ${kSeconds(stats.first)}`);
  if (stats?.cached_tokens) parts.push(`${stats.cached_tokens} of ${stats.prompt_tokens} prompt tokens cached`);
  if (message.stopped) parts.push("stopped");
  if (message.finish === "length") parts.push("cut off at the token limit");
  return parts.join("  \u00b7  ");
}

class UserView {
  constructor(message, hooks) {
    this.message = message;
    this.hooks = hooks;
    this.element = h("article.message.user", {"aria-label": message.role === "tool" ? "Result of a tool" : "You"});
    this.show();
  }

  show() {
    const {message, hooks} = this;
    const bubble = h("div.bubble", {});
    if (message.images?.length) bubble.append(h("div.images", {}, image_row(message.images)));
    if (message.role === "tool") bubble.append(h("div.muted.small", {}, `Result of ${message.name}`));
    if (message.text) bubble.append(h("div.plain", {}, message.text));
    const copy = action("copy", "Copy", () => copy_text(message.text, copy));
    this.element.replaceChildren(bubble, h("div.actions", {}, copy,
      message.role === "user" ? action("edit", "Edit and send again", () => !hooks.busy() && this.edit()) : null));
  }

  edit() {
    const area = h("textarea", {value: this.message.text, "aria-label": "Edit the message", rows: 3});
    const send = () => this.hooks.resend(this.message, area.value);
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        this.show();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      }
    });
    this.element.replaceChildren(h("div.editor", {}, area, h("div.editor-row", {},
      h("span.small.muted", {}, "What follows this message is replaced."),
      h("button.quiet", {type: "button", onclick: () => this.show()}, "Cancel"),
      h("button.primary", {type: "button", onclick: send}, "Send"))));
    area.style.height = `${Math.min(400, area.scrollHeight + 4)}px`;
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  }
}

class AnswerView {
  constructor(message, hooks) {
    this.message = message;
    this.hooks = hooks;
    this.thoughts = new MarkdownView();
    this.answer = new MarkdownView();
    this.summary = h("span", {}, "Thoughts");
    this.details = h("details.thoughts", {hidden: true}, h("summary", {}, icon("chevron"), this.summary), this.thoughts.element);
    this.calls = h("div.calls");
    this.problem = h("div.problem");
    this.stats = h("span.stats");
    const copy = action("copy", "Copy the answer", () => copy_text(message.text, copy));
    this.actions = h("div.actions", {}, copy, action("retry", "Answer again", () => hooks.regenerate(message)), this.stats);
    this.waiting = h("div.waiting", {"aria-label": "Waiting for the first token"}, h("i"), h("i"), h("i"));
    this.element = h("article.message.assistant", {"aria-label": "Answer"}, this.details, this.answer.element, this.calls,
      this.waiting, this.problem, this.actions);
    this.update(false);
  }

  update(coming) {
    const {message} = this;
    const empty = !message.text && !message.reasoning && !message.calls?.length;
    this.element.classList.toggle("coming", coming);
    this.element.setAttribute("aria-busy", String(coming));
    this.waiting.hidden = !(coming && empty);
    this.details.hidden = !message.reasoning;
    if (message.reasoning && this.thought_length !== message.reasoning.length) {
      this.thoughts.update(message.reasoning);
      this.thought_length = message.reasoning.length;
    }
    const thinking = coming && !message.text && !message.calls?.length;
    this.summary.textContent = thinking ? "Thinking" : "Thoughts";
    this.details.classList.toggle("thinking", thinking);
    this.answer.update(message.text);
    this.show_calls(coming);
    this.show_problem();
    this.actions.hidden = coming || (empty && Boolean(message.problem));
    this.stats.textContent = stats_line(message);
  }

  show_calls(coming) {
    const calls = this.message.calls ?? [];
    const shown = JSON.stringify([calls, coming]);
    if (shown === this.calls_shown) return;
    this.calls_shown = shown;
    this.calls.replaceChildren(...calls.map((call) => {
      const block = code_block(pretty(call.arguments), "json", `Call of ${call.name || "a tool"}`);
      if (!coming && this.hooks.awaits(this.message, call)) {
        const area = h("textarea.mono", {rows: 1, placeholder: "Result", "aria-label": `Result of ${call.name}`});
        const give = () => area.value.trim() && this.hooks.tool_result(this.message, call, area.value);
        block.append(h("div.result", {}, area, h("button", {type: "button", onclick: give}, "Give result")));
      }
      return block;
    }));
  }

  show_problem() {
    const {problem} = this.message;
    this.problem.hidden = !problem;
    if (!problem) return;
    const again = h("button", {type: "button", onclick: () => this.hooks.regenerate(this.message)}, "Try again");
    const refused = problem.status === 401 || problem.status === 403;
    const settings = h("button", {type: "button", onclick: this.hooks.open_settings}, "Open settings");
    this.problem.replaceChildren(h("span", {}, problem.text), ...(refused ? [settings, again] : [again]));
  }
}

// hooks: {busy(), resend(message, text), regenerate(message), awaits(message, call), tool_result(message, call, text),
// open_settings()}
export function message_view(message, hooks) {
  return message.role === "assistant" ? new AnswerView(message, hooks) : new UserView(message, hooks);
}
