#include "data/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/strings.h"
#include "io/checksum.h"
#include "io/system_error.h"

namespace tern::data {
namespace {

// File: magic; of each sample its ids, weights and columns' bytes; index of SampleInfo; where each sample's columns
// end, in bytes behind its tokens; which samples begin a group, a byte each; columns and error lines as text; footer.
// Native byte order: the magic number would read differently on another machine.
constexpr std::uint64_t kMagic = 0x324b4f544e524554ULL;  // "TERNTOK2"
constexpr std::size_t kAlign = 8;
constexpr std::size_t kCountFields = 8;

struct Footer {
  std::uint64_t index_offset = 0;
  std::uint64_t samples = 0;
  std::uint64_t columns = 0;
  std::uint64_t text_offset = 0;
  std::uint64_t columns_size = 0;  // of the text
  std::uint64_t errors_size = 0;
  std::array<std::uint64_t, kCountFields> counts{};
  std::array<char, 16> checksum{};  // xxh3_64 of all before it
  std::uint64_t magic = kMagic;
};
static_assert(sizeof(Footer) == 8 * (6 + kCountFields) + 16 + 8);
static_assert(std::is_trivially_copyable_v<SampleInfo> && sizeof(SampleInfo) == 40);

std::array<std::uint64_t*, kCountFields> fields(RowCounts& counts) {
  return {&counts.rows,       &counts.bad,         &counts.too_long,     &counts.truncated,
          &counts.split_rows, &counts.split_turns, &counts.unsupervised, &counts.selected};
}

// One line a column: per, dtype, width, padding, name.
std::string columns_text(std::span<const ColumnSpec> columns) {
  std::string out;
  for (const ColumnSpec& one : columns) {
    out += cat(static_cast<int>(one.per), " ", static_cast<int>(one.dtype), " ", one.width, " ", one.padding, " ",
               one.name, "\n");
  }
  return out;
}

std::vector<ColumnSpec> columns_of(std::string_view text) {
  std::vector<ColumnSpec> out;
  std::istringstream in{std::string(text)};
  int per = 0;
  int dtype = 0;
  for (ColumnSpec one; in >> per >> dtype >> one.width >> one.padding >> one.name;) {
    one.per = static_cast<Per>(per);
    one.dtype = static_cast<tern_dtype>(dtype);
    out.push_back(one);
  }
  return out;
}

Error unsound(const std::filesystem::path& path, std::string found) {
  return data_error(path.string(), "a whole cache of tokenised rows", std::move(found), "delete it");
}

// Removes temporary files of writers that are gone: theirs are the ones that nobody locks. A young one is left alone,
// as its writer may not have locked it yet.
void sweep(const std::filesystem::path& directory) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const std::string file = entry.path().filename().string();
    if (file.find(".tokens.tmp.") == std::string::npos) continue;
    constexpr auto kYoung = std::chrono::minutes(1);
    const auto written = std::filesystem::last_write_time(entry.path(), ignored);
    if (ignored || std::filesystem::file_time_type::clock::now() - written < kYoung) continue;
    const int fd = ::open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
    ::close(fd);
  }
}

}  // namespace

