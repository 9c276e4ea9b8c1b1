// tern infer: a dialogue at the terminal, one answer from a pipe, or the rows of a file.
#include <histedit.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/strings.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_session.h"
#include "cli/terminal.h"
#include "data/dataset.h"
#include "engine/llm_engine.h"
#include "io/json.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// What generation_config.json says, flags winning over it. Without either the likeliest token is taken.
engine::SamplingParams sampling_params(const Arguments& arguments, const fs::path& model) {
  engine::SamplingParams p;
  Json config = Json::object();
  const fs::path file = model / "generation_config.json";
  if (fs::is_directory(model) && fs::exists(file)) config = io::read_json_file(file).value();
  const auto number = [&](const char* key, double otherwise) {
    return config.contains(key) && config[key].is_number() ? config[key].get<double>() : otherwise;
  };
  const bool samples = config.value("do_sample", false);
  p.temperature =
      static_cast<float>(arguments.maybe_real("temperature").value_or(samples ? number("temperature", 1.0) : 0.0));
  p.top_k = static_cast<std::int32_t>(std::max<std::int64_t>(
      0, arguments.maybe_integer("top_k").value_or(samples ? static_cast<std::int64_t>(number("top_k", 50)) : 0)));
  p.top_p = static_cast<float>(arguments.maybe_real("top_p").value_or(samples ? number("top_p", 1.0) : 1.0));
  p.min_p = static_cast<float>(arguments.maybe_real("min_p").value_or(number("min_p", 0.0)));
  p.repetition_penalty =
      static_cast<float>(arguments.maybe_real("repetition_penalty").value_or(number("repetition_penalty", 1.0)));
  p.max_new_tokens =
      arguments.maybe_integer("max_new_tokens").value_or(static_cast<std::int64_t>(number("max_new_tokens", 0)));
  p.stop = arguments.list("stop_words");
  p.seed = static_cast<std::uint64_t>(arguments.integer("seed"));
  return p;
}

class Chat {
 public:
  Chat(const Arguments& arguments, ModelSession& session, engine::LLMEngine& engine)
      : arguments_(arguments), session_(session), engine_(engine), params_(sampling_params(arguments, session.path)) {
    system_ = arguments.maybe_string("system").value_or("");
    reset();
  }

  void reset() {
    messages_ = Json::array();
    if (!system_.empty()) messages_.push_back({{"role", "system"}, {"content", system_}});
  }
  void set_system(const std::string& text) {
    system_ = text;
    reset();
  }

  // Answers `query` in the dialogue so far, writing to `out` as the text comes; the answer joins the dialogue.
  std::string ask(const std::string& query, std::ostream* out) {
    messages_.push_back({{"role", "user"}, {"content", query}});
    std::string answer = generate(messages_, out);
    messages_.push_back({{"role", "assistant"}, {"content", answer}});
    return answer;
  }

  std::string generate(const Json& messages, std::ostream* out) {
    const std::vector<std::int32_t> prompt = encode(messages);
    engine::SamplingParams params = params_;
    const auto room = engine_.max_model_len() - static_cast<std::int64_t>(prompt.size());
    if (params.max_new_tokens <= 0 || params.max_new_tokens > room)
      params.max_new_tokens = std::max<std::int64_t>(room, 1);
    const auto id = engine_.add_request(prompt, std::move(params)).value();
    std::string answer;
    while (!engine_.idle()) {
      if (interrupted()) engine_.abort(id);
      for (const auto& output : engine_.step()) {
        answer += output.text;
        if (out != nullptr) *out << output.text << std::flush;
      }
    }
    return answer;
  }

 private:
  [[nodiscard]] std::vector<std::int32_t> encode(const Json& messages) const {
    const text::Tokenizer& tokenizer = session_.text->tokenizer;
    if (!arguments_.boolean("use_chat_template") || !session_.text->chat_template) {
      std::string text;
      for (const auto& message : messages) text += message["content"].get<std::string>();
      return tokenizer.encode(text, true);
    }
    text::ChatInput input;
    input.messages = &messages;
    input.add_generation_prompt = true;
    const auto& config = tokenizer.config();
    input.bos_token = config.bos.content;
    input.eos_token = config.eos.content;
    input.unk_token = config.unk.content;
    input.pad_token = config.pad.content;
    return tokenizer.encode(session_.text->chat_template->render(input).value(), false);
  }

  const Arguments& arguments_;
  ModelSession& session_;
  engine::LLMEngine& engine_;
  engine::SamplingParams params_;
  std::string system_;
  Json messages_;
};

// Lines from the terminal with editing and history (libedit).
class LineReader {
 public:
  LineReader() : edit_(el_init("tern", stdin, stdout, stderr)), history_(history_init()) {
    HistEvent event{};
    history(history_, &event, H_SETSIZE, 500);
    el_set(edit_, EL_HIST, history, history_);
    el_set(
        edit_, EL_PROMPT, +[](EditLine*) {
          static char prompt[] = "<<< ";
          return prompt;
        });
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_SIGNAL, 1);
  }
  ~LineReader() {
    history_end(history_);
    el_end(edit_);
  }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // False at the end of input.
  bool read(std::string& line) {
    int count = 0;
    const char* text = el_gets(edit_, &count);
    if (text == nullptr || count <= 0) return false;
    line.assign(text, static_cast<std::size_t>(count));
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    HistEvent event{};
    if (!line.empty()) history(history_, &event, H_ENTER, line.c_str());
    return true;
  }

 private:
  EditLine* edit_;
  History* history_;
};

