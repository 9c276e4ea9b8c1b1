// Images that the user attaches, as data: URLs of a kind and size that the server takes.
import {h, icon} from "./dom.js";

const kLargestSide = 2048;
const kLargestKept = 1 << 20;  // bytes of a file that is sent as it is
const kAsTheyAre = new Set(["image/jpeg", "image/png", "image/webp"]);

function read_as_url(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

async function to_url(file) {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, kLargestSide / Math.max(bitmap.width, bitmap.height));
  if (scale === 1 && file.size <= kLargestKept && kAsTheyAre.has(file.type)) return read_as_url(file);
  const canvas = h("canvas", {width: Math.max(1, Math.round(bitmap.width * scale)), height: Math.max(1, Math.round(bitmap.height * scale))});
  const context = canvas.getContext("2d");
  context.fillStyle = "white";  // JPEG has no transparency
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.9);
}

// The images below a message or in the composer; on_remove(at) adds buttons that take one away.
export function image_row(urls, on_remove = null) {
  return urls.filter((url) => /^data:image\/(?:jpeg|png|webp);base64,/.test(url)).map((url, at) => {
    const shown = h("img", {src: url, alt: `Attached image ${at + 1}`});
    if (!on_remove) return h("span.thumb", {}, shown);
    return h("span.thumb", {}, shown, h("button.quiet.round", {type: "button", "aria-label": `Remove image ${at + 1}`,
      onclick: () => on_remove(at)}, icon("close")));
  });
}

export class Attachments {
  constructor(element, on_problem) {
    this.element = element;
    this.on_problem = on_problem;
    this.urls = [];
  }

  async add(files) {
    for (const file of files) {
      try {
        this.urls.push(await to_url(file));
      } catch {
        this.on_problem(`"${file.name}" isn't an image that this browser can read.`);
      }
    }
    this.draw();
  }

  draw() {
    this.element.replaceChildren(...image_row(this.urls, (at) => {
      this.urls.splice(at, 1);
      this.draw();
    }));
  }

  set(urls) {
    this.urls = [...urls];
    this.draw();
  }

  take() {
    const taken = this.urls;
    this.set([]);
    return taken;
  }
}
