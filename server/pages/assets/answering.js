// From a dialogue to a request, and from the answer's pieces to a message.
import {ApiError, stream_chat} from "./api.js";

function content_of(message) {
  if (!message.images?.length) return message.text;
  const parts = message.images.map((url) => ({type: "image_url", image_url: {url}}));
  return message.text ? [...parts, {type: "text", text: message.text}] : parts;
}

// The messages as the protocol has them. What a model thought is not sent back; an answer that never came is left out.
export function request_messages(system, messages) {
  const sent = system ? [{role: "system", content: system}] : [];
  for (const message of messages) {
    if (message.role === "tool") {
      sent.push({role: "tool", tool_call_id: message.call, content: message.text});
    } else if (message.role === "user") {
      sent.push({role: "user", content: content_of(message)});
    } else if (message.text || message.calls?.length) {
      const answer = {role: "assistant", content: message.text};
      if (message.calls?.length) {
        answer.tool_calls = message.calls.map(({id, name, arguments: text}) => ({id, type: "function", function: {name, arguments: text}}));
      }
      sent.push(answer);
    }
  }
  return sent;
}

function take_calls(message, deltas) {
  message.calls ??= [];
  for (const delta of deltas) {
    const at = delta.index ?? message.calls.length;
    const call = (message.calls[at] ??= {id: "", name: "", arguments: ""});
    if (delta.id) call.id = delta.id;
    call.name += delta.function?.name ?? "";
    call.arguments += delta.function?.arguments ?? "";
  }
}

// Fills `message` as the answer comes, calling changed() after each piece. It never throws: what went wrong is in
// message.problem.
export async function answer_into(message, request, signal, changed) {
  const begin = performance.now();
  let first = 0;
  let pieces = 0;
  let last = 0;
  try {
    const {finish, usage} = await stream_chat(request, signal, (delta) => {
      const thought = delta.reasoning ?? delta.reasoning_content;
      if (thought) message.reasoning = (message.reasoning ?? "") + thought;
      if (delta.content) message.text += delta.content;
      if (delta.tool_calls?.length) take_calls(message, delta.tool_calls);
      if (!thought && !delta.content && !delta.tool_calls?.length) return;
      last = performance.now();
      first ||= last;
      ++pieces;
      changed();
    });
    message.finish = finish;
    if (usage) {
      message.stats = {prompt_tokens: usage.prompt_tokens, completion_tokens: usage.completion_tokens,
        cached_tokens: usage.prompt_tokens_details?.cached_tokens ?? 0};
    }
  } catch (error) {
    if (error.name === "AbortError") message.stopped = true;
    else if (error instanceof ApiError) message.problem = {text: error.message, status: error.status};
    else message.problem = {text: `The page failed: ${error.message}`, status: 0};
  }
  message.stats ??= {};
  if (first) message.stats.first = first - begin;
  // The first token's time is the prompt's, so that the rate counts those after it.
  const tokens = message.stats.completion_tokens ?? pieces;
  if (tokens > 1 && last > first) message.stats.rate = ((tokens - 1) * 1000) / (last - first);
}
