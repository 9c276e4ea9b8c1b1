#include "engine/grammar.h"

#include "engine/grammar/compiler.h"
#include "engine/schema_check.h"
#include "engine/token_bytes.h"

namespace tern::engine {

namespace {

// "root ::= "yes" | "no"", with what would end a string escaped.
Result<std::string> choice_grammar(const std::vector<std::string>& choices) {
  if (choices.empty()) return data_error("choice", "at least one choice", "none", "name one");
  std::string text = "root ::= ";
  for (const std::string& choice : choices) {
    if (&choice != &choices.front()) text += " | ";
    text += '"';
    for (const char c : choice) {
      static constexpr char digits[] = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        text += {'\\', c};
      } else if (byte < 0x20 || byte == 0x7F) {
        text += {'\\', 'x', digits[byte / 16], digits[byte % 16]};
      } else {
        text += c;
      }
    }
    text += '"';
  }
  return text;
}

struct Checked {
  Constraint::Kind kind;
  std::string text;
};

Result<Checked> checked(const Constraint& constraint) {
  using Kind = Constraint::Kind;
  Result<std::string> text = constraint.text;
  Kind kind = constraint.kind;
  if (kind == Kind::json_object) {
    kind = Kind::json_schema;
    text = std::string(R"({"type":"object"})");
  } else if (kind == Kind::json_schema) {
    text = check_schema(constraint.text, "json_schema");
  } else if (kind == Kind::structural_tag) {
    text = check_structural_tag(constraint.text, "structural_tag");
  } else if (kind == Kind::choice) {
    kind = Kind::grammar;
    text = choice_grammar(constraint.choices);
    if (!text) return text.error();
    // Braces and brackets in a choice are text, so only the size counts.
    if (const Status ok = check_ebnf(std::string(text->size(), ' '), "choice"); !ok) return ok.error();
  } else {
    const Status ok = kind == Kind::regex     ? check_regex(constraint.text, "regex")
                      : kind == Kind::grammar ? check_ebnf(constraint.text, "grammar")
                                              : Status(failed_error("no constraint was given", "name one"));
    if (!ok) return ok.error();
  }
  if (!text) return text.error();
  return Checked{kind, *text};
}

std::string key_of(const Constraint& constraint) {
  std::string key = std::to_string(static_cast<int>(constraint.kind)) + ":" + constraint.text;
  for (const std::string& choice : constraint.choices) key += "\n" + std::to_string(choice.size()) + ":" + choice;
  return key;
}

}  // namespace

Grammars::Grammars(tokenizer::Tokenizer tokenizer, std::vector<std::int32_t> end_tokens, std::int64_t vocab_size,
                   std::size_t cache_bytes)
    : tokenizer_(std::move(tokenizer)),
      end_tokens_(std::move(end_tokens)),
      vocab_size_(vocab_size),
      cache_bytes_(cache_bytes) {}

Grammars::~Grammars() = default;

Result<std::shared_ptr<const CompiledGrammar>> Grammars::compile(const Constraint& constraint) {
  if (!has_grammars()) {
    return failed_error("this tern was built without xgrammar, so answers can't be constrained",
                        "run script/bootstrap where PyPI can be reached, and build again");
  }
  const std::string key = key_of(constraint);
  if (auto grammar = cached(key)) return grammar;
  const Result<Checked> what = checked(constraint);
  if (!what) return what.error();
  std::call_once(once_, [this] {
    GrammarVocabulary vocabulary{token_bytes(tokenizer_, vocab_size_), {}};
    for (const std::int32_t token : end_tokens_) {
      if (token < 0 || token >= vocab_size_) continue;
      vocabulary.tokens[static_cast<std::size_t>(token)].clear();
      vocabulary.end_tokens.push_back(token);
    }
    compiler_ = make_grammar_compiler(std::move(vocabulary));
  });
  auto grammar = compiler_->compile(what->kind, what->text);
  if (grammar) keep(key, *grammar);
  return grammar;
}

std::shared_ptr<const CompiledGrammar> Grammars::cached(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

void Grammars::keep(const std::string& key, const std::shared_ptr<const CompiledGrammar>& grammar) {
  const std::lock_guard lock(mutex_);
  const std::size_t size = grammar->bytes() + key.size();
  if (size > cache_bytes_ || index_.contains(key)) return;
  entries_.emplace_front(key, grammar);
  index_.emplace(key, entries_.begin());
  used_ += size;
  while (used_ > cache_bytes_) {
    const Entry& oldest = entries_.back();
    used_ -= oldest.second->bytes() + oldest.first.size();
    index_.erase(oldest.first);
    entries_.pop_back();
  }
}

}  // namespace tern::engine
