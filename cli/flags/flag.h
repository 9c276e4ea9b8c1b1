// What one row of the flag table says, and what one command makes of the rows.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace tern::cli {

class Arguments;

// Runs a command and gives its exit status. Results go to stdout, all else through base/log.h; a Failure ends it with
// the error line and the status of its kind.
using CommandFunction = int (*)(const Arguments& arguments);

enum class FlagType {
  text,
  integer,
  real,
  boolean,
  choice,
  list,  // several words
  json,  // JSON text, or a name where `choices` lists some
  size,  // bytes, with an optional unit: 5GB = 5 * 10^9, 5GiB = 5 * 2^30
};

// One flag. Empty fields are absent; every text is what the user types or reads.
struct Flag {
  std::string_view name;
  FlagType type = FlagType::text;
  std::string_view fallback = {};  // the default, as the user would type it
  std::string_view help = {};
  std::string_view computed = {};     // how the default is found where it is no constant: `from config.json`
  std::string_view choices = {};      // `lora|full`; for a list, of each word
  std::string_view range = {};        // of a number, of each word of a list: `[0,1)`, `(0,inf)`
  std::string_view aliases = {};      // `dtype`
  std::string_view env = {};          // variables that set it where nothing else does: `USE_HF`
  std::string_view explanation = {};  // the flag is accepted, changes nothing, and this line says why
  std::string_view effect = {};       // conditions (condition.h) without which it is refused: `lora new_adapter`
  std::string_view told = {};         // ... answered by a line: other tools' scripts pass such a flag always
  bool secret = false;                // never written to args.json
};

struct FlagGroup {
  std::string_view name;
  std::string_view title;
  std::span<const Flag> flags;
};

struct FlagValue {
  std::string_view flag;
  std::string_view value;
};

struct NoEffect {
  std::string_view flag;
  std::string_view why;
};

// When a flag of a shared group has an effect in one command, beside what its own row says.
struct FlagEffect {
  std::string_view flag;
  std::string_view effect;
  std::string_view told = {};
};

// One command: the groups it shares with others and how it differs from them.
struct CommandSpec {
  std::string_view name;
  std::string_view summary;
  std::vector<std::string_view> groups;
  std::vector<std::string_view> positional = {};  // flags that may be given by place
  std::vector<FlagValue> defaults = {};           // this command's own defaults
  std::vector<std::string_view> pending = {};     // not implemented yet: `deepspeed`, or one value: `optim=sgd`
  std::vector<NoEffect> no_effect = {};           // in a group of the command, yet without effect in it
  std::vector<FlagEffect> effects = {};
  std::string_view example = {};                           // runs on the embedded model
  Arguments (*prepare)(const Arguments& given) = nullptr;  // fills in what other flags name, before effects are judged
  CommandFunction run = nullptr;                           // null: not implemented yet
};

}  // namespace tern::cli
