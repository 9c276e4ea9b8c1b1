// A tokenizer of one token a byte with the control tokens of ChatML, made without files.
#pragma once

#include <string>

#include "base/strings.h"
#include "data/reader.h"
#include "tokenizer/tokenizer.h"

namespace tern::data {

// GPT-2's visible stand-in for a byte: printable Latin-1 for itself, others from U+0100 on.
inline std::string byte_stand_in(int byte) {
  const auto visible = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255); };
  int code = byte;
  if (!visible(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += visible(b) ? 0 : 1;
  }
  std::string out;
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
  return out;
}

inline constexpr int kStart = 256, kEnd = 257;  // <|im_start|>, <|im_end|>

inline tokenizer::Tokenizer byte_tokenizer() {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    if (byte > 0) vocab += ',';
    append_json_string(vocab, byte_stand_in(byte));
    vocab += cat(":", byte);
  }
  const std::string json = cat(
      R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)",
      R"({"id":256,"content":"<|im_start|>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},)",
      R"({"id":257,"content":"<|im_end|>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],)",
      R"("normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false},)",
      R"("post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false},)",
      R"("model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,)",
      R"("fuse_unk":false,"byte_fallback":false,"vocab":{)", vocab, R"(},"merges":[]}})");
  return tokenizer::Tokenizer::from_json(json, "byte tokenizer").value();
}

}  // namespace tern::data
