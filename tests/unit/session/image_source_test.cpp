// Images from paths, data: URLs, base64 and servers.
#include "session/image_source.h"

#include <gtest/gtest.h>

#include "tests/support/base64.h"
#include "tests/support/pattern.h"
#include "tests/support/png.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/hub/fake_hub.h"

namespace tern::session {
namespace {

std::string line(const std::string& source, const media::ImageLimits& limits = {}) {
  const auto image = read_image(source, limits);
  return image.ok() ? "ok" : image.error().line();
}

TEST(ImageSource, IsAFileADataUrlOrBase64) {
  const test::TempDir dir;
  for (const std::int64_t width : {5, 6, 7}) {  // base64 ends in other ways
    const media::Image image = test::pattern(width, 9, 1);
    const std::string png = test::png_of(image);
    const std::string file = dir.write("a.png", png);
    for (const std::string& source :
         {file, "file://" + file, "data:image/png;base64," + test::base64(png), test::base64(png)}) {
      const auto found = read_image(source);
      ASSERT_TRUE(found.ok()) << found.error().line();
      EXPECT_EQ(found->pixels, image.pixels);
    }
  }
}

TEST(ImageSource, SaysWhatIsWrongWithIt) {
  const test::TempDir dir;
  const std::string wanted =
      ": expected an image file's path, an http:// or https:// URL, a data: URL or base64, found ";
  EXPECT_EQ(line("no/cat.png"), "no/cat.png" + wanted + "no such file; correct the path");
  EXPECT_EQ(line(""), wanted + "nothing; correct the path");
  EXPECT_EQ(line("data:image/png,abc"),
            "the image in a data: URL: expected data:image/...;base64,... as its form, found data:image/png; write its "
            "bytes as base64");
  EXPECT_EQ(line("data:image/png;base64,R0lGODlh"),
            "the image in a data: URL: expected a JPEG, PNG or WebP image, found a GIF; convert it to PNG or JPEG");
  EXPECT_EQ(line("data:image/png;base64,R0 GODlh"),
            "the image in a data: URL: expected letters, digits, + and / with = at the end, found another character; "
            "write the file as base64, or give its path");
  EXPECT_EQ(line(std::string(300, '!')),
            "the image in base64: expected letters, digits, + and / with = at the end, found another character; write "
            "the file as base64, or give its path");
  const auto directory = read_image(dir.path().string());
  EXPECT_EQ(dir.line(directory.error()), "DIR: expected a regular file, found a directory; name a file in it");
}

TEST(ImageSource, IsAskedOfAServer) {
  const std::string png = test::png_of(test::pattern(7, 9, 1));
  hub::FakeHub server([&](const hub::FakeRequest& request) {
    return request.target == "/cat.png" ? hub::FakeReply{.body = png} : hub::FakeReply{.status = 404, .body = "none"};
  });
  EXPECT_EQ(line(server.url() + "/cat.png"), "ok");
  EXPECT_EQ(line(server.url() + "/dog.png"),
            server.url() +
                "/dog.png: expected an image, found the answer 404; correct the URL, or download the image and "
                "give its path");
  EXPECT_EQ(line(server.url() + "/cat.png", {.max_bytes = 100}),
            server.url() + "/cat.png: expected an image of at most 100 B, found more; give a smaller image");
}

}  // namespace
}  // namespace tern::session
