// What the browser keeps: dialogues and settings in localStorage, the API key in sessionStorage (gone with the tab).

const kPrefix = "tern.dialogue.";

// Storage may be switched off: then everything lives as long as the page.
class Memory {
  constructor() {
    this.map = new Map();
  }
  get length() {
    return this.map.size;
  }
  key(at) {
    return [...this.map.keys()][at];
  }
  getItem(key) {
    return this.map.get(key) ?? null;
  }
  setItem(key, value) {
    this.map.set(key, value);
  }
  removeItem(key) {
    this.map.delete(key);
  }
}

function storage(name) {
  try {
    globalThis[name].setItem("tern.probe", "1");
    globalThis[name].removeItem("tern.probe");
    return globalThis[name];
  } catch {
    return new Memory();
  }
}

const local = storage("localStorage");
const session = storage("sessionStorage");

function read(key) {
  try {
    return JSON.parse(local.getItem(key));
  } catch {
    return null;
  }
}

// A dialogue: {id, title, renamed, changed, messages}. A message: {role, text, images, reasoning, calls, stats, error,
// stopped, model}.
export function new_dialogue() {
  const random = crypto.getRandomValues(new Uint32Array(2));
  return {id: `${random[0].toString(36)}${random[1].toString(36)}`, title: "", changed: Date.now(), messages: []};
}

// All of them, the one changed last first.
export function all_dialogues() {
  const found = [];
  for (let at = 0; at < local.length; ++at) {
    const key = local.key(at);
    const dialogue = key?.startsWith(kPrefix) ? read(key) : null;
    if (dialogue && Array.isArray(dialogue.messages)) found.push(dialogue);
  }
  return found.sort((a, b) => b.changed - a.changed);
}

// False where there's no room even without the images of older dialogues.
export function save_dialogue(dialogue) {
  const text = JSON.stringify(dialogue);
  for (let attempt = 0; attempt < 3; ++attempt) {
    try {
      local.setItem(kPrefix + dialogue.id, text);
      return true;
    } catch {
      if (attempt === 0) drop_images(dialogue.id);
      if (attempt === 1) drop_oldest(dialogue.id);
    }
  }
  return false;
}

function drop_images(kept) {
  for (const dialogue of all_dialogues().filter((one) => one.id !== kept)) {
    for (const message of dialogue.messages) delete message.images;
    local.setItem(kPrefix + dialogue.id, JSON.stringify(dialogue));
  }
}

function drop_oldest(kept) {
  const others = all_dialogues().filter((one) => one.id !== kept);
  for (const dialogue of others.slice(Math.floor(others.length / 2))) delete_dialogue(dialogue.id);
}

export function delete_dialogue(id) {
  local.removeItem(kPrefix + id);
}

export function load_settings() {
  return read("tern.settings") ?? {};
}

export function save_settings(settings) {
  try {
    local.setItem("tern.settings", JSON.stringify(settings));
  } catch {
    // They hold for this page alone.
  }
}

export function api_key() {
  return session.getItem("tern.api_key") ?? "";
}

export function set_api_key(key) {
  if (key) session.setItem("tern.api_key", key);
  else session.removeItem("tern.api_key");
}
