#include "base/status.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

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

void record(const Error& error, Site site) {
  static const char* const path = std::getenv("TERN_ERROR_SITES");
  if (path == nullptr) return;
  std::string line = std::string(site.file) + ':' + std::to_string(site.line) + ' ';
  if (!error.where.empty()) line += 'w';
  if (!error.expected.empty()) line += 'e';
  if (!error.found.empty()) line += 'f';
  if (!error.mend.empty()) line += 'm';
  // Once a process: a fuzzer makes some errors a million times.
  static std::mutex mutex;
  static std::set<std::string> known;
  const std::lock_guard lock(mutex);
  if (!known.insert(line).second) return;
  std::FILE* file = std::fopen(path, "a");
  if (file == nullptr) return;
  std::fprintf(file, "%s\n", line.c_str());  // one write of one short line: lines of several processes do not mix
  std::fclose(file);
}

Error make(ErrorKind kind, std::string where, std::string expected, std::string found, std::string mend, Site site) {
  Error error{kind, std::move(where), std::move(expected), std::move(found), std::move(mend)};
  record(error, site);
  return error;
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

Error usage_error(std::string where, std::string expected, std::string found, std::string mend, Site site) {
  return make(ErrorKind::usage, std::move(where), std::move(expected), std::move(found), std::move(mend), site);
}
Error data_error(std::string where, std::string expected, std::string found, std::string mend, Site site) {
  return make(ErrorKind::data, std::move(where), std::move(expected), std::move(found), std::move(mend), site);
}
Error device_error(std::string where, std::string expected, std::string found, std::string mend, Site site) {
  return make(ErrorKind::device, std::move(where), std::move(expected), std::move(found), std::move(mend), site);
}
Error failed_error(std::string where, std::string expected, std::string found, std::string mend, Site site) {
  return make(ErrorKind::failed, std::move(where), std::move(expected), std::move(found), std::move(mend), site);
}
Error interrupted_error(std::string found, std::string mend, Site site) {
  return make(ErrorKind::interrupted, "interrupted", {}, std::move(found), std::move(mend), site);
}

}  // namespace tern
