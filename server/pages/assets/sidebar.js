// The list of earlier chats: open, rename, delete.
import {h, icon} from "./dom.js";
import {all_dialogues, delete_dialogue, save_dialogue} from "./store.js";

function day_of(time) {
  const days = Math.floor((new Date().setHours(24, 0, 0, 0) - time) / 86400000);
  return days < 1 ? "Today" : days < 2 ? "Yesterday" : days < 7 ? "This week" : "Earlier";
}

export class Sidebar {
  // hooks: {current(), open(dialogue), deleted(id), renamed(id, title)}
  constructor(element, hooks) {
    this.element = element;
    this.hooks = hooks;
  }

  draw() {
    const current = this.hooks.current();
    const rows = [];
    let day = "";
    for (const dialogue of all_dialogues()) {
      if (day_of(dialogue.changed) !== day) {
        day = day_of(dialogue.changed);
        rows.push(h("h3", {}, day));
      }
      rows.push(this.row(dialogue, dialogue.id === current));
    }
    this.element.replaceChildren(...(rows.length > 0 ? rows : [h("p.muted.small", {}, "Chats that you begin are listed here.")]));
  }

  row(dialogue, current) {
    const title = dialogue.title || "New chat";
    const row = h(current ? "div.dialogue.current" : "div.dialogue", {"data-id": dialogue.id});
    const small = (name, label, run) => h("button.quiet.small", {type: "button", "aria-label": `${label} "${title}"`, title: label, onclick: run}, icon(name));
    row.append(
      h("button.title", {type: "button", title, "aria-current": current ? "true" : null, onclick: () => this.hooks.open(dialogue)}, title),
      small("edit", "Rename", () => this.rename(dialogue, row)),
      small("trash", "Delete", () => this.confirm(dialogue, row)));
    return row;
  }

  rename(dialogue, row) {
    const input = h("input", {type: "text", value: dialogue.title, "aria-label": "New name", maxLength: 120});
    let done = false;
    const end = (keep) => {
      if (done) return;
      done = true;
      if (keep && input.value.trim()) {
        dialogue.title = input.value.trim();
        dialogue.renamed = true;
        save_dialogue(dialogue);
        this.hooks.renamed(dialogue.id, dialogue.title);
      }
      this.draw();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") end(true);
      if (event.key === "Escape") {
        event.stopPropagation();
        end(false);
      }
    });
    input.addEventListener("blur", () => end(true));
    row.replaceChildren(input);
    input.select();
    input.focus();
  }

  confirm(dialogue, row) {
    const yes = h("button.danger", {type: "button", onclick: () => {
      delete_dialogue(dialogue.id);
      this.hooks.deleted(dialogue.id);
      this.draw();
    }}, "Delete");
    row.replaceChildren(h("span.question", {}, "Delete this chat?"), yes, h("button", {type: "button", onclick: () => this.draw()}, "Keep"));
    yes.focus();
  }
}