Result<std::shared_ptr<const SampleCache>> SampleCache::open(const std::filesystem::path& path) {
  return catching([&]() -> std::shared_ptr<const SampleCache> {
    auto cache = std::shared_ptr<SampleCache>(new SampleCache());
    cache->file_ = io::MappedFile::open(path).value();
    const auto bytes = cache->file_->bytes();
    Footer footer;
    if (bytes.size() < sizeof(std::uint64_t) + sizeof(Footer)) throw Failure(unsound(path, "too few bytes"));
    const std::size_t body = bytes.size() - sizeof(Footer);
    std::memcpy(&footer, bytes.data() + body, sizeof(Footer));
    if (footer.magic != kMagic) throw Failure(unsound(path, "another kind of file"));
    constexpr std::uint64_t kMost = 0xffffffffU;
    constexpr std::uint64_t kMostColumns = 64;
    const std::uint64_t ends = footer.index_offset + footer.samples * sizeof(SampleInfo);
    const std::uint64_t groups = ends + footer.samples * footer.columns * sizeof(std::uint64_t);
    if (footer.samples > kMost || footer.columns > kMostColumns || footer.index_offset % kAlign != 0 ||
        footer.index_offset > body || groups > body || footer.text_offset != groups + footer.samples ||
        footer.columns_size > body || footer.errors_size > body ||
        footer.text_offset + footer.columns_size + footer.errors_size != body) {
      throw Failure(unsound(path, "an index outside the file"));
    }
    io::Xxh3 hash;
    hash.update(bytes.first(bytes.size() - sizeof(footer.checksum) - sizeof(footer.magic)));
    if (hash.hex() != std::string_view(footer.checksum.data(), footer.checksum.size())) {
      throw Failure(unsound(path, "another checksum"));
    }
    cache->infos_ = {reinterpret_cast<const SampleInfo*>(bytes.data() + footer.index_offset),
                     static_cast<std::size_t>(footer.samples)};
    const char* text = reinterpret_cast<const char*>(bytes.data() + footer.text_offset);
    cache->columns_ = columns_of({text, static_cast<std::size_t>(footer.columns_size)});
    if (cache->columns_.size() != footer.columns) throw Failure(unsound(path, "columns that it doesn't name"));
    cache->ends_ = {reinterpret_cast<const std::uint64_t*>(bytes.data() + ends),
                    static_cast<std::size_t>(footer.samples * footer.columns)};
    cache->begins_group_ = {reinterpret_cast<const std::uint8_t*>(bytes.data() + groups),
                            static_cast<std::size_t>(footer.samples)};
    for (std::uint32_t index = 0; index < cache->size(); ++index) {
      const SampleInfo& info = cache->infos_[index];
      std::uint64_t size = std::uint64_t{info.length} * (sizeof(std::int32_t) + sizeof(float));
      std::uint64_t last = 0;
      for (std::size_t c = 0; c < cache->columns_.size(); ++c) {
        const std::uint64_t end = cache->ends_[index * cache->columns_.size() + c];
        if (end < last || end > footer.index_offset) throw Failure(unsound(path, "columns outside the file"));
        last = end;
      }
      size += last;
      if (info.offset % sizeof(std::int32_t) != 0 || info.offset > footer.index_offset ||
          size > footer.index_offset - info.offset) {
        throw Failure(unsound(path, "tokens outside the file"));
      }
    }
    const auto targets = fields(cache->counts_);
    for (std::size_t i = 0; i < kCountFields; ++i) *targets[i] = footer.counts[i];
    const std::string_view errors(text + footer.columns_size, static_cast<std::size_t>(footer.errors_size));
    for (const std::string_view line : split(errors, '\n')) {
      if (!line.empty()) cache->counts_.first_errors.emplace_back(line);
    }
    cache->file_->intact().value();
    return cache;
  });
}

SampleView SampleCache::sample(std::uint32_t index) const {
  const SampleInfo& info = infos_[index];
  const std::byte* start = file_->bytes().data() + info.offset;
  const std::size_t length = info.length;
  return {{reinterpret_cast<const std::int32_t*>(start), length},
          {reinterpret_cast<const float*>(start + length * sizeof(std::int32_t)), length}};
}

std::span<const std::byte> SampleCache::column(std::uint32_t index, std::size_t column) const {
  const SampleInfo& info = infos_[index];
  const std::uint64_t tokens = std::uint64_t{info.length} * (sizeof(std::int32_t) + sizeof(float));
  const std::uint64_t* ends = ends_.data() + index * columns_.size();
  const std::uint64_t begin = column == 0 ? 0 : ends[column - 1];
  return file_->bytes().subspan(static_cast<std::size_t>(info.offset + tokens + begin),
                                static_cast<std::size_t>(ends[column] - begin));
}

struct SampleCacheWriter::State {
  std::filesystem::path target;
  std::string temporary;
  int fd = -1;
  std::string buffer;
  std::uint64_t offset = 0;
  std::vector<ColumnSpec> columns;
  std::vector<SampleInfo> infos;
  std::vector<std::uint64_t> ends;
  std::vector<std::uint8_t> begins_group;
  io::Xxh3 hash;

  void align(std::size_t to) {
    constexpr std::array<char, kAlign> kZeros{};
    append(kZeros.data(), (to - offset % to) % to);
  }

  void append(const void* data, std::size_t size) {
    constexpr std::size_t kFlush = std::size_t{1} << 20;
    buffer.append(static_cast<const char*>(data), size);
    offset += size;
    if (buffer.size() >= kFlush) flush();
  }
  void flush() {
    hash.update(std::as_bytes(std::span(buffer)));
    write_all(buffer);
    buffer.clear();
  }
  void write_all(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(fd, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw Failure(io::write_error(temporary, errno));
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }
};

SampleCacheWriter::SampleCacheWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

SampleCacheWriter::~SampleCacheWriter() {
  if (state_->fd < 0) return;
  ::unlink(state_->temporary.c_str());
  ::close(state_->fd);
}

Result<std::unique_ptr<SampleCacheWriter>> SampleCacheWriter::create(const std::filesystem::path& target,
                                                                     std::vector<ColumnSpec> columns) {
  return catching([&] {
    const auto directory = target.parent_path();
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) throw Failure(io::write_error(directory.string(), error.value()));
    sweep(directory);
    auto state = std::make_unique<State>();
    state->target = target;
    state->columns = std::move(columns);
    state->temporary = cat(target.string(), ".tmp.XXXXXX");
    state->fd = ::mkostemp(state->temporary.data(), O_CLOEXEC);
    if (state->fd < 0) throw Failure(io::write_error(target.string(), errno));
    while (::flock(state->fd, LOCK_EX) != 0 && errno == EINTR) {
    }
    state->append(&kMagic, sizeof(kMagic));
    return std::unique_ptr<SampleCacheWriter>(new SampleCacheWriter(std::move(state)));
  });
}

