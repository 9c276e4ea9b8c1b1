// When a flag has an effect. A row of the flag table names conditions (`effect = "lora new_adapter"`); what they mean,
// and what the user reads where one does not hold, stands in the table here.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/flags/arguments.h"

namespace tern::cli {

struct Condition {
  std::string_view name;
  std::string_view flags;           // what it looks at: `val_dataset|split_dataset_ratio`
  bool (*holds)(const Arguments&);  // asked where the command has one of `flags`; elsewhere the condition holds
  std::string_view needs;           // `--tuner_type lora`; `no --adapters`
  std::string_view why;             // where it does not hold: `no LoRA adapter is trained`; may be empty
  std::string_view mend = "remove it";
  std::string_view verb = "has no effect";  // of the flag that is refused: `and --dataset cannot be used together`
};

[[nodiscard]] const std::vector<Condition>& conditions();

// The conditions under which a flag has an effect in a command: those of its own row, then those of the command's.
struct EffectOf {
  std::vector<const Condition*> refused;  // where one fails, the flag is an error
  std::vector<const Condition*> told;     // where one fails, the flag is answered by a line
};
[[nodiscard]] EffectOf effect_of(const CommandSpec& command, const Flag& flag);

// Judges every flag that the command line or the config file sets to anything but its off value (false, 0, no); a
// variable may stand in the environment of any command. Lines go to the notices. Errors
// (usage): a flag without effect, or two that contradict each other.
[[nodiscard]] Status check_effects(Arguments& arguments);

}  // namespace tern::cli
