#include "io/checksum.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <vector>

#include "base/strings.h"
#include "io/system_error.h"

namespace tern::io {
namespace {

constexpr char kHex[] = "0123456789abcdef";

std::string hex_of(std::span<const unsigned char> bytes) {
  std::string out;
  for (unsigned char byte : bytes) {
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

std::string hex_of(std::uint64_t value) {
  std::string out(16, '0');
  for (int i = 15; i >= 0; --i, value >>= 4) out[static_cast<std::size_t>(i)] = kHex[value & 15];
  return out;
}

}  // namespace

struct Xxh3::State {
  XXH3_state_t* state = XXH3_createState();
  State() { XXH3_64bits_reset(state); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(state); }
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) {}
Xxh3::~Xxh3() = default;
Xxh3::Xxh3(Xxh3&&) noexcept = default;
Xxh3& Xxh3::operator=(Xxh3&&) noexcept = default;
void Xxh3::update(std::span<const std::byte> bytes) { XXH3_64bits_update(state_->state, bytes.data(), bytes.size()); }
std::string Xxh3::hex() const { return hex_of(XXH3_64bits_digest(state_->state)); }

std::string xxh3_64(std::span<const std::byte> bytes) { return hex_of(XXH3_64bits(bytes.data(), bytes.size())); }

Result<std::string> xxh3_64_of_file(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return read_error(path.string(), errno);
  Xxh3 hash;
  std::vector<std::byte> chunk(std::size_t{1} << 20);
  for (;;) {
    const ssize_t count = ::read(fd, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int code = errno;
      ::close(fd);
      if (count < 0) return read_error(path.string(), code);
      return hash.hex();
    }
    hash.update({chunk.data(), static_cast<std::size_t>(count)});
  }
}

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Digest::Digest() : state_(std::make_unique<State>()) {}
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

Digest Digest::sha256() {
  Digest digest;
  EVP_DigestInit_ex(digest.state_->context, EVP_sha256(), nullptr);
  return digest;
}

Digest Digest::git_sha1(std::uint64_t size) {
  Digest digest;
  EVP_DigestInit_ex(digest.state_->context, EVP_sha1(), nullptr);
  const std::string header = cat("blob ", size, '\0');
  digest.update(std::as_bytes(std::span(header)));
  return digest;
}

void Digest::update(std::span<const std::byte> bytes) { EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()); }

std::array<std::byte, 32> sha256(std::span<const std::span<const std::byte>> parts) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  for (const auto part : parts) EVP_DigestUpdate(context.get(), part.data(), part.size());
  std::array<std::byte, 32> value;
  EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(value.data()), nullptr);
  return value;
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> value;
  unsigned size = 0;
  EVP_DigestFinal_ex(state_->context, value.data(), &size);
  return hex_of(std::span(value).first(size));
}

namespace {

// Of a polynomial whose bits are reversed.
template <std::uint32_t kPolynomial>
std::uint32_t reflected_crc(std::span<const std::byte> bytes) {
  static constexpr auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1U) != 0 ? kPolynomial : 0U);
      table[i] = value;
    }
    return table;
  }();
  std::uint32_t crc = ~0U;
  for (const std::byte byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xffU];
  return ~crc;
}

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes) { return reflected_crc<0xedb88320U>(bytes); }

std::uint32_t crc32c(std::span<const std::byte> bytes) { return reflected_crc<0x82f63b78U>(bytes); }

}  // namespace tern::io
