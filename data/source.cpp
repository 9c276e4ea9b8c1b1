#include "data/source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

#include "base/strings.h"
#include "io/system_error.h"

namespace tern::data {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 18;

class File {
 public:
  File(std::string path, int fd, std::uint64_t total) : path_(std::move(path)), fd_(fd), total_(total) {}
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  Result<std::size_t> read(std::span<char> out) {
    if (!peeked_.empty()) {
      const std::size_t count = std::min(out.size(), peeked_.size());
      std::copy_n(peeked_.begin(), count, out.begin());
      peeked_.erase(peeked_.begin(), peeked_.begin() + static_cast<std::ptrdiff_t>(count));
      return count;
    }
    while (true) {
      const ssize_t got = ::read(fd_, out.data(), out.size());
      if (got >= 0) {
        consumed_ += static_cast<std::uint64_t>(got);
        return static_cast<std::size_t>(got);
      }
      if (errno != EINTR) return io::read_error(path_, errno);
    }
  }

  // The first bytes without taking them.
  Result<std::string> peek(std::size_t count) {
    std::string head(count, '\0');
    std::size_t have = 0;
    while (have < count) {
      const auto got = read(std::span(head).subspan(have));
      if (!got) return got.error();
      if (*got == 0) break;
      have += *got;
    }
    head.resize(have);
    peeked_ = head;
    return head;
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t consumed() const { return consumed_; }
  [[nodiscard]] std::uint64_t total() const { return total_; }

 private:
  std::string path_;
  int fd_;
  std::uint64_t total_;
  std::uint64_t consumed_ = 0;
  std::string peeked_;
};

class FileSource : public ByteSource {
 public:
  explicit FileSource(std::unique_ptr<File> file) : file_(std::move(file)) {}
  [[nodiscard]] std::uint64_t consumed() const override { return file_->consumed(); }
  [[nodiscard]] std::uint64_t total() const override { return file_->total(); }

 protected:
  // Unread compressed bytes; refilled when used up. False at the end of the file.
  Result<bool> refill() {
    if (position_ < available_) return true;
    input_.resize(kChunk);
    const auto got = file_->read(input_);
    if (!got) return got.error();
    position_ = 0;
    available_ = *got;
    return available_ > 0;
  }
  [[nodiscard]] Error truncated(std::string_view format) const {
    return data_error(file_->path(), cat("a whole ", format, " stream"), "its end is missing", "copy the file again");
  }
  [[nodiscard]] Error broken(std::string_view format, std::string_view why) const {
    return data_error(cat(file_->path(), ": compressed byte ", file_->consumed()), cat("a sound ", format, " stream"),
                      std::string(why), "copy the file again");
  }

  std::unique_ptr<File> file_;
  std::vector<char> input_;
  std::size_t position_ = 0;
  std::size_t available_ = 0;
};

class PlainSource final : public FileSource {
 public:
  using FileSource::FileSource;
  Result<std::size_t> read(std::span<char> out) override { return file_->read(out); }
  [[nodiscard]] Compression compression() const override { return Compression::none; }
};

class GzipSource final : public FileSource {
 public:
  explicit GzipSource(std::unique_ptr<File> file) : FileSource(std::move(file)) {
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  [[nodiscard]] Compression compression() const override { return Compression::gzip; }

  Result<std::size_t> read(std::span<char> out) override {
    while (true) {
      const auto more = refill();
      if (!more) return more.error();
      if (!*more) {
        if (in_member_) return truncated("gzip");
        return std::size_t{0};
      }
      if (!in_member_) {
        // gzip(1) ignores zero padding after the last member; so do we.
        if (members_ > 0 && input_[position_] == '\0') {
          ++position_;
          continue;
        }
        inflateReset(&stream_);
        in_member_ = true;
      }
      stream_.next_in = reinterpret_cast<Bytef*>(input_.data() + position_);
      stream_.avail_in = static_cast<uInt>(available_ - position_);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data());
      stream_.avail_out = static_cast<uInt>(std::min(out.size(), kChunk));
      const uInt room = stream_.avail_out;
      const int status = inflate(&stream_, Z_NO_FLUSH);
      position_ = available_ - stream_.avail_in;
      if (status == Z_STREAM_END) {
        in_member_ = false;
        ++members_;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        return broken("gzip", stream_.msg != nullptr ? stream_.msg : "damaged data");
      }
      if (stream_.avail_out < room) return std::size_t{room - stream_.avail_out};
    }
  }

 private:
  z_stream stream_{};
  bool in_member_ = false;
  std::uint64_t members_ = 0;
};

class ZstdSource final : public FileSource {
 public:
  explicit ZstdSource(std::unique_ptr<File> file) : FileSource(std::move(file)), stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) throw std::bad_alloc();
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }
  [[nodiscard]] Compression compression() const override { return Compression::zstd; }

  Result<std::size_t> read(std::span<char> out) override {
    while (true) {
      const auto more = refill();
      if (!more) return more.error();
      // After the last input the decoder may still hold output of the running frame.
      ZSTD_inBuffer input{input_.data(), available_, position_};
      ZSTD_outBuffer output{out.data(), out.size(), 0};
      if (!*more && !in_frame_) return std::size_t{0};
      const std::size_t hint = ZSTD_decompressStream(stream_, &output, &input);
      if (ZSTD_isError(hint) != 0) return broken("zstd", ZSTD_getErrorName(hint));
      position_ = input.pos;
      in_frame_ = hint != 0;
      if (output.pos > 0) return output.pos;
      if (!*more && in_frame_) return truncated("zstd");
    }
  }

 private:
  ZSTD_DStream* stream_;
  bool in_frame_ = false;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_source(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return data_error(path, "a data file", std::strerror(errno), "check the path");
  struct stat info {};
  if (::fstat(fd, &info) != 0 || S_ISDIR(info.st_mode)) {
    ::close(fd);
    return data_error(path, "a data file", "a directory", "name a file in it");
  }
  const std::uint64_t size = S_ISREG(info.st_mode) ? static_cast<std::uint64_t>(info.st_size) : 0;
  auto file = std::make_unique<File>(path, fd, size);
  const auto head = file->peek(4);
  if (!head) return head.error();
  if (head->starts_with("\x1f\x8b")) return std::unique_ptr<ByteSource>(std::make_unique<GzipSource>(std::move(file)));
  if (head->starts_with("\x28\xb5\x2f\xfd"))
    return std::unique_ptr<ByteSource>(std::make_unique<ZstdSource>(std::move(file)));
  return std::unique_ptr<ByteSource>(std::make_unique<PlainSource>(std::move(file)));
}

}  // namespace tern::data
