#include <webp/decode.h>
#include <webp/demux.h>

#include <cstring>
#include <memory>

#include "media/decoder.h"
#include "media/orientation.h"

namespace tern::media {
namespace {

using Demuxer = std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)>;
using Animation = std::unique_ptr<WebPAnimDecoder, decltype(&WebPAnimDecoderDelete)>;

// Both pictures' canvases are RGBA: the library lays each frame over the one before.
void first_frame(const EncodedImage& from, const WebPData& data, Image& out) {
  WebPAnimDecoderOptions options;
  if (WebPAnimDecoderOptionsInit(&options) == 0) throw from.damaged("WebP", "another version of libwebp");
  options.color_mode = MODE_RGBA;
  const Animation animation(WebPAnimDecoderNew(&data, &options), &WebPAnimDecoderDelete);
  std::uint8_t* rgba = nullptr;
  int timestamp = 0;
  if (!animation || WebPAnimDecoderGetNext(animation.get(), &rgba, &timestamp) == 0) {
    throw from.damaged("WebP", "an animation whose first picture is damaged");
  }
  for (std::size_t i = 0; i < out.pixels.size() / 3; ++i) std::memcpy(&out.pixels[i * 3], rgba + i * 4, 3);
}

std::span<const std::byte> metadata(WebPDemuxer* file, const char* fourcc) {
  WebPChunkIterator chunk;
  std::span<const std::byte> out;
  // The chunk lies in the file's own bytes, so that it outlives the iterator.
  if (WebPDemuxGetChunk(file, fourcc, 1, &chunk) != 0)
    out = std::as_bytes(std::span(chunk.chunk.bytes, chunk.chunk.size));
  WebPDemuxReleaseChunkIterator(&chunk);
  return out;
}

}  // namespace

Image decode_webp(const EncodedImage& from) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(from.bytes.data());
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(bytes, from.bytes.size(), &features) != VP8_STATUS_OK) {
    throw from.damaged("WebP", "a header that is cut short or damaged");
  }
  Image out = from.allocate(features.width, features.height);
  const WebPData data{bytes, from.bytes.size()};
  const Demuxer file(WebPDemux(&data), &WebPDemuxDelete);
  if (!file) throw from.damaged("WebP", "one that is cut short or damaged");
  if (features.has_animation != 0) {
    first_frame(from, data, out);
  } else if (WebPDecodeRGBInto(bytes, from.bytes.size(), out.pixels.data(), out.pixels.size(),
                               static_cast<int>(out.width * 3)) == nullptr) {
    throw from.damaged("WebP", "one whose pixels are cut short or damaged");
  }
  return upright(std::move(out), orientation_of(metadata(file.get(), "EXIF"), metadata(file.get(), "XMP ")));
}

}  // namespace tern::media
