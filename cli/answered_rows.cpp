#include "cli/answered_rows.h"

#include <array>

#include "base/log.h"
#include "base/strings.h"
#include "cli/result_writer.h"
#include "io/file_writer.h"
#include "io/json.h"
#include "io/json_field.h"
#include "io/mapped_file.h"
#include "io/system_error.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;
using Json = io::Json;

// What no answer depends on: a stopped run may be gone on with under other values of these.
constexpr std::array<std::string_view, 12> kFree = {"quiet",     "strict",          "metric",    "max_batch_size",
                                                    "threads",   "result_path",     "stream",    "dataset_num_proc",
                                                    "hub_token", "kv_cache_memory", "load_args", "load_data_args"};

constexpr const char* kResultMend = "write to another file, or remove the mark to answer all rows anew behind these";

// None where rows go to a pipe, a terminal or a device, which hold nothing to go on behind; beside /dev/stdout a user
// may not write anyway.
fs::path mark_of(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) return {};
  return path.string() + ".unfinished";
}

Json told_of(const Arguments& arguments) {
  Json told = io::parse_json(arguments.to_json(), "flags").value();
  for (const std::string_view name : kFree) told.erase(name);
  return told;
}

}  // namespace

AnsweredRows::AnsweredRows(const fs::path& path, const Arguments& arguments, Responses responses)
    : path_(path), mark_(mark_of(path)), responses_(responses) {
  const Json told = told_of(arguments);
  std::error_code error;
  if (fs::exists(mark_, error)) {
    resume(told);
    return;
  }
  const auto size = fs::file_size(path_, error);
  begin_with(told, error ? std::uintmax_t{0} : size);
}

void AnsweredRows::begin_with(const Json& told, std::uintmax_t begin) const {
  if (mark_.empty()) return;
  const Json mark = {{"begin", begin}, {"told", told}};
  io::replace_file(mark_, mark.dump() + "\n").value();
}

void AnsweredRows::resume(const Json& told) {
  const Json mark = io::read_json_file(mark_).value();
  const auto field = io::JsonField(mark, mark_.string(), "remove it to answer all rows anew behind these");
  const auto begin = field.at("begin").natural();
  std::error_code error;
  const std::uintmax_t size = fs::exists(path_, error) ? fs::file_size(path_, error) : 0;
  if (size == begin) return begin_with(told, begin);  // that run wrote nothing: none of it binds this one
  for (const auto& [name, value] : field.at("told").object()) {
    const Json* given = told.find(name);
    if (given != nullptr && *given == value) continue;
    throw Failure(usage_error(
        cat("the run that was stopped while it wrote ", path_.string(), " had --", name, " ", value.dump(), ", not ",
            given == nullptr ? std::string("none") : given->dump()),
        cat("give it again to go on, or remove ", mark_.string(), " to answer all rows anew behind these")));
  }
  if (size < begin) {
    throw Failure(data_error(path_.string(), cat("at least the ", begin, " bytes that it had when the run began"),
                             cat(size, " bytes"),
                             cat("remove ", mark_.string(), " to answer all rows anew behind these")));
  }
  file_.open(path_, std::ios::binary);
  file_.seekg(static_cast<std::streamoff>(begin));
  std::uintmax_t whole = begin;
  for (std::string line; std::getline(file_, line) && !file_.eof(); ++count_) whole += line.size() + 1;
  if (whole < size) fs::resize_file(path_, whole, error);
  if (error) throw Failure(io::write_error(path_.string(), error.value()));
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(begin));
  log_info(
      cat(path_.string(), ": ", count_, " rows were answered before that run was stopped; it goes on behind them"));
}

void AnsweredRows::require_no_mark(const fs::path& path) {
  const fs::path mark = mark_of(path);
  std::error_code error;
  if (!fs::exists(mark, error)) return;
  throw Failure(usage_error(cat("a run that was stopped left ", mark.string(), ", and goes on in that file"),
                            "write to another file, or remove the mark"));
}

std::string AnsweredRows::place() const { return cat(path_.string(), ": answer ", given_); }

std::optional<AnsweredRow> AnsweredRows::next() {
  if (given_ == count_) return std::nullopt;
  std::string line;
  std::getline(file_, line);
  ++given_;
  const Json row = io::parse_json(line, place()).value();
  const auto field = io::JsonField(row, place(), kResultMend);
  AnsweredRow out;
  out.messages = field.at("messages").json().dump();
  const auto images = field.find("images");
  out.images = images ? images->json().dump() : "[]";
  if (const auto response = field.find("response")) {
    const bool is_text = responses_ == Responses::texts || response->json().is_string();
    out.response = is_text ? std::string(response->text()) : response->json().dump();
  }
  if (const auto label = field.find("labels")) out.label = label->text();
  if (const auto error = field.find("error")) out.error = error->text();
  return out;
}

Failure AnsweredRows::not_answering(std::string expected, std::string found) const {
  return Failure(
      data_error(place(), std::move(expected), std::move(found),
                 cat("answer the rows as they were, or remove ", mark_.string(), " to answer all of them anew")));
}

std::optional<AnsweredRow> AnsweredRows::take(const Question& question) {
  auto row = next();
  if (row && (row->messages != messages_json(question.dialogue) || row->images != images_json(question.dialogue) ||
              row->label != question.label))
    throw not_answering(cat("the answer to ", question.place), "that to another question");
  return row;
}

void AnsweredRows::finish(std::int64_t rows) {
  if (next()) throw not_answering(cat("answers to the ", rows, " rows of --val_dataset"), "one more");
  std::error_code error;
  if (!fs::remove(mark_, error) && error) throw Failure(io::write_error(mark_.string(), error.value()));
}

}  // namespace tern::cli
