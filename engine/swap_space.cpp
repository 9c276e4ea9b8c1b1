#include "engine/swap_space.h"

#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "engine/cache_dtype.h"

namespace tern::engine {
namespace {

constexpr std::uint64_t kChunk = std::uint64_t{16} << 20;

std::uint64_t machine_memory() {  // 0: it doesn't say
  const std::int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(size) : 0;
}

std::int64_t most_blocks(const CacheEngine& cache, std::uint64_t bytes) {
  if (const std::uint64_t block = cache.block_bytes(); bytes < block) {
    throw Failure(usage_error(cat("--swap_space allows ", human_bytes(bytes), ", and a block of ", cache.block_size(),
                                  " tokens takes ", human_bytes(block)),
                              "raise it"));
  }
  if (const std::uint64_t all = machine_memory(); all > 0 && bytes > all) {
    throw Failure(usage_error(
        cat("--swap_space asks for ", human_bytes(bytes), ", and the machine has ", human_bytes(all), " of memory"),
        "lower it"));
  }
  constexpr std::uint64_t kMost = INT32_MAX;
  return static_cast<std::int64_t>(std::min(bytes / cache.block_bytes(), kMost));
}

// Blocks of other sizes, kept or computed otherwise, are of another folder.
std::unique_ptr<SwapFiles> open_files(const CacheEngine& cache, const SwapOptions& options) {
  if (options.dir.empty()) return nullptr;
  const tern_device_info& device = cache.device().info();
  SwapFilesOptions files;
  files.folder = options.dir;
  files.bytes = options.dir_bytes;
  files.block_bytes = cache.block_bytes();
  files.about = cat(options.about, "device: ", cache.device().backend().name(), ", ", device.name, ", ", device.arch,
                    "\ncache: ", cache_dtype_name(cache.dtype()), ", blocks of ", cache.block_size(), " tokens and ",
                    cache.block_bytes(), " bytes\n");
  return SwapFiles::open(files).value();
}

}  // namespace

SwapSpace::SwapSpace(CacheEngine& cache, const SwapOptions& options)
    : cache_(cache),
      block_bytes_(cache.block_bytes()),
      most_(most_blocks(cache, options.bytes)),
      per_chunk_(std::clamp<std::int64_t>(static_cast<std::int64_t>(kChunk / block_bytes_), 1, most_)),
      files_(open_files(cache, options)),
      tier_(
          most_, [this] { return make_place(); }, files_ ? this : nullptr) {
  log_info(cat("swap space: ", human_bytes(static_cast<std::uint64_t>(most_) * block_bytes_),
               " of the host's memory, taken as it's needed, hold the keys and values of ", most_ * cache.block_size(),
               " tokens"));
}

bool SwapSpace::make_place() {
  if (places_ < static_cast<std::int64_t>(chunks_.size()) * per_chunk_) {
    ++places_;
    return true;
  }
  const std::int64_t held = static_cast<std::int64_t>(chunks_.size()) * per_chunk_;
  const auto bytes = static_cast<std::uint64_t>(std::min(per_chunk_, most_ - held)) * block_bytes_;
  const Status made = catching([&] {
    chunks_.push_back(cache_.device().allocate_host(bytes));
    return Unit{};
  });
  if (!made) {
    log_warn(cat("swap space: stays at ", human_bytes(static_cast<std::uint64_t>(held) * block_bytes_), ": ",
                 made.error().line()));
    return false;
  }
  ++places_;
  return true;
}

std::span<std::byte> SwapSpace::at(std::int32_t place) const {
  const accel::HostBuffer& chunk = chunks_[static_cast<std::size_t>(place / per_chunk_)];
  const auto offset = static_cast<std::uint64_t>(place % per_chunk_) * block_bytes_;
  return {chunk.data() + offset, static_cast<std::size_t>(block_bytes_)};
}

void SwapSpace::copy() {
  if (tier_.copies().empty()) return;
  const accel::Stream stream = cache_.device().make_stream();
  for (const BlockCopy& one : tier_.copies()) {
    if (one.to_device) {
      cache_.write_block(one.block, at(one.place), stream);
    } else {
      cache_.read_block(one.block, at(one.place), stream);
    }
  }
  stream.synchronize();
  if (files_) write_files();
  tier_.copied();
}

// What came to the host and is still there.
void SwapSpace::write_files() {
  for (const BlockCopy& one : tier_.copies()) {
    if (one.to_device || tier_.place_of(one.hash) != one.place || files_->has(one.hash)) continue;
    tier_.pin(one.place);
    files_->write(one.hash, at(one.place), one.place);
  }
}

void SwapSpace::tidy() {
  if (!files_) return;
  for (const std::int32_t place : files_->written()) tier_.unpin(place);
}

void SwapSpace::will_load(std::span<const BlockHash> hashes) {
  for (const BlockHash& hash : hashes) {
    if (!tier_.place_of(hash)) files_->will_read(hash);
  }
}

// The place may be one that copies still read.
bool SwapSpace::load(const BlockHash& hash, std::int32_t place) {
  copy();
  return files_->read(hash, at(place));
}

std::unique_ptr<SwapSpace> make_swap_space(CacheEngine& cache, const SwapOptions& options) {
  return options.bytes > 0 ? std::make_unique<SwapSpace>(cache, options) : nullptr;
}

}  // namespace tern::engine
