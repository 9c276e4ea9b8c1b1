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

Error sentence(ErrorKind kind, std::string problem, std::string mend) {
  return {kind, std::move(problem), {}, {}, {}, std::move(mend)};
}

}  // namespace

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

Error usage_error(std::string problem, std::string mend) {
  return sentence(ErrorKind::usage, std::move(problem), std::move(mend));
}
Error failed_error(std::string problem, std::string mend) {
  return sentence(ErrorKind::failed, std::move(problem), std::move(mend));
}
Error device_error(std::string problem, std::string mend) {
  return sentence(ErrorKind::device, std::move(problem), std::move(mend));
}
Error interrupted_error(std::string problem, std::string mend) {
  return sentence(ErrorKind::interrupted, std::move(problem), std::move(mend));
}
Error data_error(std::string where, std::string expected, std::string found, std::string mend) {
  return {ErrorKind::data, {}, std::move(where), std::move(expected), std::move(found), std::move(mend)};
}

}  // namespace tern
