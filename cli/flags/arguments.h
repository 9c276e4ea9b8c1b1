// The flags of one run, typed, each with where its value came from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "cli/flags/flag_table.h"

namespace tern::cli {

// A size is an integer in bytes; JSON is its text; monostate: no value.
using FlagWord = std::vector<std::string>;
using FlagData = std::variant<std::monostate, std::string, std::int64_t, double, bool, FlagWord>;

// In rising order of precedence.
enum class Provenance { fallback, derived, saved, environment, config, command_line };

// The words given for `flag` as its type; `where` begins the error.
[[nodiscard]] Result<FlagData> parse_flag(const Flag& flag, std::span<const std::string> words,
                                          const std::string& where);

class Arguments {
 public:
  // Every flag of the command at its default.
  explicit Arguments(const CommandSpec& command);

  [[nodiscard]] const CommandSpec& command() const { return *command_; }

  [[nodiscard]] bool has(std::string_view name) const;      // the command has the flag, and a value, be it the default
  [[nodiscard]] bool was_set(std::string_view name) const;  // by the user: command line, config, environment
  [[nodiscard]] Provenance provenance(std::string_view name) const;
  [[nodiscard]] const FlagData& data(std::string_view name) const { return entry(name).value; }

  // The value; Failure where there is none (ask `has` first, or use the optional forms).
  [[nodiscard]] const std::string& string(std::string_view name) const;  // text, choice, JSON text
  [[nodiscard]] std::int64_t integer(std::string_view name) const;       // also bytes of a size
  [[nodiscard]] double real(std::string_view name) const;
  [[nodiscard]] bool boolean(std::string_view name) const;
  [[nodiscard]] const FlagWord& list(std::string_view name) const;                // empty where there is none
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name) const;  // of a list, or of an integer

  [[nodiscard]] std::optional<std::string> maybe_string(std::string_view name) const;
  [[nodiscard]] std::optional<std::int64_t> maybe_integer(std::string_view name) const;
  [[nodiscard]] std::optional<double> maybe_real(std::string_view name) const;
  [[nodiscard]] std::optional<bool> maybe_boolean(std::string_view name) const;

  // Sets a flag as a user would. Checks type, choices, range and what is not implemented; where the flag is only
  // accepted for other tools' scripts, a line goes to `notices`. A lower provenance never replaces a higher one.
  [[nodiscard]] Status assign(const Flag& flag, std::span<const std::string> words, Provenance provenance,
                              const std::string& where);

  // Fills in a default that the command computed, so that help's "computed" value stands in args.json.
  void derive(std::string_view name, FlagData value);

  // Takes the named flags from an args.json text where the user did not set them (`--load_args`).
  [[nodiscard]] Status load_saved(const std::string& json, const std::string& where,
                                  std::span<const std::string_view> names);

  // One flat JSON object, flags in the order of the table, absent values null: what args.json holds.
  [[nodiscard]] std::string to_json() const;

  // Lines to tell the user before the run: flags without a difference.
  [[nodiscard]] const std::vector<std::string>& notices() const { return notices_; }
  void notice(std::string line) { notices_.push_back(std::move(line)); }

 private:
  struct Entry {
    const Flag* flag = nullptr;
    FlagData value;
    Provenance provenance = Provenance::fallback;
  };
  [[nodiscard]] const Entry& entry(std::string_view name) const;
  template <typename T>
  const T& get(std::string_view name) const;
  template <typename T>
  std::optional<T> maybe(std::string_view name) const;

  const CommandSpec* command_;
  std::vector<const Flag*> flags_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<std::string> notices_;
};

}  // namespace tern::cli
