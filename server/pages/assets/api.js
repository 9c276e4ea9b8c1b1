// The server's OpenAI protocol: the models, and an answer as it comes.
import {api_key} from "./store.js";

// What went wrong in plain words, and HTTP's status (0: there was none).
export class ApiError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

function headers() {
  const key = api_key();
  return key ? {Authorization: `Bearer ${key}`} : {};
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, {...options, headers: {...headers(), ...options.headers}});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server can't be reached. It may have stopped, or the network is down.");
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  const {status} = response;
  let detail = "";
  try {
    const body = JSON.parse(await response.text());
    detail = body.error?.message ?? body.message ?? "";
  } catch {
    // The status says enough.
  }
  if (status === 401 || status === 403) {
    const message = api_key() ? "The server refuses this API key." : "This server asks for an API key.";
    return new ApiError(`${message} Enter it in the settings.`, status);
  }
  if (status === 429) {
    const wait = Math.min(600, Math.max(0, Number(response.headers.get("Retry-After")) || 1));
    return new ApiError(`The server is busy: its queue is full. Try again in ${wait} s.`, status);
  }
  if (status === 503) return new ApiError(detail || "The server is still loading, or is shutting down.", status);
  if (status === 413) return new ApiError(detail || "The dialogue is longer than the model's context.", status);
  return new ApiError(detail || `The server answered with status ${status}.`, status);
}

// The names of the models and adapters that the server offers: [{id, parent}].
export async function list_models() {
  const body = await (await ask("/v1/models")).json();
  return (body.data ?? []).map(({id, parent}) => ({id, parent: parent ?? null}));
}

export async function get_text(path) {
  return (await ask(path)).text();
}

export async function get_json(path) {
  return (await ask(path)).json();
}

export async function post_json(path, body) {
  return (await ask(path, {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)})).json();
}

// The `data:` of each event of a stream, as server-sent events are cut (lines of \n, \r\n or \r; several data lines joined).
export async function* events(stream) {
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  let rest = "";
  let data = [];
  try {
    for (;;) {
      const {done, value} = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, {stream: true});
      // A \r at the end may be half of \r\n.
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      if (done && rest) lines.push(rest.replace(/\r$/, ""), "");
      for (const line of lines) {
        if (line === "") {
          if (data.length > 0) yield data.join("\n");
          data = [];
        } else if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        }
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// Asks for an answer and calls on_delta(delta) for each piece. Gives {finish, usage}. Throws an ApiError, or an
// AbortError once `signal` is aborted.
export async function stream_chat(request, signal, on_delta) {
  const response = await ask("/v1/chat/completions", {
    method: "POST", signal, headers: {"Content-Type": "application/json"},
    body: JSON.stringify({...request, stream: true, stream_options: {include_usage: true}}),
  });
  let finish = null;
  let usage = null;
  try {
    for await (const data of events(response.body)) {
      if (data === "[DONE]") return {finish, usage};
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiError(chunk.error.message ?? "The server broke off with an error.");
      usage = chunk.usage ?? usage;
      const choice = chunk.choices?.[0];
      if (choice?.delta) on_delta(choice.delta);
      finish = choice?.finish_reason ?? finish;
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    if (error instanceof SyntaxError) throw new ApiError("The server sent something that isn't JSON.");
    throw new ApiError("The connection broke off before the answer was complete.");
  }
  if (finish === null) throw new ApiError("The connection broke off before the answer was complete.");
  return {finish, usage};
}
