// What the user sees beside results: log lines and progress, both on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tern::cli {

// Sends base/log.h to stderr, coloured on a terminal only; with `quiet` warnings and errors alone.
void install_log_sink(bool quiet);

// The line that ends a failed command.
void print_error(std::string_view line);

[[nodiscard]] bool stderr_is_terminal();

// Seconds as `42s`, `3:05` or `1:02:03`.
[[nodiscard]] std::string clock_text(double seconds);

// Work of a known or unknown (0) number of units. On a terminal one line is redrawn; elsewhere a plain line comes every
// ten seconds and at the end.
class Progress {
 public:
  using Clock = std::function<double()>;  // seconds
  using Writer = std::function<void(std::string_view)>;

  struct Options {
    bool terminal = false;
    bool quiet = false;
    std::size_t width = 80;
    Clock clock;    // absent: the steady clock
    Writer writer;  // absent: stderr
  };

  Progress(std::string label, std::uint64_t total, std::string unit, bool quiet = false);  // as stderr is
  Progress(std::string label, std::uint64_t total, std::string unit, Options options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` units in all; `detail` stands at the end of the line (`loss 1.23`).
  void update(std::uint64_t done, std::string_view detail = {});
  // `done` units were there before this work began: they took none of its time.
  void begin_at(std::uint64_t done) { first_ = done_ = done; }
  // Takes the line off a terminal, for another to be printed; the next update draws it again.
  void clear();
  void finish();

 private:
  [[nodiscard]] std::string line(std::uint64_t done, std::string_view detail, double now) const;
  void draw(const std::string& text);

  std::string label_;
  std::uint64_t total_;
  std::string unit_;
  Options options_;
  std::uint64_t first_ = 0;
  std::uint64_t done_ = 0;
  std::string detail_;
  double begin_;
  double drawn_;
  bool finished_ = false;
};

}  // namespace tern::cli
