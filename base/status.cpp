#include "base/status.h"

namespace tern {
namespace {

// A message is one line: control characters of foreign text must not break it.
void append_clean(std::string& out, std::string_view part) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
}

Error sentence(ErrorKind kind, std::string_view problem, std::string_view mend) {
  Error error(kind, std::string(problem));
  error.mend = mend;
  return error;
}

}  // namespace

// Here and not in the header: nearly every source throws, returns or destroys one.
Error::Error(ErrorKind of, std::string what) : kind(of), problem(std::move(what)) {}
Error::Error(const Error& other) = default;
Error::Error(Error&& other) noexcept = default;
Error& Error::operator=(const Error& other) = default;
Error& Error::operator=(Error&& other) noexcept = default;
Error::~Error() = default;

Failure::Failure(Error error) : error_(std::move(error)), line_(error_.line()) {}
Failure::Failure(const Failure& other) = default;
Failure::~Failure() = default;

void throw_failure(const Error& error) { throw Failure(error); }

std::string Error::line() const {
  std::string out;
  if (!problem.empty()) {
    append_clean(out, problem);
    if (mend.empty()) return out;
    out += "; ";
    append_clean(out, mend);
    if (std::string_view(".?!").find(out.back()) == std::string_view::npos) out += '.';
    return out;
  }
  append_clean(out, where);
  out += ": expected ";
  append_clean(out, expected);
  out += ", found ";
  append_clean(out, found);
  out += "; ";
  append_clean(out, mend);
  return out;
}

Error Error::inside(std::string_view place) const {
  Error out = *this;
  auto& front = problem.empty() ? out.where : out.problem;
  front.insert(0, ": ").insert(0, place);
  return out;
}

Error usage_error(std::string_view problem, std::string_view mend) { return sentence(ErrorKind::usage, problem, mend); }
Error failed_error(std::string_view problem, std::string_view mend) {
  return sentence(ErrorKind::failed, problem, mend);
}
Error device_error(std::string_view problem, std::string_view mend) {
  return sentence(ErrorKind::device, problem, mend);
}
Error interrupted_error(std::string_view problem, std::string_view mend) {
  return sentence(ErrorKind::interrupted, problem, mend);
}
Error data_error(std::string_view where, std::string_view expected, std::string_view found, std::string_view mend) {
  Error error = sentence(ErrorKind::data, {}, mend);
  error.where = where;
  error.expected = expected;
  error.found = found;
  return error;
}

}  // namespace tern
