#include "tokenizer/token_decoder.h"

#include <algorithm>
#include <array>

#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) {  // as Rust's: between all characters
    std::string out(to);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      (void)next_char(text, at);
      out.append(text, begin, at - begin).append(to);
    }
    text = std::move(out);
    return;
  }
  std::size_t at = text.find(from);
  if (at == std::string::npos) return;
  std::string out;
  std::size_t last = 0;
  for (; at != std::string::npos; at = text.find(from, last)) {
    out.append(text, last, at - last).append(to);
    last = at + from.size();
  }
  text = out.append(text, last);
}

// Undoes the blanks that tokenizing English put before punctuation.
void clean_up(std::string& text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> rules{{{" .", "."},
                                                                                 {" ?", "?"},
                                                                                 {" !", "!"},
                                                                                 {" ,", ","},
                                                                                 {" ' ", "'"},
                                                                                 {" n't", "n't"},
                                                                                 {" 'm", "'m"},
                                                                                 {" do not", " don't"},
                                                                                 {" 's", "'s"},
                                                                                 {" 've", "'ve"},
                                                                                 {" 're", "'re"}}};
  for (const auto& [from, to] : rules) replace_all(text, from, to);
}

std::string joined(const std::vector<std::string>& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  return all;
}

// A decoder that treats each token by itself leaves settled what was, unless all are one token already.
StreamTail local_tail(StreamTail before, bool fused) { return fused ? StreamTail::whole : before; }

class ByteLevelDecoder final : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    tokens.assign(1, to_valid_utf8(byte_level_bytes(tokens)));
  }
  [[nodiscard]] StreamTail tail(StreamTail before, bool& fused) const override {
    const bool first = before == StreamTail::settled && !fused;
    fused = true;
    return first ? StreamTail::characters : StreamTail::whole;
  }
};

class ByteFallbackDecoder final : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    out.reserve(tokens.size());
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (valid_prefix(bytes) == bytes.size()) {
        out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      const int byte = fallback_byte(token);
      if (byte >= 0) {
        bytes += static_cast<char>(byte);
      } else {
        flush();
        out.push_back(std::move(token));
      }
    }
    flush();
    tokens = std::move(out);
  }
  [[nodiscard]] StreamTail tail(StreamTail before, bool& fused) const override {
    return before == StreamTail::settled && !fused ? StreamTail::byte_run : StreamTail::whole;
  }
};

class FuseDecoder final : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string all = joined(tokens);
    tokens.assign(1, std::move(all));
  }
  [[nodiscard]] StreamTail tail(StreamTail before, bool& fused) const override {
    fused = true;
    return before;
  }
};

class StripDecoder final : public TokenDecoder {
 public:
  StripDecoder(char32_t content, std::size_t start, std::size_t stop) : start_(start), stop_(stop) {
    append_char(content_, content);
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view left = token;
      for (std::size_t i = 0; i < start_ && left.starts_with(content_); ++i) left.remove_prefix(content_.size());
      for (std::size_t i = 0; i < stop_ && left.ends_with(content_); ++i) left.remove_suffix(content_.size());
      token = std::string(left);
    }
  }
  [[nodiscard]] StreamTail tail(StreamTail before, bool& fused) const override {
    return fused && stop_ > 0 ? StreamTail::whole : before;
  }

 private:
  std::string content_;
  std::size_t start_, stop_;
};

class ReplaceDecoder final : public TokenDecoder {
 public:
  ReplaceDecoder(std::string_view pattern, bool literal, std::string content, const std::string& where)
      : regex_(pattern, literal, where), content_(std::move(content)) {}
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<Range> matches;
    for (std::string& token : tokens) {
      matches.clear();
      regex_.find_all(token, matches);
      if (matches.empty()) continue;
      std::string out;
      std::size_t last = 0;
      for (const auto& [begin, end] : matches) {
        out.append(token, last, begin - last).append(content_);
        last = end;
      }
      token = out.append(token, last);
    }
  }
  [[nodiscard]] StreamTail tail(StreamTail before, bool& fused) const override { return local_tail(before, fused); }

 private:
  Regex regex_;
  std::string content_;
};

