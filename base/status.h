// Errors that a user can cause, and the Result that carries them over a boundary.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace tern {

// The exit status of the command that ends with such an error (docs/cli.md).
enum class ErrorKind : int {
  failed = 1,        // something went wrong that no other kind names
  usage = 2,         // a wrong flag or value
  data = 3,          // a model, dataset or file that cannot be read as what it should be
  device = 4,        // no such device, or out of memory
  interrupted = 75,  // stopped by the user; what a training run had is saved, and it can be resumed
};

// What went wrong and what to do about it: a sentence (`problem`), or the place in data that is not what it should be
// (`where`, `expected`, `found`). Make one with the functions below; a line that was kept as text is a `problem` alone.
struct Error {
  Error(ErrorKind kind, std::string problem);
  Error(const Error& other);
  Error(Error&& other) noexcept;
  Error& operator=(const Error& other);
  Error& operator=(Error&& other) noexcept;
  ~Error();

  ErrorKind kind = ErrorKind::failed;
  std::string problem;   // `--text and --dataset cannot be used together`; empty where data is at fault
  std::string where;     // `data/train.jsonl:17: field "messages"`
  std::string expected;  // `an array`
  std::string found;     // `a string`
  std::string mend;      // `drop one`

  // One line without newline: `<problem>; <mend>.` or `<where>: expected <expected>, found <found>; <mend>`.
  // A sentence whose mend already ends with `.`, `?` or `!` gets no second stop.
  [[nodiscard]] std::string line() const;

  // The same error with `place: ` in front of its problem or its place.
  [[nodiscard]] Error inside(std::string_view place) const;
};

// No part may be left out: an error that does not say what to do does not compile. `problem` is a sentence without its
// stop, `mend` is what the reader can do, as a request.
[[nodiscard, gnu::cold]] Error usage_error(std::string_view problem, std::string_view mend);
[[nodiscard, gnu::cold]] Error failed_error(std::string_view problem, std::string_view mend);
[[nodiscard, gnu::cold]] Error device_error(std::string_view problem, std::string_view mend);
[[nodiscard, gnu::cold]] Error interrupted_error(std::string_view problem, std::string_view mend);
[[nodiscard, gnu::cold]] Error data_error(std::string_view where, std::string_view expected, std::string_view found,
                                          std::string_view mend);

// An Error on its way up, thrown only inside a folder and by Result::value().
class Failure : public std::exception {
 public:
  [[gnu::cold]] explicit Failure(Error error);
  Failure(const Failure& other);
  Failure& operator=(const Failure& other) = delete;
  ~Failure() override;
  [[nodiscard]] const char* what() const noexcept override { return line_.c_str(); }
  [[nodiscard]] const Error& error() const noexcept { return error_; }

 private:
  Error error_;
  std::string line_;
};

[[noreturn, gnu::cold]] void throw_failure(const Error& error);

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
    if (!ok()) throw_failure(*std::get_if<1>(&state_));
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
