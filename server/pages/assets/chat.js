// The chat page: its state, and what buttons and keys do.
import {answer_into, request_messages} from "./answering.js";
import {list_models} from "./api.js";
import {fill_icons, h} from "./dom.js";
import {Attachments} from "./images.js";
import {message_view} from "./message.js";
import {Settings} from "./settings.js";
import {Sidebar} from "./sidebar.js";
import {all_dialogues, new_dialogue, save_dialogue, save_settings} from "./store.js";

const by_id = (id) => document.getElementById(id);
const narrow = matchMedia("(max-width: 800px)");

class Chat {
  constructor() {
    this.dialogue = new_dialogue();
    this.views = new Map();
    this.running = null;  // {controller, message, dialogue} while an answer comes
    this.stay = true;     // the end is kept in view
    this.settings = new Settings(by_id("settings-form"), () => this.load_models());
    this.attachments = new Attachments(by_id("attached"), (problem) => this.notice(problem));
    this.sidebar = new Sidebar(by_id("dialogues"), {
      current: () => this.dialogue.id,
      open: (dialogue) => this.open(dialogue),
      deleted: (id) => this.deleted(id),
      renamed: (id, title) => this.renamed(id, title),
    });
    this.hooks = {
      busy: () => this.running !== null,
      resend: (message, text) => this.resend(message, text),
      regenerate: (message) => this.regenerate(message),
      awaits: (message, call) => this.awaits(message, call),
      tool_result: (message, call, text) => this.tool_result(message, call, text),
      open_settings: () => this.panel("settings", true),
    };
  }

  start() {
    fill_icons();
    this.panel("drawer", !narrow.matches);
    document.body.classList.add("ready");
    narrow.addEventListener("change", () => this.panel("drawer", !narrow.matches));
    this.listen();
    this.listen_to_keys();
    this.listen_to_images();
    this.loaded = this.load_models();
    const wanted = decodeURIComponent(location.hash.slice(1));
    this.open(all_dialogues().find((one) => one.id === wanted) ?? this.dialogue);
    by_id("text").focus();
  }

  listen() {
    by_id("new-chat").addEventListener("click", () => this.open(new_dialogue()));
    by_id("open-drawer").addEventListener("click", () => this.panel("drawer", true));
    by_id("close-drawer").addEventListener("click", () => this.panel("drawer", false));
    by_id("open-settings").addEventListener("click", () => this.panel("settings", by_id("settings").hidden));
    by_id("close-settings").addEventListener("click", () => this.panel("settings", false));
    by_id("shade").addEventListener("click", () => this.close_panels());
    by_id("export").addEventListener("click", () => this.export());
    by_id("stop").addEventListener("click", () => this.stop());
    by_id("to-end").addEventListener("click", () => this.to_end());
    by_id("model").addEventListener("change", (event) => this.keep_model(event.target.value));
    by_id("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    const text = by_id("text");
    text.addEventListener("input", () => this.grow());
    const scroll = by_id("scroll");
    scroll.addEventListener("scroll", () => {
      this.stay = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
      by_id("to-end").hidden = this.stay;
    });
    addEventListener("hashchange", () => {
      const id = decodeURIComponent(location.hash.slice(1));
      const found = id !== this.dialogue.id && all_dialogues().find((one) => one.id === id);
      if (found) this.open(found);
    });
    addEventListener("pagehide", () => this.running && this.save(this.running.dialogue));
  }

  listen_to_keys() {
    by_id("text").addEventListener("keydown", (event) => {
      // While an input method composes, Enter takes its proposal.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        if (this.running) this.stop();
        else this.close_panels();
      } else if (event.ctrlKey && event.shiftKey && event.key.toLowerCase() === "o") {
        event.preventDefault();
        this.open(new_dialogue());
      }
    });
  }

  listen_to_images() {
    const images = (list) => [...(list ?? [])].filter((file) => file.type.startsWith("image/"));
    by_id("attach").addEventListener("click", () => by_id("files").click());
    by_id("files").addEventListener("change", (event) => {
      this.attachments.add([...event.target.files]);
      event.target.value = "";
    });
    addEventListener("paste", (event) => {
      const files = images(event.clipboardData?.files);
      if (files.length === 0) return;
      event.preventDefault();
      this.attachments.add(files);
    });
    const hint = by_id("drop-hint");
    addEventListener("dragover", (event) => {
      if (![...event.dataTransfer.types].includes("Files")) return;
      event.preventDefault();
      hint.hidden = false;
    });
    addEventListener("dragleave", (event) => {
      if (event.relatedTarget === null) hint.hidden = true;
    });
    addEventListener("drop", (event) => {
      hint.hidden = true;
      if (event.dataTransfer.files.length === 0) return;
      event.preventDefault();
      this.attachments.add([...event.dataTransfer.files]);
    });
  }

  async load_models() {
    const select = by_id("model");
    try {
      const models = await list_models();
      const kept = this.settings.values.model;
      select.replaceChildren(...models.map(({id, parent}) =>
        h("option", {value: id, selected: id === kept}, parent && parent !== id ? `${id} (adapter)` : id)));
      this.notice("");
    } catch (error) {
      select.replaceChildren(h("option", {value: ""}, "No model"));
      this.notice(error.message);
    }
  }

  keep_model(id) {
    this.settings.values.model = id;
    save_settings(this.settings.values);
  }

  notice(text) {
    by_id("notice").textContent = text;
  }

  panel(name, open) {
    const element = by_id(name);
    element.hidden = !open;
    by_id(`open-${name}`)?.setAttribute("aria-expanded", String(open));
    if (open && narrow.matches) {
      by_id(name === "drawer" ? "settings" : "drawer").hidden = true;
      element.querySelector("button")?.focus();
    }
    by_id("shade").hidden = !(narrow.matches && (!by_id("drawer").hidden || !by_id("settings").hidden));
  }