// ms-swift's words: exit, quit, clear, multi-line, single-line, reset-system.
int converse(Chat& chat) {
  log_info(
      "exit or quit leaves; clear forgets the dialogue; multi-line ends a query with #; reset-system sets a new system "
      "text");
  LineReader reader;
  bool multi_line = false;
  bool expects_system = false;
  std::string line;
  std::string query;
  while (reader.read(line)) {
    const std::string word(trim(line));
    if (expects_system) {
      chat.set_system(word);
      expects_system = false;
      continue;
    }
    if (query.empty()) {
      if (word == "exit" || word == "quit") return 0;
      if (word == "clear") chat.reset();
      if (word == "multi-line") multi_line = true;
      if (word == "single-line") multi_line = false;
      if (word == "reset-system") {
        log_info("the next line is the system text");
        expects_system = true;
      }
      if (word.empty() || word == "clear" || word == "multi-line" || word == "single-line" || word == "reset-system")
        continue;
    }
    query += (query.empty() ? "" : "\n") + line;
    if (multi_line && !word.ends_with('#')) continue;
    if (multi_line) query.erase(query.rfind('#'));
    (void)chat.ask(query, &std::cout);
    std::cout << '\n' << std::flush;
    query.clear();
  }
  return 0;
}

int answer_pipe(const Arguments& arguments, Chat& chat) {
  std::string query{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  const std::string trimmed(trim(query));
  if (trimmed.empty())
    throw Failure(data_error("standard input", "a question", "nothing", "echo 'What is 12 times 7?' | tern infer ..."));
  const bool stream = arguments.maybe_boolean("stream").value_or(isatty(STDOUT_FILENO) == 1);
  const std::string answer = chat.ask(trimmed, stream ? &std::cout : nullptr);
  if (!stream) std::cout << answer;
  std::cout << '\n';
  if (!std::cout.flush()) throw Failure(failed_error("standard output", "room for the answer", "a write that failed"));
  return 0;
}

// A row's messages without the answer at their end, and that answer.
std::pair<Json, std::string> split_answer(const data::Row& row) {
  Json messages = Json::array();
  std::string label;
  for (const auto& message : row.messages) messages.push_back({{"role", message.role}, {"content", message.content}});
  if (!messages.empty() && messages.back()["role"] == "assistant") {
    label = messages.back()["content"].get<std::string>();
    messages.erase(messages.size() - 1);
  }
  return {std::move(messages), std::move(label)};
}

int answer_rows(const Arguments& arguments, Chat& chat) {
  data::LoadOptions options;
  options.strict = arguments.boolean("strict");
  options.normalize.system = arguments.maybe_string("system").value_or("");
  const auto path = arguments.maybe_string("result_path");
  std::ofstream file;
  if (path) {
    file.open(*path, std::ios::app);
    if (!file) throw Failure(failed_error(*path, "a file that can be written", "none"));
  }
  std::ostream& out = file.is_open() ? file : std::cout;
  for (const auto& spec : arguments.list("val_dataset")) {
    (void)data::for_each_row(spec, options, [&](data::Row&& row) {
      auto [messages, label] = split_answer(row);
      Json result;
      result["response"] = chat.generate(messages, nullptr);
      result["labels"] = label.empty() ? Json(nullptr) : Json(label);
      result["messages"] = std::move(messages);
      out << result.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n' << std::flush;
      return !interrupted() && out.good();
    }).value();
  }
  if (!out)
    throw Failure(failed_error(path.value_or("standard output"), "room for the answers", "a write that failed"));
  if (interrupted()) throw Failure(failed_error("interrupted", {}, "the rows so far were written"));
  return 0;
}

}  // namespace

int run_infer(const Arguments& given) {
  const auto& adapters = given.list("adapters");
  std::string model = given.maybe_string("model").value_or("");
  if (model.empty() && !adapters.empty()) model = models::read_adapter_config(adapters[0]).value().base_model;
  if (model.empty()) throw Failure(usage_error("--model", "a model", "none", "name one, such as smollm2-135m"));
  if (adapters.size() > 1) throw Failure(usage_error("--adapters", "one adapter", std::to_string(adapters.size())));
  auto session = open_session(given, model);
  const auto config = models::read_config(*session->source).value();
  engine::EngineOptions options;
  options.max_model_len = std::min<std::int64_t>(
      given.maybe_integer("max_model_len").value_or(config.max_position_embeddings), config.max_position_embeddings);
  models::LoadOptions load;
  load.max_positions = options.max_model_len;
  load_weights(*session, given, load);
  if (!adapters.empty()) options.adapters = models::load_adapter(session->model, "lora", adapters[0]).value().layers;
  options.compute = session->compute;
  engine::LLMEngine engine(session->model, session->text->tokenizer, options, session->choices, session->program,
                           session->host);
  session->choices.save();
  install_interrupt_handler();
  Chat chat(given, *session, engine);
  if (!given.list("val_dataset").empty()) return answer_rows(given, chat);
  return isatty(STDIN_FILENO) == 1 ? converse(chat) : answer_pipe(given, chat);
}

}  // namespace tern::cli
