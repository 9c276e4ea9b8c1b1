#include "train/reporting/run_folder.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <utility>

#include "base/strings.h"
#include "io/mapped_file.h"
#include "train/reporting/wire.h"

namespace tern::train {

namespace fs = std::filesystem;

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) return "localhost";
  return host.data();
}

fs::path find_run_folder(const fs::path& root, std::string_view id) {
  fs::path newest;
  std::error_code none;
  const std::string ending = cat("-", id);
  for (const auto& entry : fs::directory_iterator(root, none)) {
    const bool is_run = entry.path().filename().string().ends_with(ending) && !entry.is_symlink(none);
    if (is_run && entry.path() > newest) newest = entry.path();
  }
  return newest;
}

std::string run_folder_name(std::string_view prefix, std::string_view id) {
  const auto now = static_cast<std::time_t>(wall_time());
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> stamp{};
  std::strftime(stamp.data(), stamp.size(), "%Y%m%d_%H%M%S", &local);
  return cat(prefix, std::string_view(stamp.data()), "-", id);
}

std::string short_run_id(std::string_view run_id) { return std::string(run_id.substr(0, 8)); }

std::string timestamp_message(double seconds) {
  const double whole = std::floor(seconds);
  WireMessage message;
  message.integer(1, static_cast<std::int64_t>(whole)).integer(2, static_cast<std::int64_t>((seconds - whole) * 1e9));
  return message.bytes();
}

double time_of(std::string_view timestamp_message) {
  const auto seconds = find_field(timestamp_message, 1);
  const auto nanoseconds = find_field(timestamp_message, 2);
  return (seconds ? static_cast<double>(seconds->value) : 0.0) +
         (nanoseconds ? static_cast<double>(nanoseconds->value) * 1e-9 : 0.0);
}

std::string file_text(const fs::path& file) {
  auto text = io::read_text_file(file);
  return text ? std::move(*text) : std::string();
}

}  // namespace tern::train
