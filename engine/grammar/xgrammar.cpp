// The one source that includes xgrammar. It throws on what it doesn't take, so everything here that calls it catches.
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/grammar/compiler.h"

namespace tern::engine {

namespace {

// Well-formed UTF-8 (Unicode 15, table 3-7), as far as it has come: what of `pending` and `bytes` is the beginning of a
// character; nullopt where they are ill-formed.
std::optional<std::string> unfinished(std::string pending, std::string_view bytes) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (pending.empty()) {
      if (byte < 0x80) continue;
      if (byte < 0xC2 || byte > 0xF4) return std::nullopt;
      pending += c;
      continue;
    }
    const auto lead = static_cast<unsigned char>(pending.front());
    const bool second = pending.size() == 1;
    const unsigned least = second && lead == 0xE0 ? 0xA0 : second && lead == 0xF0 ? 0x90 : 0x80;
    const unsigned most = second && lead == 0xED ? 0x9F : second && lead == 0xF4 ? 0x8F : 0xBF;
    if (byte < least || byte > most) return std::nullopt;
    pending += c;
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (pending.size() == length) pending.clear();
  }
  return pending;
}

// A model's tokens, as all of its grammars share them.
struct Tokens {
  explicit Tokens(GrammarVocabulary given) : vocabulary(std::move(given)) {
    for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
      if (unfinished("", vocabulary.tokens[id]) != "") partial.push_back(static_cast<std::int32_t>(id));
    }
  }
  GrammarVocabulary vocabulary;
  std::vector<std::int32_t> partial;  // tokens that are no whole characters
};

class GrammarMask final : public TokenMask {
 public:
  GrammarMask(const xgrammar::CompiledGrammar& grammar, std::shared_ptr<const Tokens> tokens)
      : matcher_(grammar), tokens_(std::move(tokens)), words_((tokens_->vocabulary.tokens.size() + 31) / 32) {}

  void fill(std::span<std::uint32_t> words) override {
    compute();
    std::fill(words.begin(), words.end(), 0U);
    std::copy_n(words_.begin(), std::min(words.size(), words_.size()), words.begin());
  }

  void accept(std::int32_t token) override {
    computed_ = false;
    if (over_) return;
    const auto& ends = tokens_->vocabulary.end_tokens;
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) {
      ended_ = matcher_.IsCompleted();
      over_ = true;
      return;
    }
    try {
      over_ = !matcher_.AcceptToken(token);
      if (!over_)
        pending_ = unfinished(pending_, tokens_->vocabulary.tokens[static_cast<std::size_t>(token)]).value_or("");
    } catch (const std::exception&) {
      over_ = true;
    }
  }

  [[nodiscard]] bool complete() const override {
    if (over_) return ended_;
    if (!matcher_.IsCompleted()) return false;
    compute();
    return only_end_tokens_;
  }

 private:
  void compute() const {
    if (computed_) return;
    computed_ = true;
    std::fill(words_.begin(), words_.end(), 0U);
    if (!over_) {
      std::int64_t shape[] = {static_cast<std::int64_t>(words_.size())};
      DLTensor tensor{};
      tensor.data = words_.data();
      tensor.device = {kDLCPU, 0};
      tensor.ndim = 1;
      tensor.dtype = {kDLInt, 32, 1};
      tensor.shape = shape;
      try {
        (void)matcher_.FillNextTokenBitmask(&tensor);
      } catch (const std::exception&) {
        over_ = true;
        std::fill(words_.begin(), words_.end(), 0U);
      }
      keep_well_formed();
    }
    const auto& ends = tokens_->vocabulary.end_tokens;
    for (const std::int32_t token : ends) bit(token) &= ~(1U << (token % 32));
    only_end_tokens_ = std::all_of(words_.begin(), words_.end(), [](std::uint32_t word) { return word == 0; });
    if (only_end_tokens_ || (!over_ && matcher_.IsCompleted())) {
      for (const std::int32_t token : ends) bit(token) |= 1U << (token % 32);
    }
  }
  // xgrammar's classes take bytes that are no UTF-8, overlong ones among them, which would count as other characters.
  void keep_well_formed() const {
    const auto& tokens = tokens_->vocabulary.tokens;
    if (tokens.size() % 32 != 0) words_.back() &= (1U << (tokens.size() % 32)) - 1;
    for (const std::int32_t token : tokens_->partial) {
      std::uint32_t& word = bit(token);
      const std::uint32_t own = 1U << (token % 32);
      if ((word & own) != 0 && !unfinished(pending_, tokens[static_cast<std::size_t>(token)])) word &= ~own;
    }
  }
  [[nodiscard]] std::uint32_t& bit(std::int32_t token) const { return words_[static_cast<std::size_t>(token) / 32]; }

  mutable xgrammar::GrammarMatcher matcher_;
  std::shared_ptr<const Tokens> tokens_;
  std::string pending_;                       // the bytes of a character that has begun
  mutable std::vector<std::uint32_t> words_;  // of the next token, where computed_
  mutable bool computed_ = false, only_end_tokens_ = false;
  mutable bool over_ = false;  // no token but an end follows
  bool ended_ = false;         // and it was a whole answer
};

