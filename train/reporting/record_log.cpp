#include "train/reporting/record_log.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>

#include "base/log.h"
#include "base/strings.h"
#include "io/checksum.h"
#include "io/file_writer.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 32768;
constexpr std::size_t kHead = 7;  // of a piece: CRC-32, length, kind

enum class Kind : std::uint8_t { full = 1, first = 2, middle = 3, last = 4 };

std::uint32_t checksum(Kind kind, std::string_view bytes) {
  std::string told(1, static_cast<char>(kind));
  told += bytes;
  return io::crc32(std::as_bytes(std::span(told)));
}

void append_piece(std::string& out, Kind kind, std::string_view bytes) {
  const std::uint32_t crc = checksum(kind, bytes);
  for (int byte = 0; byte < 4; ++byte) out += static_cast<char>(crc >> 8 * byte);
  out += static_cast<char>(bytes.size());
  out += static_cast<char>(bytes.size() >> 8);
  out += static_cast<char>(kind);
  out += bytes;
}

struct Piece {
  Kind kind;
  std::string_view bytes;
};

// The piece at a place, which moves behind it.
std::optional<Piece> take_piece(std::string_view file, std::size_t& at) {
  if (const std::size_t left = kBlock - at % kBlock; left < kHead) at += left;
  if (at + kHead > file.size()) return std::nullopt;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<std::uint8_t>(file[at + i])); };
  const std::uint32_t crc = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
  const std::size_t size = byte(4) | byte(5) << 8;
  const auto kind = static_cast<Kind>(byte(6));
  if (size > file.size() - at - kHead) return std::nullopt;
  const std::string_view bytes = file.substr(at + kHead, size);
  if (checksum(kind, bytes) != crc) return std::nullopt;
  at += kHead + size;
  return Piece{kind, bytes};
}

}  // namespace

std::string framed_record(std::string_view record, std::uint64_t offset) {
  std::string out;
  for (bool begins = true;; begins = false) {
    std::size_t left = kBlock - (offset + out.size()) % kBlock;
    if (left < kHead) {
      out.append(left, '\0');
      left = kBlock;
    }
    const std::size_t size = std::min(record.size(), left - kHead);
    const bool ends = size == record.size();
    append_piece(out, begins ? (ends ? Kind::full : Kind::first) : (ends ? Kind::last : Kind::middle),
                 record.substr(0, size));
    if (ends) return out;
    record.remove_prefix(size);
  }
}

std::vector<std::string> sound_records(std::string_view file, std::string_view header) {
  std::vector<std::string> out;
  if (!file.starts_with(header)) return out;
  std::size_t at = header.size();
  std::optional<std::string> begun;
  while (const auto piece = take_piece(file, at)) {
    const bool begins = piece->kind == Kind::full || piece->kind == Kind::first;
    if (begins == begun.has_value()) return out;
    begun = begun.value_or("").append(piece->bytes);
    if (piece->kind == Kind::full || piece->kind == Kind::last) {
      out.push_back(std::move(*begun));
      begun.reset();
    }
  }
  return out;
}

void RecordLog::create(const fs::path& file) {
  std::error_code failed;  // shows when the file is opened
  fs::create_directories(file.parent_path(), failed);
  file_ = file;
  std::ofstream(file_, std::ios::binary) << header_;
  size_ = header_.size();
}

Status RecordLog::replace(const fs::path& file, const std::vector<std::string>& records) {
  std::string text = header_;
  for (const std::string& record : records) text += framed_record(record, text.size());
  Status replaced = io::replace_file(file, text);
  if (!replaced.ok()) return replaced;
  file_ = file;
  size_ = text.size();
  return replaced;
}

void RecordLog::append(std::string_view record) {
  const std::string text = framed_record(record, size_);
  std::ofstream out(file_, std::ios::app | std::ios::binary);
  out << text;
  if (out.flush()) {
    size_ += text.size();
  } else {
    log_warn(cat(file_.string(), ": a row could not be written"));
    std::error_code failed;
    out.close();
    fs::resize_file(file_, size_, failed);  // half a record would hide those behind it
  }
}

void RecordLog::sync() const {
  if (!is_open()) return;
  const Status status = io::sync_file(file_);
  if (!status.ok()) log_warn(status.error().line());
}

}  // namespace tern::train
