// The folders that trackers (wandb, SwanLab) keep their runs in: one a run, named by its time and its id.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tern::train {

// Seconds since 1970.
[[nodiscard]] double wall_time();
// "localhost" where it isn't told.
[[nodiscard]] std::string host_name();

// The newest folder of a run with that id, `*-ID`; "": none.
[[nodiscard]] std::filesystem::path find_run_folder(const std::filesystem::path& root, std::string_view id);
// <prefix>YYYYMMDD_HHMMSS-<id>, by the local clock, as both tools name them.
[[nodiscard]] std::string run_folder_name(std::string_view prefix, std::string_view id);
// An id of eight characters, as both tools make them, of a run's own: a run that resumes has the same.
[[nodiscard]] std::string short_run_id(std::string_view run_id);

// google.protobuf.Timestamp.
[[nodiscard]] std::string timestamp_message(double seconds);
// The time of such a message; 0 where it has none.
[[nodiscard]] double time_of(std::string_view timestamp_message);

// The text of a file; "" where it can't be read.
[[nodiscard]] std::string file_text(const std::filesystem::path& file);

}  // namespace tern::train
