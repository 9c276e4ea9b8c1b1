// tern infer: a dialogue at the terminal, one answer from a pipe, or the rows of a file.
#include <histedit.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/data_setup.h"
#include "cli/interrupt.h"
#include "cli/session_flags.h"
#include "cli/terminal.h"
#include "data/dataset.h"
#include "engine/llm_engine.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "io/system_error.h"

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
  const auto require = [&](bool sound, const std::string& where, const char* expected, const Json& found) {
    if (sound) return;
    throw Failure(data_error(cat(file.string(), where), expected, found.dump(-1, ' ', true).substr(0, 60),
                             "take the file from the model's repository, or remove it"));
  };
  require(config.is_object(), "", "a JSON object", config);
  const auto is_given = [&](const char* key) { return config.contains(key) && !config[key].is_null(); };
  const auto number = [&](const char* key, double otherwise) {
    if (!is_given(key)) return otherwise;
    require(config[key].is_number(), cat(": key \"", key, "\""), "a number", config[key]);
    return config[key].get<double>();
  };
  const bool draws = is_given("do_sample");
  if (draws) require(config["do_sample"].is_boolean(), ": key \"do_sample\"", "true or false", config["do_sample"]);
  const bool samples = draws && config["do_sample"].get<bool>();
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

// A question to the model and its answer as it grows.
struct Request {
  Json messages;  // of the prompt
  std::string label;
  engine::SequenceId id = 0;
  std::string answer;
  Json logprobs = Json::array();  // of the answer's tokens
  bool finished = false;
  std::string place;           // of a row: its file and line
  std::optional<Error> error;  // why it ended early
};

// Turns messages into answers. Several may be on their way at once.
class Answerer {
 public:
  Answerer(const Arguments& arguments, session::Session& session, engine::LLMEngine& engine)
      : session_(session),
        engine_(engine),
        params_(sampling_params(arguments, session.path)),
        templated_(arguments.boolean("use_chat_template") && session.text->chat_template.has_value()) {
    const std::string kwargs = template_kwargs(arguments);
    kwargs_ = kwargs.empty() ? Json::object() : Json::parse(kwargs);
  }

  // `row`: which of several requests with one seed this is.
  void submit(Request& request, std::uint64_t row = 0) {
    const std::vector<std::int32_t> prompt = encode(request.messages);
    engine::SamplingParams params = params_;
    params.request = row;
    const auto room = engine_.max_model_len() - static_cast<std::int64_t>(prompt.size());
    if (params.max_new_tokens <= 0 || params.max_new_tokens > room)
      params.max_new_tokens = std::max<std::int64_t>(room, 1);
    request.id = engine_.add_request(prompt, std::move(params)).value();
  }

  // One step of the engine; `requests` hold those on their way. What comes is also written to `out`, where given.
  void step(const std::map<engine::SequenceId, Request*>& requests, std::ostream* out) {
    for (const auto& [id, request] : requests) {
      if (interrupted()) engine_.abort(id);
    }
    for (const auto& output : engine_.step()) {
      Request& request = *requests.at(output.id);
      request.answer += output.text;
      if (out != nullptr) *out << output.text << std::flush;
      request.finished = output.finished;
      if (output.error) fail(request, *output.error);
      if (output.token < 0) continue;
      request.logprobs.push_back({{"token", session_.text->tokenizer.id_to_piece(output.token)},
                                  {"id", output.token},
                                  {"logprob", output.logprob}});
    }
  }

  // The whole answer, written to `out` as it comes.
  void answer(Request& request, std::ostream* out) {
    submit(request);
    while (!request.finished) step({{request.id, &request}}, out);
    if (request.error) throw Failure(*request.error);
  }

 private:
  static void fail(Request& request, Error error) {
    if (!request.place.empty()) error.where = cat(request.place, ": ", error.where);
    request.error = std::move(error);
  }
  [[nodiscard]] std::vector<std::int32_t> encode(const Json& messages) const {
    const tokenizer::Tokenizer& tokenizer = session_.text->tokenizer;
    if (!templated_) {
      std::string text;
      for (const auto& message : messages) text += message["content"].get<std::string>();
      return tokenizer.encode(text, true);
    }
    chat::ChatInput input;
    input.messages = &messages;
    input.kwargs = &kwargs_;
    input.add_generation_prompt = true;
    const auto& config = tokenizer.config();
    input.bos_token = config.bos.content;
    input.eos_token = config.eos.content;
    input.unk_token = config.unk.content;
    input.pad_token = config.pad.content;
    return tokenizer.encode(session_.text->chat_template->render(input).value(), false);
  }

  session::Session& session_;
  engine::LLMEngine& engine_;
  engine::SamplingParams params_;
  bool templated_;
  Json kwargs_;
};

