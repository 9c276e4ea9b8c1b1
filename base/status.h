// Errors that a user can cause, and the Result that carries them over a boundary.
#pragma once

#include <exception>
#include <string>
#include <utility>
#include <variant>

namespace tern {

// The exit status of the command that ends with such an error (docs/cli.md).
enum class ErrorKind : int {
  failed = 1,        // something went wrong that no other kind names
  usage = 2,         // a wrong flag or value
  data = 3,          // a model, dataset or file that cannot be read as what it should be
  device = 4,        // no such device, or out of memory
  interrupted = 75,  // stopped after saving; can be resumed
};

// Says where, what was expected, what was found and the mend. Empty parts are left out of the line.
struct Error {
  ErrorKind kind = ErrorKind::failed;
  std::string where;     // `data/train.jsonl:17: field "messages"`
  std::string expected;  // `an array`
  std::string found;     // `a string`
  std::string mend;      // `quote the field as JSON`

  // One line without newline: `<where>: expected <expected>, found <found>; <mend>`.
  [[nodiscard]] std::string line() const;
};

// Where the code makes an error. A function that makes errors for its callers takes `Site site = Site::current()` and
// hands it on, so that each caller is a site of its own. With TERN_ERROR_SITES=FILE in the environment each error made
// adds the line `file:line parts` to FILE, parts being letters of those that are not empty (w e f m): how the test
// suite proves that it has made every error (tests/errors).
struct Site {
  const char* file;
  unsigned line;
  static constexpr Site current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};  // not std::source_location: clang 14 has none
  }
};

[[nodiscard]] Error usage_error(std::string where, std::string expected, std::string found, std::string mend = {},
                                Site site = Site::current());
[[nodiscard]] Error data_error(std::string where, std::string expected, std::string found, std::string mend = {},
                               Site site = Site::current());
[[nodiscard]] Error device_error(std::string where, std::string expected, std::string found, std::string mend = {},
                                 Site site = Site::current());
[[nodiscard]] Error failed_error(std::string where, std::string expected, std::string found, std::string mend = {},
                                 Site site = Site::current());
[[nodiscard]] Error interrupted_error(std::string found, std::string mend, Site site = Site::current());

// An Error on its way up, thrown only inside a folder and by Result::value().
class Failure : public std::exception {
 public:
  explicit Failure(Error error) : error_(std::move(error)), line_(error_.line()) {}
  [[nodiscard]] const char* what() const noexcept override { return line_.c_str(); }
  [[nodiscard]] const Error& error() const noexcept { return error_; }

 private:
  Error error_;
  std::string line_;
};

struct Unit {};

// A value or the Error in its place.
template <typename T = Unit>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  // The value; throws Failure where there is none.
  T& value() & { return require(), *std::get_if<0>(&state_); }
  const T& value() const& { return require(), *std::get_if<0>(&state_); }  // NOLINT(modernize-use-nodiscard)
  T value() && { return require(), std::move(*std::get_if<0>(&state_)); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const { return std::get<1>(state_); }

 private:
  void require() const {
    if (!ok()) throw Failure(*std::get_if<1>(&state_));
  }
  std::variant<T, Error> state_;
};

using Status = Result<Unit>;

// Runs `body` and turns a Failure thrown inside it into the Result's Error.
template <typename Body>
auto catching(Body&& body) -> Result<decltype(body())> {
  try {
    return body();
  } catch (const Failure& failure) {
    return failure.error();
  }
}

}  // namespace tern