class Compiled final : public CompiledGrammar {
 public:
  Compiled(xgrammar::CompiledGrammar grammar, std::shared_ptr<const Tokens> tokens)
      : grammar_(std::move(grammar)), tokens_(std::move(tokens)) {}
  [[nodiscard]] std::shared_ptr<TokenMask> start() const override {
    return std::make_shared<GrammarMask>(grammar_, tokens_);
  }
  [[nodiscard]] std::size_t bytes() const override { return grammar_.MemorySizeBytes(); }

 private:
  xgrammar::CompiledGrammar grammar_;
  std::shared_ptr<const Tokens> tokens_;
};

// Its messages begin with a time and the place in its sources, which say nothing to a user.
std::string reason(const std::exception& error) {
  std::string text = error.what();
  if (!text.empty() && text.front() == '[') {
    const std::size_t place = text.find(".cc:");
    const std::size_t colon = place == std::string::npos ? place : text.find(": ", place);
    if (colon != std::string::npos) text.erase(0, colon + 2);
  }
  if (text.starts_with("Check failed: ")) {
    const std::size_t colon = text.find(" is false: ");
    if (colon != std::string::npos) text.erase(0, colon + 11);
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  text.erase(text.find_last_not_of(" .") + 1);
  return text.size() > 300 ? text.substr(0, 300) + "..." : text;
}

class XGrammarCompiler final : public GrammarCompiler {
 public:
  // One thread and no cache: then a compilation shares nothing with others, and errors come back where they're caught.
  explicit XGrammarCompiler(GrammarVocabulary vocabulary)
      : tokens_(std::make_shared<const Tokens>(std::move(vocabulary))),
        compiler_(xgrammar::TokenizerInfo(tokens_->vocabulary.tokens, xgrammar::VocabType::RAW,
                                          static_cast<int>(tokens_->vocabulary.tokens.size()),
                                          tokens_->vocabulary.end_tokens),
                  1, false) {}

  [[nodiscard]] Result<std::shared_ptr<const CompiledGrammar>> compile(Constraint::Kind kind,
                                                                       const std::string& text) const override {
    static constexpr const char* names[] = {"", "", "json_schema", "regex", "choice", "grammar", "structural_tag"};
    const char* name = names[static_cast<int>(kind)];
    try {
      auto made = std::make_shared<const Compiled>(compiled(kind, text), tokens_);
      std::vector<std::uint32_t> first((tokens_->vocabulary.tokens.size() + 31) / 32);
      const auto mask = made->start();
      mask->fill(first);
      for (const std::int32_t token : tokens_->vocabulary.end_tokens) {
        first[static_cast<std::size_t>(token) / 32] &= ~(1U << (token % 32));
      }
      if (!mask->complete() && std::all_of(first.begin(), first.end(), [](std::uint32_t w) { return w == 0; })) {
        return data_error(name, "a constraint that some text meets", "one that no token may begin", "change it");
      }
      return std::shared_ptr<const CompiledGrammar>(std::move(made));
    } catch (const std::exception& error) {
      return data_error(name, "what xgrammar 0.2.8 compiles", reason(error), "change it");
    }
  }

 private:
  [[nodiscard]] xgrammar::CompiledGrammar compiled(Constraint::Kind kind, const std::string& text) const {
    xgrammar::GrammarCompiler compiler = compiler_;  // a handle
    if (kind == Constraint::Kind::json_schema) {
      // A small model would write blanks without end where any number of them is allowed.
      constexpr int kMostBlanks = 32;
      return compiler.CompileJSONSchema(text, true, std::nullopt, std::nullopt, true, kMostBlanks);
    }
    if (kind == Constraint::Kind::regex) return compiler.CompileRegex(text);
    if (kind == Constraint::Kind::structural_tag) return compiler.CompileStructuralTag(text);
    return compiler.CompileGrammar(text);
  }

  std::shared_ptr<const Tokens> tokens_;
  xgrammar::GrammarCompiler compiler_;
};

}  // namespace

bool has_grammars() { return true; }

std::unique_ptr<GrammarCompiler> make_grammar_compiler(GrammarVocabulary vocabulary) {
  return std::make_unique<XGrammarCompiler>(std::move(vocabulary));
}

}  // namespace tern::engine
