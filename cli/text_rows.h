// Rows {"text"} of files, as tokenize and score read them.
#pragma once

#include <functional>
#include <string>

#include "cli/flags/arguments.h"

namespace tern::cli {

// Each text of --dataset in order with its file:line, until `take` gives false. Throws Failure: no --dataset (usage), a
// row of another format or one that cannot be read (data).
void for_each_text(const Arguments& arguments,
                   const std::function<bool(const std::string& text, const std::string& place)>& take);

}  // namespace tern::cli
