// tern tokenize: texts to ids and pieces, or ids to text.
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "chat/model_text.h"
#include "cli/commands/command.h"
#include "cli/dataset_hub.h"
#include "cli/interrupt.h"
#include "cli/json_text.h"
#include "cli/session_flags.h"
#include "data/dataset.h"
#include "io/system_error.h"

namespace tern::cli {
namespace {

using Json = nlohmann::ordered_json;

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
      throw Failure(usage_error("--decode", cat("token ids from 0 to ", tokenizer.vocab_size() - 1), std::string(word),
                                "for example tern tokenize --decode --text '1 2 3'"));
    }
    ids.push_back(id);
    at = end;
  }
  return ids;
}

class Output {
 public:
  Output(const Arguments& arguments, const tokenizer::Tokenizer& tokenizer)
      : tokenizer_(tokenizer), json_(arguments.boolean("json")), decode_(arguments.boolean("decode")) {
    if (const auto path = arguments.maybe_string("result_path")) {
      file_.open(*path, std::ios::binary);
      if (!file_) throw Failure(io::write_error(*path, errno));
    }
  }

  void write(std::string_view text) {
    std::ostream& out = file_.is_open() ? file_ : std::cout;
    const std::vector<tokenizer::TokenId> ids = decode_ ? read_ids(text, tokenizer_) : tokenizer_.encode(text, true);
    if (json_) {
      out << object(ids).dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    } else if (decode_) {
      out << tokenizer_.decode(ids, false) << '\n';
    } else {
      for (const tokenizer::TokenId id : ids) out << id << '\t' << piece_text(id) << '\n';
    }
    require_written(out);
  }

  void finish() { require_written((file_.is_open() ? file_ : std::cout).flush()); }

 private:
  static void require_written(const std::ostream& out) {
    if (out) return;
    throw Failure(
        failed_error("tokenize", "output that can be written", "a write that failed", "check the space left"));
  }

  // What the token adds to the text; a part of a character as the vocabulary spells it.
  [[nodiscard]] std::string piece_text(tokenizer::TokenId id) const {
    const std::array<tokenizer::TokenId, 1> one = {id};
    std::string shown = tokenizer_.decode(one, false);
    if (shown.empty() || shown.find("\xEF\xBF\xBD") != std::string::npos) shown = tokenizer_.id_to_piece(id);
    return json_quote(shown);
  }

  [[nodiscard]] Json object(const std::vector<tokenizer::TokenId>& ids) const {
    Json pieces = Json::array();
    for (const tokenizer::TokenId id : ids) pieces.push_back(std::string(tokenizer_.id_to_piece(id)));
    return {{"ids", ids}, {"pieces", std::move(pieces)}, {"text", tokenizer_.decode(ids, false)}};
  }

  const tokenizer::Tokenizer& tokenizer_;
  bool json_;
  bool decode_;
  std::ofstream file_;
};

}  // namespace

int run_tokenize(const Arguments& arguments) {
  if (!arguments.has("model")) {
    throw Failure(usage_error("--model", "a model, whose tokenizer is used", "none",
                              "for example tern tokenize --model smollm2-135m --text 'Hello world'"));
  }
  const auto& datasets = arguments.list("dataset");
  const std::string path = model_path(arguments, arguments.string("model"));
  const chat::ModelText model = chat::load_model_text(path).value();
  Output output(arguments, model.tokenizer);
  if (arguments.has("text")) {
    output.write(arguments.string("text"));
  } else if (datasets.empty()) {
    output.write(std::string(std::istreambuf_iterator<char>(std::cin), {}));
  } else {
    install_interrupt_handler();
    data::LoadOptions options;
    options.strict = true;
    options.hub = dataset_hub(arguments);
    for (const auto& spec : datasets) {
      (void)data::for_each_row(spec, options, [&](data::Row&& row) {
        if (!row.text) {
          throw Failure(
              data_error(spec, "rows {\"text\"}", "a row of another form", "see tern inspect-data for dialogues"));
        }
        output.write(*row.text);
        return !interrupted();
      }).value();
    }
    if (interrupted()) throw Failure(interrupted_error("some rows were left", "run it again"));
  }
  output.finish();
  return 0;
}

}  // namespace tern::cli
