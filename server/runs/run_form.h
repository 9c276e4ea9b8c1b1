// The form that starts a run, as data: this folder knows no flag.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "io/json.h"

namespace tern::server {

struct FormField {
  std::string name;      // "learning_rate"
  std::string type;      // "text", "integer", "real", "boolean", "choice", "list", "json", "size"
  std::string fallback;  // the default, as it would be typed; "": none, or `computed`
  std::string computed;  // how the default is found: "from config.json"
  std::string help;
  std::vector<std::string> choices;
};

struct FormGroup {
  std::string title;
  std::vector<FormField> fields;
};

// What a user filled in, each field with its words.
using FormValues = std::vector<std::pair<std::string, std::vector<std::string>>>;

struct RunCommand {
  std::vector<std::string> words;   // of the program to start, from its path on
  std::string shown;                // as a user would type it
  std::filesystem::path directory;  // where the run writes; "": not asked for
};

struct RunForm {
  std::vector<FormGroup> groups;
  // The command of these values, judged as the command line judges them. With `make` its directory is made, below the
  // output directory. Throws Failure.
  std::function<RunCommand(const FormValues& values, bool make)> command;
};

[[nodiscard]] io::Json form_json(const RunForm& form);
// The body of a request: {"flags": {"model": "a", "dataset": ["b", "c"]}}. Throws Failure (data).
[[nodiscard]] FormValues form_values(const RunForm& form, const std::string& body);

}  // namespace tern::server