// Answers as rows of --result_path, else of standard output where `always`.
class ResultWriter {
 public:
  ResultWriter(const Arguments& arguments, bool always)
      : path_(arguments.maybe_string("result_path")), logprobs_(arguments.boolean("logprobs")), always_(always) {
    if (!path_) return;
    file_.open(*path_, std::ios::app);
    if (!file_) throw Failure(io::write_error(*path_, errno));
  }

  void write(const Request& request) {
    if (!path_ && !always_) return;
    Json result;
    result["response"] = request.answer;
    result["labels"] = request.label.empty() ? Json(nullptr) : Json(request.label);
    result["logprobs"] = logprobs_ ? Json{{"content", request.logprobs}} : Json(nullptr);
    result["messages"] = request.messages;
    if (request.error) result["error"] = request.error->line();
    std::ostream& out = path_ ? file_ : std::cout;
    out << result.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n' << std::flush;
    if (out) return;
    throw Failure(failed_error(path_.value_or("standard output"), "room for the answers", "a write that failed",
                               "check the space left"));
  }

 private:
  std::optional<std::string> path_;
  bool logprobs_;
  bool always_;
  std::ofstream file_;
};

// A dialogue: what was said so far goes with each question.
class Chat {
 public:
  Chat(const Arguments& arguments, Answerer& answerer)
      : answerer_(answerer), results_(arguments, false), system_(system_message(arguments)) {
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
    Request request;
    request.messages = messages_;
    answerer_.answer(request, out);
    results_.write(request);
    messages_.push_back({{"role", "assistant"}, {"content", request.answer}});
    return request.answer;
  }

 private:
  Answerer& answerer_;
  ResultWriter results_;
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
  if (!std::cout.flush()) {
    throw Failure(
        failed_error("standard output", "room for the answer", "a write that failed", "check the space left"));
  }
  return 0;
}

// A row's messages without the answer at their end, and that answer as the label.
Request request_of(const data::Row& row) {
  Request request;
  request.messages = Json::array();
  if (row.text) request.messages.push_back({{"role", "user"}, {"content", *row.text}});
  for (const auto& message : row.messages) {
    request.messages.push_back({{"role", message.role}, {"content", message.content}});
  }
  if (!request.messages.empty() && request.messages.back()["role"] == "assistant") {
    request.label = request.messages.back()["content"].get<std::string>();
    request.messages.erase(request.messages.size() - 1);
  }
  return request;
}

// The rows of --val_dataset, --max_batch_size of them on their way at once, their answers in the rows' order.
class RowAnswers {
 public:
  RowAnswers(const Arguments& arguments, Answerer& answerer)
      : arguments_(arguments),
        answerer_(answerer),
        results_(arguments, true),
        most_(static_cast<std::size_t>(arguments.integer("max_batch_size"))) {}

  int run() {
    const data::LoadOptions options = load_options(arguments_);
    for (const auto& spec : options.val_dataset) {
      const auto report = data::for_each_row(spec, options, [&](data::Row&& row) {
                            requests_.push_back(request_of(row));
                            requests_.back().place = cat(row.file, ":", row.line);
                            submit(requests_.back(), row);
                            running_[requests_.back().id] = &requests_.back();
                            while (running_.size() >= most_) step();
                            return !interrupted();
                          }).value();
      for (const auto& line : report.counts.first_errors) log_warn(line);
      if (report.counts.bad > 0) log_warn(cat(spec, ": ", report.counts.bad, " bad rows were left out"));
    }
    while (!running_.empty()) step();
    if (interrupted()) throw Failure(interrupted_error(cat(rows_, " rows were answered and written"), "run it again"));
    if (rows_ == 0)
      throw Failure(data_error("--val_dataset", "rows to answer", "none", "see what was said of the rows"));
    if (failed_ > 0) log_warn(cat(failed_, " of ", rows_, " rows have an error in the place of their answer's end"));
    if (arguments_.has("metric")) {
      log_info(cat(
          "acc: ", fixed(static_cast<double>(right_) / static_cast<double>(std::max<std::int64_t>(labelled_, 1)), 4),
          " (", right_, " of ", labelled_, " rows with a label)"));
    }
    return 0;
  }

 private:
  void submit(Request& request, const data::Row& row) {
    try {
      answerer_.submit(request, submitted_++);
    } catch (const Failure& failure) {
      Error error = failure.error();
      error.where = cat(row.file, ":", row.line, ": ", error.where);
      throw Failure(std::move(error));
    }
  }
  void step() {
    answerer_.step(running_, nullptr);
    std::erase_if(running_, [](const auto& entry) { return entry.second->finished; });
    for (; !requests_.empty() && requests_.front().finished; requests_.pop_front()) {
      const Request& request = requests_.front();
      if (interrupted()) continue;  // cut answers are not kept
      results_.write(request);
      ++rows_;
      if (request.error) ++failed_;
      if (request.label.empty()) continue;
      ++labelled_;
      if (trim(request.answer) == trim(request.label)) ++right_;
    }
  }

