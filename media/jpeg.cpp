// clang-format off
#include <cstdio>  // jpeglib.h needs FILE and does not say so
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <array>
#include <csetjmp>
#include <cstring>

#include "base/strings.h"
#include "media/decoder.h"
#include "media/orientation.h"

namespace tern::media {
namespace {

// A progressive file may rewrite its pixels in any number of scans, each a few bytes long.
constexpr int kMaxScans = 500;

// libjpeg leaves by longjmp where it meets an error, past the destructors of whatever is between: guarded() runs steps
// that have none.
class Jpeg {
 public:
  explicit Jpeg(const EncodedImage& from) : from_(from) {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = [](j_common_ptr info) { leave(info); };
    errors_.emit_message = [](j_common_ptr info, int level) { warn(info, level); };
    errors_.output_message = [](j_common_ptr) {};
  }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;
  ~Jpeg() { jpeg_destroy_decompress(&info_); }

  [[nodiscard]] Image decode() {
    guarded([this] { read_header(); });
    if (info_.num_components != 1 && info_.num_components != 3 && info_.num_components != 4) {
      throw from_.damaged("JPEG", cat("one of ", info_.num_components, " colours, where there can be 1, 3 or 4"));
    }
    Image out = from_.allocate(info_.image_width, info_.image_height);
    cmyk_.resize(info_.num_components == 4 ? static_cast<std::size_t>(out.width * 4) : 0);
    guarded([&] { read_pixels(out); });
    return upright(std::move(out), orientation_of(marker("Exif\0\0", 6), marker(kXmp.data(), kXmp.size())));
  }

 private:
  static constexpr std::string_view kXmp{"http://ns.adobe.com/xap/1.0/\0", 29};

  static void leave(j_common_ptr info) {
    auto* jpeg = static_cast<Jpeg*>(info->client_data);
    info->err->format_message(info, jpeg->problem_.data());
    std::longjmp(jpeg->jump_, 1);
  }
  // A warning of coded data that do not fit: from here on libjpeg would guess pixels.
  static void warn(j_common_ptr info, int level) {
    if (level >= 0) return;
    switch (info->err->msg_code) {
      case JWRN_BOGUS_PROGRESSION:
      case JWRN_HIT_MARKER:
      case JWRN_HUFF_BAD_CODE:
      case JWRN_ARITH_BAD_CODE:
      case JWRN_JPEG_EOF:
      case JWRN_MUST_RESYNC:
      case JWRN_NOT_SEQUENTIAL:
        leave(info);
      default:
        break;
    }
  }

  template <typename Steps>
  void guarded(const Steps& steps) {
    if (setjmp(jump_) != 0) throw from_.damaged("JPEG", problem_.data());
    steps();
  }

  void read_header() {
    jpeg_create_decompress(&info_);
    progress_.progress_monitor = [](j_common_ptr info) {
      if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
      auto* jpeg = static_cast<Jpeg*>(info->client_data);
      std::strcpy(jpeg->problem_.data(), "one of more than 500 scans");
      std::longjmp(jpeg->jump_, 1);
    };
    info_.progress = &progress_;
    jpeg_save_markers(&info_, JPEG_APP0 + 1, 0xFFFF);
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(from_.bytes.data()), from_.bytes.size());
    jpeg_read_header(&info_, TRUE);
  }

  void read_pixels(Image& out) {
    info_.out_color_space = info_.num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      std::uint8_t* row = out.pixels.data() + std::size_t{info_.output_scanline} * out.width * 3;
      JSAMPROW to = cmyk_.empty() ? row : cmyk_.data();
      if (jpeg_read_scanlines(&info_, &to, 1) == 1 && !cmyk_.empty()) to_rgb(row);
    }
  }

  // Adobe's files hold the complement of each ink; products of two bytes are rounded as Pillow does it.
  void to_rgb(std::uint8_t* row) const {
    for (std::size_t x = 0; x < cmyk_.size(); x += 4) {
      const unsigned light = cmyk_[x + 3];
      for (std::size_t c = 0; c < 3; ++c) {
        const unsigned product = (255U - cmyk_[x + c]) * light + 128;
        *row++ = static_cast<std::uint8_t>(light - std::min(light, ((product >> 8) + product) >> 8));
      }
    }
  }

  // What follows `name` in the first marker that begins so.
  [[nodiscard]] std::span<const std::byte> marker(const char* name, std::size_t size) const {
    for (const auto* one = info_.marker_list; one != nullptr; one = one->next) {
      if (one->data_length >= size && std::memcmp(one->data, name, size) == 0) {
        return std::as_bytes(std::span(one->data + size, one->data_length - size));
      }
    }
    return {};
  }

  const EncodedImage& from_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_{};
  std::array<char, JMSG_LENGTH_MAX> problem_{};
  std::vector<std::uint8_t> cmyk_;  // [width, 4]
};

}  // namespace

Image decode_jpeg(const EncodedImage& from) { return Jpeg(from).decode(); }

}  // namespace tern::media
