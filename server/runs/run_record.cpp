#include "server/runs/run_record.h"

#include "io/file_writer.h"
#include "io/json.h"
#include "io/mapped_file.h"

namespace tern::server {
namespace {

using io::Json;

constexpr std::uint64_t kLargest = 1U << 20;

std::optional<std::int64_t> integer_of(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value != nullptr && value->is_number_integer() ? std::optional(value->get<std::int64_t>()) : std::nullopt;
}

}  // namespace

std::optional<RunRecord> read_record(const std::filesystem::path& folder) {
  const auto text = io::read_text_file(folder / kRunRecord, kLargest);
  if (!text) return std::nullopt;
  const auto json = io::parse_json(*text, kRunRecord);
  const auto pid = json ? integer_of(*json, "pid") : std::nullopt;
  if (!pid) return std::nullopt;
  RunRecord record;
  record.process = {*pid, static_cast<std::uint64_t>(integer_of(*json, "process_start").value_or(0))};
  const Json* command = json->find("command");
  if (command != nullptr && command->is_string()) record.command = command->text();
  const Json* flags = json->find("flags");
  if (flags != nullptr) record.flags = *flags;
  const Json* stopping = json->find("stopping");
  record.stopping = stopping != nullptr && stopping->is_boolean() && stopping->get<bool>();
  if (const auto status = integer_of(*json, "exit_status")) record.status = static_cast<int>(*status);
  return record;
}

Status write_record(const std::filesystem::path& folder, const RunRecord& record) {
  Json json = Json::object();
  json["command"] = record.command;
  json["flags"] = record.flags;
  json["pid"] = record.process.pid;
  json["process_start"] = record.process.born;
  json["stopping"] = record.stopping;
  json["exit_status"] = record.status ? Json(*record.status) : Json();
  return io::replace_file(folder / kRunRecord, json.dump(2) + "\n");
}

}  // namespace tern::server
