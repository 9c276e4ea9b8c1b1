#include "io/compress.h"

#include <zlib.h>
#include <zstd.h>

#include <new>

namespace tern::io {

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  constexpr int kGzip = 15 + 16;  // the largest window, with gzip's header
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  std::string out;
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    // zlib counts in 32 bits, so it's fed in parts.
    constexpr std::size_t kPart = std::size_t{1} << 30;
    const std::size_t part = bytes.size() < kPart ? bytes.size() : kPart;
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(part);
    const std::size_t before = out.size();
    const std::size_t room = deflateBound(&stream, static_cast<uLong>(part)) + 64;
    out.resize(before + room);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = static_cast<uInt>(room);
    status = deflate(&stream, part == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
    bytes.remove_prefix(part - stream.avail_in);
  }
  deflateEnd(&stream);
  return out;
}

std::string zstd(std::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3);
  if (ZSTD_isError(size) != 0U) throw std::bad_alloc();  // the room is what zstd asked for, so memory is what it lacked
  out.resize(size);
  return out;
}

}  // namespace tern::io
