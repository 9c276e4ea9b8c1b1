#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/log.h"
#include "base/strings.h"

namespace tern::cli {
namespace {

constexpr double kRedraw = 0.1;   // seconds
constexpr double kPlain = 10.0;   // seconds
constexpr std::size_t kBar = 24;  // columns

bool colours() {
  const char* none = std::getenv("NO_COLOR");
  return stderr_is_terminal() && (none == nullptr || *none == '\0');
}

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    default:
      return spdlog::level::info;
  }
}

std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
  return 80;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string rate_text(double rate, std::string_view unit) {
  return rate >= 1 || rate <= 0 ? cat(fixed(rate, rate < 100 ? 1 : 0), " ", unit, "/s")
                                : cat(fixed(1 / rate, 1), " s/", unit);
}

}  // namespace

void install_log_sink(bool quiet) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(colours() ? spdlog::color_mode::always
                                                                              : spdlog::color_mode::never);
  auto logger = std::make_shared<spdlog::logger>("tern", std::move(sink));
  logger->set_level(quiet ? spdlog::level::warn : spdlog::level::info);
  set_log_sink([logger = std::move(logger)](LogLevel level, std::string_view line) {
    // Plain lines for what is normal; the level is named, and coloured, where something is not.
    logger->set_pattern(level >= LogLevel::warn ? "tern: %^%l%$: %v" : "%v");
    logger->log(level_of(level), line);
    logger->flush();
  });
}

void print_error(std::string_view line) {
  const bool colour = colours();
  std::fprintf(stderr, "tern: %serror%s: %.*s\n", colour ? "\x1b[31m" : "", colour ? "\x1b[0m" : "",
               static_cast<int>(line.size()), line.data());
}

bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

std::string clock_text(double seconds) {
  const auto all = static_cast<std::uint64_t>(std::clamp(seconds, 0.0, 3.6e8));
  if (all < 60) return cat(all, "s");
  const auto two = [](std::uint64_t value) { return cat(value < 10 ? "0" : "", value); };
  const auto minutes = all / 60;
  if (minutes < 60) return cat(minutes, ":", two(all % 60));
  return cat(minutes / 60, ":", two(minutes % 60), ":", two(all % 60));
}

Progress::Progress(std::string label, std::uint64_t total, std::string unit, bool quiet)
    : Progress(std::move(label), total, std::move(unit),
               Options{stderr_is_terminal(), quiet, terminal_width(), {}, {}}) {}

Progress::Progress(std::string label, std::uint64_t total, std::string unit, Options options)
    : label_(std::move(label)), total_(total), unit_(std::move(unit)), options_(std::move(options)) {
  if (!options_.clock) options_.clock = steady_seconds;
  if (!options_.writer) {
    options_.writer = [](std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), stderr);
      std::fflush(stderr);
    };
  }
  begin_ = options_.clock();
  drawn_ = options_.terminal ? begin_ - kRedraw : begin_;
}

Progress::~Progress() { finish(); }

std::string Progress::line(std::uint64_t done, std::string_view detail, double now) const {
  const double elapsed = std::max(now - begin_, 1e-9);
  const double rate = static_cast<double>(done - first_) / elapsed;
  std::string out = label_;
  if (total_ != 0) {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
    if (options_.terminal) {
      const auto filled = static_cast<std::size_t>(share * static_cast<double>(kBar));
      out += cat(" [", std::string(filled, '#'), std::string(kBar - filled, '.'), "]");
    }
    out += cat(" ", done, "/", total_, " ", unit_, " ", fixed(share * 100, 0), "%");
  } else {
    out += cat(" ", done, " ", unit_);
  }
  out += cat(" ", rate_text(rate, unit_), " ", clock_text(elapsed));
  if (total_ > done && done > first_) out += cat(" left ", clock_text(static_cast<double>(total_ - done) / rate));
  if (!detail.empty()) out += cat(" ", detail);
  if (options_.terminal && out.size() >= options_.width) out.resize(options_.width - 1);
  return out;
}

void Progress::draw(const std::string& text) {
  options_.writer(options_.terminal ? cat("\r\x1b[K", text) : cat(text, "\n"));
}

void Progress::update(std::uint64_t done, std::string_view detail) {
  done_ = done;
  detail_ = detail;
  const double now = options_.clock();
  if (options_.quiet || finished_ || now - drawn_ < (options_.terminal ? kRedraw : kPlain)) return;
  drawn_ = now;
  draw(line(done, detail, now));
}

void Progress::clear() {
  if (options_.terminal && !options_.quiet && !finished_ && done_ != 0) options_.writer("\r\x1b[K");
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  if (options_.quiet || done_ == 0) return;
  draw(line(done_, detail_, options_.clock()));
  if (options_.terminal) options_.writer("\n");
}

}  // namespace tern::cli
