// If these fail, nobody can open a bug report.
#include "io/tar.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <stdexcept>

#include "io/compress.h"

namespace tern::io {
namespace {

TEST(Tar, LaysFilesOutInBlocks) {
  const TarEntry entries[] = {{"a/one.txt", std::string(513, 'x')}, {"empty", ""}};
  const std::string archive = tar(entries, 1'700'000'000);
  ASSERT_EQ(archive.size(), 512U * (1 + 2 + 1 + 2));
  EXPECT_STREQ(archive.c_str(), "a/one.txt");
  EXPECT_STREQ(archive.c_str() + 124, "00000001001") << "the size in octal";
  EXPECT_STREQ(archive.c_str() + 257, "ustar");
  unsigned sum = 0;
  for (std::size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(archive[i]);
  EXPECT_EQ(std::stoul(archive.substr(148, 6), nullptr, 8), sum);
  EXPECT_EQ(archive.substr(512, 513), std::string(513, 'x'));
  EXPECT_STREQ(archive.c_str() + 512 * 3, "empty");
  EXPECT_EQ(archive.substr(512 * 4), std::string(1024, '\0')) << "two empty blocks end it";
}

TEST(Tar, ALongerNameThanTheFormatHoldsIsAMistakeOfTheCaller) {
  const TarEntry entries[] = {{std::string(101, 'n'), ""}};
  EXPECT_THROW((void)tar(entries, 0), std::logic_error);
}

std::string many_lines() {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "line " + std::to_string(i * 7919 % 10'007) + "\n";
  return text;
}

TEST(Compress, GzipComesBack) {
  for (const std::string& text : {std::string(), std::string("x"), many_lines()}) {
    const std::string packed = gzip(text);
    std::string out(text.size() + 1, '\0');
    z_stream stream{};
    ASSERT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream.avail_in = static_cast<uInt>(packed.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
    out.resize(stream.total_out);
    inflateEnd(&stream);
    EXPECT_EQ(out, text);
  }
}

TEST(Compress, ZstdComesBackAndIsSmaller) {
  const std::string text = many_lines();
  const std::string packed = zstd(text);
  EXPECT_LT(packed.size(), text.size() / 2);
  std::string out(text.size(), '\0');
  EXPECT_EQ(ZSTD_decompress(out.data(), out.size(), packed.data(), packed.size()), text.size());
  EXPECT_EQ(out, text);
}

}  // namespace
}  // namespace tern::io
