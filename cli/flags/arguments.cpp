#include "cli/flags/arguments.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "base/strings.h"
#include "cli/json_text.h"

namespace tern::cli {
namespace {

std::vector<std::string> words_of(const Flag& flag, std::string_view typed) {
  if (typed.empty()) return {};
  if (flag.type != FlagType::list) return {std::string(typed)};
  std::vector<std::string> words;
  for (const auto word : split(typed, ' ')) words.emplace_back(word);
  return words;
}

std::string as_text(const FlagData& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return cat(*number);
  if (const auto* real = std::get_if<double>(&value)) return cat(*real);
  if (const auto* truth = std::get_if<bool>(&value)) return cat(*truth);
  if (const auto* words = std::get_if<FlagWord>(&value)) return join(*words, " ");
  return {};
}

std::string as_json(const Flag& flag, const FlagData& value) {
  if (flag.secret) return "null";
  if (std::holds_alternative<std::monostate>(value)) return flag.type == FlagType::list ? "[]" : "null";
  if (const auto* words = std::get_if<FlagWord>(&value)) {
    std::vector<std::string> quoted;
    for (const auto& word : *words) quoted.push_back(json_quote(word));
    return cat("[", join(quoted, ", "), "]");
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    return flag.type == FlagType::json && is_json_object(*text) ? *text : json_quote(*text);
  }
  return as_text(value);
}

}  // namespace

Arguments::Arguments(const CommandSpec& command) : command_(&command), flags_(command_flags(command)) {
  for (const Flag* flag : flags_) {
    Entry entry{flag, {}, Provenance::fallback};
    const auto words = words_of(*flag, contract_default(command, *flag));
    if (!words.empty()) entry.value = parse_flag(*flag, words, cat("flag table: default of --", flag->name)).value();
    entries_.emplace(flag->name, std::move(entry));
  }
}

const Arguments::Entry& Arguments::entry(std::string_view name) const {
  const auto it = entries_.find(name);
  if (it == entries_.end()) {
    throw std::logic_error(cat("tern ", command_->name, " has no flag --", name));
  }
  return it->second;
}

bool Arguments::has(std::string_view name) const {
  const auto it = entries_.find(name);
  return it != entries_.end() && !std::holds_alternative<std::monostate>(it->second.value);
}

bool Arguments::was_set(std::string_view name) const { return provenance(name) >= Provenance::environment; }
Provenance Arguments::provenance(std::string_view name) const { return entry(name).provenance; }

template <typename T>
const T& Arguments::get(std::string_view name) const {
  const auto* value = std::get_if<T>(&entry(name).value);
  if (value == nullptr) {
    throw Failure(
        usage_error(cat("tern ", command_->name, " needs --", name), cat("see tern ", command_->name, " --help")));
  }
  return *value;
}

template <typename T>
std::optional<T> Arguments::maybe(std::string_view name) const {
  if (!has(name)) return std::nullopt;
  return get<T>(name);
}

const std::string& Arguments::string(std::string_view name) const { return get<std::string>(name); }
std::int64_t Arguments::integer(std::string_view name) const { return get<std::int64_t>(name); }
double Arguments::real(std::string_view name) const { return get<double>(name); }
bool Arguments::boolean(std::string_view name) const { return get<bool>(name); }

const FlagWord& Arguments::list(std::string_view name) const {
  static const FlagWord kNone;
  return has(name) ? get<FlagWord>(name) : kNone;
}

std::vector<std::int64_t> Arguments::integers(std::string_view name) const {
  if (std::holds_alternative<std::int64_t>(entry(name).value)) return {integer(name)};
  std::vector<std::int64_t> numbers;
  for (const auto& word : list(name)) {
    const char* digits = word.data() + (word.starts_with('+') ? 1 : 0);
    std::int64_t value = 0;
    const auto result = std::from_chars(digits, word.data() + word.size(), value);
    if (result.ec != std::errc{} || result.ptr != word.data() + word.size()) {
      throw std::logic_error(cat("flag table: --", name, " has no range, so \"", word, "\" was let through"));
    }
    numbers.push_back(value);
  }
  return numbers;
}

std::optional<std::string> Arguments::maybe_string(std::string_view name) const { return maybe<std::string>(name); }
std::optional<std::int64_t> Arguments::maybe_integer(std::string_view name) const { return maybe<std::int64_t>(name); }
std::optional<double> Arguments::maybe_real(std::string_view name) const { return maybe<double>(name); }
std::optional<bool> Arguments::maybe_boolean(std::string_view name) const { return maybe<bool>(name); }

Status Arguments::assign(const Flag& flag, std::span<const std::string> words, Provenance provenance,
                         const std::string& where) {
  auto& slot = entries_.at(std::string(flag.name));
  if (slot.provenance > provenance) return Unit{};
  auto parsed = parse_flag(flag, words, where);
  if (!parsed) return parsed.error();
  if (const auto why = why_no_effect(*command_, flag.name); why && *parsed != slot.value) {
    return usage_error(cat(where, " has no effect in tern ", command_->name, ": ", *why), "remove it");
  }
  const auto text = as_text(*parsed);
  for (const auto& word : words.empty() ? std::vector<std::string>{text} : FlagWord(words.begin(), words.end())) {
    if (is_pending_value(*command_, flag.name, word)) {
      return usage_error(cat(where, " cannot be \"", word, "\", which is not implemented yet"),
                         "remove it");
    }
  }
  if (is_pending(*command_, flag.name) && *parsed != slot.value) {
    return usage_error(cat(where, " is not implemented yet"), "remove it");
  }
  if (!flag.explanation.empty()) notice(cat("--", flag.name, " ", text, " makes no difference: ", flag.explanation));
  slot.value = std::move(*parsed);
  slot.provenance = provenance;
  return Unit{};
}

void Arguments::derive(std::string_view name, FlagData value) {
  (void)entry(name);
  auto& slot = entries_.find(name)->second;
  slot.value = std::move(value);
  slot.provenance = std::max(slot.provenance, Provenance::derived);
}

Status Arguments::load_saved(const std::string& json, const std::string& where,
                             std::span<const std::string_view> names) {
  auto fields = read_fields(json, where);
  if (!fields) return fields.error();
  for (const auto& field : *fields) {
    if (field.words.empty() || std::find(names.begin(), names.end(), field.key) == names.end()) continue;
    const Flag* flag = find_flag(*command_, field.key);
    if (flag == nullptr) continue;
    const auto status = assign(*flag, field.words, Provenance::saved, cat(where, ": ", field.key));
    if (!status) return status.error();
  }
  return Unit{};
}

std::string Arguments::to_json() const {
  std::string out = "{\n";
  for (std::size_t i = 0; i < flags_.size(); ++i) {
    const auto& slot = entry(flags_[i]->name);
    out += cat("  ", json_quote(flags_[i]->name), ": ", as_json(*slot.flag, slot.value));
    out += i + 1 < flags_.size() ? ",\n" : "\n";
  }
  return out + "}\n";
}

}  // namespace tern::cli