Status SampleCacheWriter::add(SampleView sample, std::span<const std::vector<std::byte>> columns, std::uint64_t row,
                              std::uint64_t line, bool begins_group) {
  return catching([&] {
    state_->align(sizeof(std::int32_t));
    SampleInfo info = info_of(sample);
    info.offset = state_->offset;
    info.row = row;
    info.line = line;
    state_->append(sample.ids.data(), sample.ids.size() * sizeof(std::int32_t));
    state_->append(sample.weights.data(), sample.weights.size() * sizeof(float));
    std::uint64_t end = 0;
    for (std::size_t c = 0; c < state_->columns.size(); ++c) {
      if (c < columns.size()) {
        state_->append(columns[c].data(), columns[c].size());
        end += columns[c].size();
      }
      state_->ends.push_back(end);
    }
    state_->infos.push_back(info);
    state_->begins_group.push_back(begins_group ? 1 : 0);
    return Unit{};
  });
}

Status SampleCacheWriter::finish(const RowCounts& counts) {
  return catching([&] {
    State& state = *state_;
    state.align(kAlign);
    Footer footer;
    footer.index_offset = state.offset;
    footer.samples = state.infos.size();
    footer.columns = state.columns.size();
    state.append(state.infos.data(), state.infos.size() * sizeof(SampleInfo));
    state.append(state.ends.data(), state.ends.size() * sizeof(std::uint64_t));
    state.append(state.begins_group.data(), state.begins_group.size());
    footer.text_offset = state.offset;
    const std::string columns = columns_text(state.columns);
    const std::string errors = join(counts.first_errors, "\n");
    footer.columns_size = columns.size();
    footer.errors_size = errors.size();
    state.append(columns.data(), columns.size());
    state.append(errors.data(), errors.size());
    RowCounts copy = counts;
    const auto sources = fields(copy);
    for (std::size_t i = 0; i < kCountFields; ++i) footer.counts[i] = *sources[i];
    state.append(&footer, offsetof(Footer, checksum));
    state.flush();
    const std::string checksum = state.hash.hex();
    std::memcpy(footer.checksum.data(), checksum.data(), footer.checksum.size());
    state.write_all({footer.checksum.data(), footer.checksum.size()});
    state.write_all({reinterpret_cast<const char*>(&footer.magic), sizeof(footer.magic)});
    if (::fsync(state.fd) != 0) throw Failure(io::write_error(state.temporary, errno));
    if (::rename(state.temporary.c_str(), state.target.c_str()) != 0) {
      throw Failure(io::write_error(state.target.string(), errno));
    }
    const int directory = ::open(state.target.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
      ::fsync(directory);
      ::close(directory);
    }
    ::close(state.fd);
    state.fd = -1;
    return Unit{};
  });
}

Result<CacheLock> CacheLock::acquire(const std::filesystem::path& target) {
  std::error_code error;
  std::filesystem::create_directories(target.parent_path(), error);
  if (error) return io::write_error(target.parent_path().string(), error.value());
  const std::string path = cat(target.string(), ".lock");
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return io::write_error(path, errno);
  while (::flock(fd, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const int code = errno;
    ::close(fd);
    return io::write_error(path, code);
  }
  return CacheLock(fd);
}

CacheLock::~CacheLock() {
  if (fd_ >= 0) ::close(fd_);
}

std::filesystem::path default_cache_directory() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
  };
  if (const auto own = variable("TERN_CACHE_DIR"); !own.empty()) return std::filesystem::path(own) / "datasets";
  if (const auto xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return std::filesystem::path(xdg) / "tern/datasets";
  if (const auto home = variable("HOME"); !home.empty()) return std::filesystem::path(home) / ".cache/tern/datasets";
  std::error_code ignored;
  return std::filesystem::temp_directory_path(ignored) / "tern/datasets";
}

}  // namespace tern::data
