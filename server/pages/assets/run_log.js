// A run's logging.jsonl as it grows: read from where the last reading ended.
import {get_json} from "./api.js";

const kPlace = "global_step/max_steps";

export const path_of = (id) => id.split("/").map(encodeURIComponent).join("/");

export class RunLog {
  constructor(id) {
    this.id = id;
    this.file = 0;
    this.offset = 0;
    this.rows = [];   // [{step, time, ...numbers}]
    this.changed = -1;  // when the file was last written, at the last reading
  }

  // Reads on where there may be more. True where rows came, or were taken back.
  async read(run) {
    if (run.state !== "running" && run.changed === this.changed) return false;
    let some = false;
    for (;;) {
      const part = await get_json(`/runs/log/${path_of(this.id)}?file=${this.file}&offset=${this.offset}`);
      if (part.begun_again) this.rows = [];
      some ||= part.begun_again || part.rows.length > 0;
      for (const row of part.rows) this.take(row);
      this.file = part.file;
      this.offset = part.offset;
      if (!part.more) break;
    }
    this.changed = run.changed;
    return some;
  }

  take(row) {
    const step = Number.parseInt(row[kPlace] ?? "", 10);
    if (Number.isNaN(step) || "last_model_checkpoint" in row) return;
    this.rows.push({...row, step, time: row.elapsed_time ?? 0});
  }

  // The numbers that its rows have, in their order.
  keys() {
    const found = new Set();
    for (const row of this.rows) for (const [key, value] of Object.entries(row)) if (typeof value === "number") found.add(key);
    return found;
  }

  points(key, over) {
    return this.rows.filter((row) => typeof row[key] === "number").map((row) => [row[over], row[key]]);
  }
}
