#include "base/status.h"

namespace tern {
namespace {

// A message is one line: control characters of foreign text must not break it.
void append_clean(std::string& out, const std::string& part) {
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

Error make(ErrorKind kind, std::string where, std::string expected, std::string found, std::string mend) {
  return Error{kind, std::move(where), std::move(expected), std::move(found), std::move(mend)};
}

}  // namespace

std::string Error::line() const {
  std::string out;
  append_clean(out, where);
  if (!expected.empty()) {
    out += out.empty() ? "expected " : ": expected ";
    append_clean(out, expected);
  }
  if (!found.empty()) {
    out += expected.empty() ? (out.empty() ? "" : ": ") : ", found ";
    append_clean(out, found);
  }
  if (!mend.empty()) {
    out += out.empty() ? "" : "; ";
    append_clean(out, mend);
  }
  return out;
}

Error usage_error(std::string where, std::string expected, std::string found, std::string mend) {
  return make(ErrorKind::usage, std::move(where), std::move(expected), std::move(found), std::move(mend));
}
Error data_error(std::string where, std::string expected, std::string found, std::string mend) {
  return make(ErrorKind::data, std::move(where), std::move(expected), std::move(found), std::move(mend));
}
Error device_error(std::string where, std::string expected, std::string found, std::string mend) {
  return make(ErrorKind::device, std::move(where), std::move(expected), std::move(found), std::move(mend));
}
Error failed_error(std::string where, std::string expected, std::string found, std::string mend) {
  return make(ErrorKind::failed, std::move(where), std::move(expected), std::move(found), std::move(mend));
}

}  // namespace tern
