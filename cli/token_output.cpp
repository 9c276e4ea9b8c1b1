#include "cli/token_output.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <iostream>

#include "base/strings.h"
#include "cli/json_text.h"
#include "io/json.h"
#include "io/system_error.h"

namespace tern::cli {
namespace {

using Json = io::Json;

// Ids with blanks, commas or brackets around them, as this command writes them and as people copy them.
std::vector<tokenizer::TokenId> read_ids(std::string_view words, const tokenizer::Tokenizer& tokenizer) {
  std::vector<tokenizer::TokenId> ids;
  std::size_t at = 0;
  while ((at = words.find_first_not_of(" ,\t\r\n[]", at)) != std::string_view::npos) {
    const std::size_t end = std::min(words.find_first_of(" ,\t\r\n[]", at), words.size());
    const std::string_view word = words.substr(at, end - at);
    tokenizer::TokenId id = -1;
    const auto parsed = std::from_chars(word.data(), word.data() + word.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != word.data() + word.size() || id < 0 || id >= tokenizer.vocab_size()) {
      throw Failure(
          usage_error(cat("--decode takes token ids from 0 to ", tokenizer.vocab_size() - 1, ", not \"", word, "\""),
                      "for example tern tokenize --decode --text '1 2 3'"));
    }
    ids.push_back(id);
    at = end;
  }
  return ids;
}

// What the token adds to the text; a part of a character as the vocabulary spells it.
std::string piece_text(const tokenizer::Tokenizer& tokenizer, tokenizer::TokenId id) {
  const std::array<tokenizer::TokenId, 1> one = {id};
  std::string shown = tokenizer.decode(one, false);
  if (shown.empty() || shown.find("\xEF\xBF\xBD") != std::string::npos) shown = tokenizer.id_to_piece(id);
  return json_quote(shown);
}

Json object(const tokenizer::Tokenizer& tokenizer, const std::vector<tokenizer::TokenId>& ids) {
  Json pieces = Json::array();
  for (const tokenizer::TokenId id : ids) pieces.push_back(std::string(tokenizer.id_to_piece(id)));
  return {{"ids", ids}, {"pieces", std::move(pieces)}, {"text", tokenizer.decode(ids, false)}};
}

void require_written(const std::ostream& out) {
  if (out) return;
  throw Failure(failed_error("the tokens could not be written", "check the space left"));
}

}  // namespace

TokenOutput::TokenOutput(const Options& options, const tokenizer::Tokenizer& tokenizer)
    : options_(options), tokenizer_(tokenizer) {
  if (!options_.path) return;
  file_.open(*options_.path, std::ios::binary);
  if (!file_) throw Failure(io::write_error(*options_.path, errno));
}

std::ostream& TokenOutput::out() { return options_.path ? file_ : std::cout; }

void TokenOutput::write(std::string_view text) {
  const auto ids = options_.decode ? read_ids(text, tokenizer_) : tokenizer_.encode(text, true);
  if (options_.json) {
    out() << object(tokenizer_, ids).dump() << '\n';
  } else if (options_.decode) {
    out() << tokenizer_.decode(ids, false) << '\n';
  } else {
    for (const tokenizer::TokenId id : ids) out() << id << '\t' << piece_text(tokenizer_, id) << '\n';
  }
  require_written(out());
}

void TokenOutput::finish() { require_written(out().flush()); }

}  // namespace tern::cli
