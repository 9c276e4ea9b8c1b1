// Log lines go to a sink; `cli/` installs the one that users see. Without a sink, warnings and errors go to stderr.
#pragma once

#include <functional>
#include <string_view>

namespace tern {

enum class LogLevel { debug, info, warn, error };

using LogSink = std::function<void(LogLevel, std::string_view line)>;

void set_log_sink(LogSink sink);
void log(LogLevel level, std::string_view line);

inline void log_debug(std::string_view line) { log(LogLevel::debug, line); }
inline void log_info(std::string_view line) { log(LogLevel::info, line); }
inline void log_warn(std::string_view line) { log(LogLevel::warn, line); }

}  // namespace tern