  const Arguments& arguments_;
  Answerer& answerer_;
  ResultWriter results_;
  std::size_t most_;
  std::deque<Request> requests_;  // in the rows' order
  std::map<engine::SequenceId, Request*> running_;
  std::uint64_t submitted_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t failed_ = 0;
  std::int64_t labelled_ = 0;
  std::int64_t right_ = 0;
};

std::string folder_with_args(const Arguments& arguments) {
  const auto& adapters = arguments.list("adapters");
  if (!adapters.empty()) return adapters[0];
  return arguments.maybe_string("model").value_or("");
}

// --load_args: what the training run was told, where the user says nothing else. --load_data_args: its held-out rows.
void load_training_arguments(Arguments& arguments) {
  const fs::path folder = folder_with_args(arguments);
  const fs::path file = folder / "args.json";
  std::error_code ignored;
  const bool present = !folder.empty() && fs::is_regular_file(file, ignored);
  if (arguments.boolean("load_args") && present) {
    std::vector<std::string_view> names = {"template", "system", "enable_thinking", "use_chat_template"};
    if (!arguments.list("adapters").empty()) names.emplace_back("model");  // a checkpoint is itself the model
    arguments.load_saved(io::read_text_file(file).value(), file.string(), names).value();
  }
  if (!arguments.boolean("load_data_args")) return;
  const fs::path split = fs::absolute(folder).lexically_normal().parent_path() / "val_dataset.jsonl";
  if (!folder.empty() && fs::is_regular_file(split, ignored)) {
    arguments.derive("val_dataset", FlagWord{split.string()});
  } else if (present) {
    constexpr std::string_view kNames[] = {"val_dataset"};
    arguments.load_saved(io::read_text_file(file).value(), file.string(), kNames).value();
  }
  if (!arguments.list("val_dataset").empty()) return;
  throw Failure(data_error("--load_data_args", "held-out rows of the training run", "none beside the checkpoint",
                           "name them with --val_dataset"));
}

// --kv_cache_dtype; auto: that of --torch_dtype, none where neither is given.
std::optional<tern_dtype> cache_dtype(const Arguments& arguments) {
  const std::string& word = arguments.string("kv_cache_dtype");
  if (word != "auto") return dtype_from_name(word);
  return arguments.has("torch_dtype") ? dtype_from_name(arguments.string("torch_dtype")) : std::nullopt;
}

}  // namespace

int run_infer(const Arguments& given) {
  Arguments arguments = given;
  require_one_adapter(arguments);
  load_training_arguments(arguments);
  const auto& adapters = arguments.list("adapters");
  std::string model = arguments.maybe_string("model").value_or("");
  if (model.empty() && !adapters.empty()) model = models::read_adapter_config(adapters[0]).value().base_model;
  if (model.empty()) throw Failure(usage_error("--model", "a model", "none", "name one, such as smollm2-135m"));
  const bool rows = !arguments.list("val_dataset").empty();
  auto session = open_session(arguments, model);
  const auto config = session->config;
  engine::EngineOptions options;
  options.max_model_len = arguments.maybe_integer("max_model_len").value_or(config.max_position_embeddings);
  if (options.max_model_len > config.max_position_embeddings) {
    throw Failure(usage_error("flag --max_model_len", cat("at most the model's ", config.max_position_embeddings),
                              cat(options.max_model_len), "lower it"));
  }
  options.shorten = !arguments.has("max_model_len");
  options.max_num_seqs = rows ? arguments.integer("max_batch_size") : 1;
  options.cache_dtype = cache_dtype(arguments);
  options.kv_cache_memory = static_cast<std::uint64_t>(arguments.maybe_integer("kv_cache_memory").value_or(0));
  models::LoadOptions load;
  load.max_positions = options.max_model_len;
  load_weights(*session, arguments, load);
  if (!adapters.empty()) options.adapters = models::load_adapter(session->model, "lora", adapters[0]).value().layers;
  options.compute = session->compute;
  engine::LLMEngine engine(session->model, session->text->tokenizer, options, *session->runtime);
  session::keep_bindings(engine.runner().program());
  session->runtime->choices.save();
  install_interrupt_handler();
  Answerer answerer(arguments, *session, engine);
  if (rows) return RowAnswers(arguments, answerer).run();
  Chat chat(arguments, answerer);
  return isatty(STDIN_FILENO) == 1 ? converse(chat) : answer_pipe(arguments, chat);
}

}  // namespace tern::cli
