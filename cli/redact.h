// Taking secrets out of what goes into a bug report.
#pragma once

#include <string>
#include <string_view>

namespace tern::cli {

// The text without what grants access or names a person: tokens in the forms that hubs and clouds give them, values
// behind words like token, secret or password, credentials in URLs, the home folder (`~`) and the host's name (`HOST`).
[[nodiscard]] std::string redact(std::string_view text);

// Whether a variable of that name holds a secret: its value is shown to nobody.
[[nodiscard]] bool is_secret_name(std::string_view name);

}  // namespace tern::cli