  close_panels() {
    this.panel("settings", false);
    if (narrow.matches) this.panel("drawer", false);
  }

  grow() {
    const text = by_id("text");
    text.style.height = "auto";
    text.style.height = `${Math.min(text.scrollHeight, innerHeight * 0.4)}px`;
  }

  to_end() {
    const scroll = by_id("scroll");
    scroll.scrollTop = scroll.scrollHeight;
    this.stay = true;
    by_id("to-end").hidden = true;
  }

  open(dialogue) {
    // An answer that still comes goes on into its own dialogue.
    this.dialogue = this.running?.dialogue.id === dialogue.id ? this.running.dialogue : dialogue;
    history.replaceState(null, "", this.dialogue.messages.length > 0 ? `#${this.dialogue.id}` : location.pathname);
    if (narrow.matches) this.close_panels();
    this.draw();
    this.sidebar.draw();
    this.to_end();
    by_id("text").focus();
  }

  deleted(id) {
    if (this.running?.dialogue.id === id) {
      this.running.dialogue.deleted = true;
      this.stop();
    }
    if (this.dialogue.id === id) this.open(new_dialogue());
  }

  renamed(id, title) {
    for (const dialogue of [this.dialogue, this.running?.dialogue]) {
      if (dialogue?.id === id) Object.assign(dialogue, {title, renamed: true});
    }
    this.show_title();
  }

  show_title() {
    document.title = this.dialogue.title ? `${this.dialogue.title} - tern` : "tern";
  }

  draw() {
    const {messages} = this.dialogue;
    this.views = new Map(messages.map((message) => [message, message_view(message, this.hooks)]));
    by_id("messages").replaceChildren(...[...this.views.values()].map((view) => view.element));
    const here = this.running?.dialogue === this.dialogue;
    if (here) this.views.get(this.running.message)?.update(true);
    document.body.classList.toggle("empty", messages.length === 0);
    this.show_title();
    this.show_running();
  }

  show_running() {
    by_id("send").hidden = this.running !== null;
    by_id("stop").hidden = this.running === null;
  }

  save(dialogue) {
    if (dialogue.deleted) return;
    dialogue.changed = Date.now();
    const first = dialogue.messages.find((message) => message.role === "user");
    if (!dialogue.renamed && first) dialogue.title = (first.text || "Image").replace(/\s+/g, " ").trim().slice(0, 80);
    if (!save_dialogue(dialogue)) this.notice("This browser's storage is full: the chat isn't kept. Delete older chats, or export this one.");
  }

  send() {
    const area = by_id("text");
    const text = area.value.trim();
    if (this.running || (!text && this.attachments.urls.length === 0)) return;
    area.value = "";
    this.grow();
    this.dialogue.messages.push({role: "user", text, images: this.attachments.take()});
    this.answer();
  }

  resend(message, text) {
    if (this.running || (!text.trim() && !message.images?.length)) return;
    const {messages} = this.dialogue;
    messages.splice(messages.indexOf(message), messages.length, {role: "user", text: text.trim(), images: message.images ?? []});
    this.answer();
  }

  regenerate(message) {
    if (this.running) return;
    const {messages} = this.dialogue;
    messages.splice(messages.indexOf(message));
    this.answer();
  }

  // Whether this call's result is still to be given: it's of the last answer.
  awaits(message, call) {
    const {messages} = this.dialogue;
    const later = messages.slice(messages.indexOf(message) + 1);
    return later.every((one) => one.role === "tool") && later.every((one) => one.call !== call.id);
  }

  tool_result(message, call, text) {
    if (this.running) return;
    this.dialogue.messages.push({role: "tool", call: call.id, name: call.name, text});
    if (message.calls.every((one) => !this.awaits(message, one))) this.answer();
    else this.draw();
  }

  async answer() {
    const {dialogue} = this;
    const messages = request_messages(this.settings.system, dialogue.messages);
    const message = {role: "assistant", text: ""};
    dialogue.messages.push(message);
    const controller = new AbortController();
    this.running = {controller, message, dialogue};
    this.notice("");
    this.save(dialogue);
    this.open(dialogue);
    by_id("status").textContent = "Answering";
    this.views.get(message).update(true);
    await this.loaded;
    message.model = by_id("model").value;
    const request = {...(message.model && {model: message.model}), messages, ...this.settings.request()};
    let frame = 0;
    await answer_into(message, request, controller.signal, () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        if (this.running?.message !== message || this.dialogue !== dialogue) return;
        this.views.get(message)?.update(true);
        if (this.stay) this.to_end();
      });
    });
    this.running = null;
    this.save(dialogue);
    by_id("status").textContent = message.problem ? message.problem.text : "Answer complete";
    if (this.dialogue === dialogue) {
      this.views.get(message)?.update(false);
      if (this.stay) this.to_end();
    }
    this.show_running();
    this.sidebar.draw();
  }

  stop() {
    this.running?.controller.abort();
  }

  export() {
    const blob = new Blob([JSON.stringify(this.exported(), null, 2)], {type: "application/json"});
    const name = (this.dialogue.title || "chat").replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60);
    const link = h("a", {href: URL.createObjectURL(blob), download: `${name}.json`});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  // The dialogue in the form of a dataset's row, with the page's own record beside it.
  exported() {
    const {title, changed, messages} = this.dialogue;
    return {title, changed: new Date(changed).toISOString(), messages: request_messages(this.settings.system, messages), record: messages};
  }
}

const chat = new Chat();
chat.start();
