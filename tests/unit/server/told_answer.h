// An answer as the engine tells it, for the writers of protocols.
#pragma once

#include <string>
#include <utility>

#include "server/chat_sink.h"

namespace tern::server {

inline AnswerPiece answer_piece(AnswerPiece::Kind kind, std::string text, std::string name = {}, std::string id = {}) {
  AnswerPiece out;
  out.kind = kind;
  out.text = std::move(text);
  out.name = std::move(name);
  out.id = std::move(id);
  return out;
}

// Thoughts, a text and two calls, one without arguments.
inline void tell_answer(AnswerSink& sink, StopKind kind, std::string stop_text = {}) {
  using Kind = AnswerPiece::Kind;
  sink.piece(answer_piece(Kind::reasoning, "Hm"));
  sink.piece(answer_piece(Kind::reasoning, ", well"));
  sink.piece(answer_piece(Kind::content, "Line\n\n"));
  sink.piece(answer_piece(Kind::content, "d\xc3\xa9j\xc3\xa0"));
  sink.piece(answer_piece(Kind::call, "", "add", "call_1"));
  sink.piece(answer_piece(Kind::arguments, "{\"a\":"));
  sink.piece(answer_piece(Kind::arguments, " 1}"));
  sink.piece(answer_piece(Kind::call, "", "now", "call_2"));
  sink.ended({0, kind, std::move(stop_text), {}});
  sink.finished({10, 4, 7, 2});
}

}  // namespace tern::server
