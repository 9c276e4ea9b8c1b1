#include <png.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "media/decoder.h"
#include "media/orientation.h"

namespace tern::media {
namespace {

// libpng leaves by longjmp where it meets an error, past the destructors of whatever is between: guarded() runs steps
// that have none.
class Png {
 public:
  explicit Png(const EncodedImage& from) : from_(from) {
    png_ = png_create_read_struct(
        PNG_LIBPNG_VER_STRING, this,
        [](png_structp png, png_const_charp text) {
          auto* self = static_cast<Png*>(png_get_error_ptr(png));
          self->set_problem(text);
          png_longjmp(png, 1);
        },
        [](png_structp, png_const_charp) {});
    info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
  }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
  ~Png() { png_destroy_read_struct(&png_, &info_, nullptr); }

  [[nodiscard]] Image decode() {
    if (info_ == nullptr) throw from_.damaged("PNG", "no memory for it");
    guarded([this] { read_header(); });
    Image out = from_.allocate(png_get_image_width(png_, info_), png_get_image_height(png_, info_));
    guarded([this] { choose_form(); });
    samples_.resize(channels_ == 3 ? 0 : out.pixels.size() / 3 * static_cast<std::size_t>(channels_));
    std::uint8_t* first = channels_ == 3 ? out.pixels.data() : samples_.data();
    rows_.resize(static_cast<std::size_t>(out.height));
    for (std::size_t y = 0; y < rows_.size(); ++y)
      rows_[y] = first + y * static_cast<std::size_t>(out.width * channels_);
    guarded([this] { read_pixels(); });
    for (std::size_t i = 0; channels_ != 3 && i < out.pixels.size() / 3; ++i) {
      if (channels_ == 1) {
        std::copy_n(colours_[samples_[i]].data(), 3, &out.pixels[i * 3]);
      } else {
        std::fill_n(&out.pixels[i * 3], 3, samples_[i * 2] != 0 ? 255 : samples_[i * 2 + 1]);
      }
    }
    return upright(std::move(out), orientation());
  }

 private:
  template <typename Steps>
  void guarded(const Steps& steps) {
    if (setjmp(png_jmpbuf(png_)) != 0) throw from_.damaged("PNG", problem_.data());
    steps();
  }
  void set_problem(const char* text) {
    const std::size_t size = std::min(std::strlen(text), problem_.size() - 1);
    std::copy_n(text, size, problem_.data());
    problem_[size] = 0;
  }

  void read_header() {
    png_set_read_fn(png_, this, [](png_structp png, png_bytep to, std::size_t size) {
      auto* self = static_cast<Png*>(png_get_io_ptr(png));
      if (size > self->from_.bytes.size() - self->at_) png_error(png, "a file that is cut short");
      std::memcpy(to, self->from_.bytes.data() + self->at_, size);
      self->at_ += size;
    });
    // Ours are looked at with the mend in hand, before memory is taken; libpng's own are only kept out of the way.
    png_set_user_limits(png_, 0x7FFFFFFF, 0x7FFFFFFF);
    png_set_chunk_cache_max(png_, 32);  // of texts, each of which may unfold to 8 MB
    png_read_info(png_, info_);
  }

  // Indices of a palette and low grey become one byte, 16-bit grey two, all else three.
  void choose_form() {
    const int type = png_get_color_type(png_, info_);
    const int depth = png_get_bit_depth(png_, info_);
    const bool grey = (type & PNG_COLOR_MASK_COLOR) == 0;
    if (type == PNG_COLOR_TYPE_PALETTE) {
      png_set_packing(png_);
      png_colorp palette = nullptr;
      int size = 0;
      png_get_PLTE(png_, info_, &palette, &size);
      for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
        colours_[i] = {palette[i].red, palette[i].green, palette[i].blue};
      }
      channels_ = 1;
    } else if (type == PNG_COLOR_TYPE_GRAY && depth == 16) {
      channels_ = 2;
    } else {
      for (std::size_t i = 0; i < colours_.size(); ++i) colours_[i].fill(static_cast<std::uint8_t>(i));
      png_set_expand_gray_1_2_4_to_8(png_);
      png_set_strip_16(png_);
      png_set_strip_alpha(png_);
      channels_ = grey ? 1 : 3;
    }
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
  }

  void read_pixels() {
    png_read_image(png_, rows_.data());
    png_read_end(png_, info_);
  }

  [[nodiscard]] int orientation() {
    png_bytep exif = nullptr;
    png_uint_32 exif_size = 0;
    if (png_get_eXIf_1(png_, info_, &exif_size, &exif) == 0) exif_size = 0;
    std::span<const std::byte> xmp;
    png_textp texts = nullptr;
    int count = 0;
    png_get_text(png_, info_, &texts, &count);
    for (const png_text& text : std::span(texts, static_cast<std::size_t>(count))) {
      if (std::string_view(text.key) != "XML:com.adobe.xmp") continue;
      xmp = std::as_bytes(std::span(text.text, std::max(text.text_length, text.itxt_length)));
    }
    return orientation_of(std::as_bytes(std::span(exif, exif_size)), xmp);
  }

  const EncodedImage& from_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::size_t at_ = 0;
  int channels_ = 3;
  std::vector<std::uint8_t> samples_;                       // [height, width, channels_], where it isn't three
  std::vector<png_bytep> rows_;                             // [height]
  std::array<std::array<std::uint8_t, 3>, 256> colours_{};  // the palette, black beyond its end; else greys
  std::array<char, 128> problem_{};
};

}  // namespace

Image decode_png(const EncodedImage& from) { return Png(from).decode(); }

}  // namespace tern::media