class MetaspaceDecoder final : public TokenDecoder {
 public:
  MetaspaceDecoder(char32_t replacement, bool drop_first) : drop_first_(drop_first) {
    append_char(replacement_, replacement);
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], replacement_, i == 0 && drop_first_ ? "" : " ");
  }
  [[nodiscard]] StreamTail tail(StreamTail before, bool& fused) const override { return local_tail(before, fused); }

 private:
  std::string replacement_;
  bool drop_first_;
};

class WordPieceDecoder final : public TokenDecoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) {
        if (tokens[i].starts_with(prefix_)) {
          tokens[i].erase(0, prefix_.size());
        } else {
          tokens[i].insert(0, 1, ' ');
        }
      }
      if (cleanup_) clean_up(tokens[i]);
    }
  }
  [[nodiscard]] StreamTail tail(StreamTail before, bool& fused) const override { return local_tail(before, fused); }

 private:
  std::string prefix_;
  bool cleanup_;
};

class BpeDecoder final : public TokenDecoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
  }
  [[nodiscard]] StreamTail tail(StreamTail before, bool& fused) const override {
    return before == StreamTail::settled && !fused ? StreamTail::last_token : StreamTail::whole;
  }

 private:
  std::string suffix_;
};

class CtcDecoder final : public TokenDecoder {
 public:
  CtcDecoder(std::string pad, std::string delimiter, bool cleanup)
      : pad_(std::move(pad)), delimiter_(std::move(delimiter)), cleanup_(cleanup) {}
  void apply(std::vector<std::string>& tokens) const override {
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (std::string& token : tokens) {
      replace_all(token, pad_, "");
      if (!cleanup_) continue;
      clean_up(token);
      replace_all(token, delimiter_, " ");
    }
    std::erase_if(tokens, [](const std::string& token) { return token.empty(); });
  }
  [[nodiscard]] StreamTail tail(StreamTail before, bool& fused) const override { return local_tail(before, fused); }

 private:
  std::string pad_, delimiter_;
  bool cleanup_;
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

std::string byte_level_bytes(const std::vector<std::string>& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) {
    const std::size_t before = bytes.size();
    for (std::size_t at = 0; at < token.size();) {
      const int byte = char_to_byte(next_char(token, at));
      if (byte < 0) {
        bytes.resize(before);
        bytes += token;
        break;
      }
      bytes += static_cast<char>(byte);
    }
  }
  return bytes;
}

int fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  if (token[3] == '+') return hex_digit(token[4]);  // the reference's number parser takes a sign
  return hex_digit(token[3]) < 0 || hex_digit(token[4]) < 0 ? -1 : hex_digit(token[3]) * 16 + hex_digit(token[4]);
}

std::unique_ptr<TokenDecoder> make_byte_level_decoder() { return std::make_unique<ByteLevelDecoder>(); }
std::unique_ptr<TokenDecoder> make_byte_fallback_decoder() { return std::make_unique<ByteFallbackDecoder>(); }
std::unique_ptr<TokenDecoder> make_fuse_decoder() { return std::make_unique<FuseDecoder>(); }
std::unique_ptr<TokenDecoder> make_strip_decoder(char32_t content, std::size_t start, std::size_t stop) {
  return std::make_unique<StripDecoder>(content, start, stop);
}
std::unique_ptr<TokenDecoder> make_replace_decoder(std::string_view pattern, bool literal, std::string content,
                                                   const std::string& where) {
  return std::make_unique<ReplaceDecoder>(pattern, literal, std::move(content), where);
}
std::unique_ptr<TokenDecoder> make_metaspace_decoder(char32_t replacement, bool drop_first) {
  return std::make_unique<MetaspaceDecoder>(replacement, drop_first);
}
std::unique_ptr<TokenDecoder> make_word_piece_decoder(std::string prefix, bool cleanup) {
  return std::make_unique<WordPieceDecoder>(std::move(prefix), cleanup);
}
std::unique_ptr<TokenDecoder> make_bpe_decoder(std::string suffix) {
  return std::make_unique<BpeDecoder>(std::move(suffix));
}
std::unique_ptr<TokenDecoder> make_ctc_decoder(std::string pad, std::string delimiter, bool cleanup) {
  return std::make_unique<CtcDecoder>(std::move(pad), std::move(delimiter), cleanup);
}

}  // namespace tern::tokenizer
