// The pages that are built into the program.
#include "server/pages/pages.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace tern::server {
namespace {

std::string text_of(const Page& page) { return {reinterpret_cast<const char*>(page.body.data()), page.body.size()}; }

bool ours(const Page& page) { return page.path.find("/katex/") == std::string_view::npos; }

// Broken if an asset were left out, cut short or given under another's path.
TEST(Pages, GivesEveryAssetToTheByte) {
  std::size_t assets = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TERN_SOURCE_DIR "/server/pages/assets")) {
    const std::string name = entry.path().filename();
    const std::string path = name == "chat.html"       ? "/"
                             : name.ends_with(".html") ? "/" + name.substr(0, name.size() - 5)
                                                       : "/pages/" + name;
    const Page* page = find_page(path);
    ASSERT_NE(page, nullptr) << path;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string wanted{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(text_of(*page), wanted) << path;
    ++assets;
  }
  std::size_t found = 0;
  std::set<std::string_view> etags;
  for (const Page& page : all_pages()) {
    found += ours(page) ? 1 : 0;
    EXPECT_EQ(find_page(page.path), &page);
    EXPECT_TRUE(etags.insert(page.etag).second) << page.path << " has the ETag of another page";
    EXPECT_TRUE(std::regex_match(std::string(page.etag), std::regex("\"[0-9a-f]{16}\""))) << page.etag;
  }
  EXPECT_EQ(found, assets);
  EXPECT_GT(assets, 15U);
}

TEST(Pages, NoOtherPathIsAPage) {
  for (const std::string_view path : {"", "/pages", "/pages/", "/chat.html", "/dashboard/", "//",
                                      "/pages/../pages/chat.js", "/pages/chat.js/", "/metrics"}) {
    EXPECT_EQ(find_page(path), nullptr) << path;
  }
}

// Browsers run no module and use no style that comes under another type.
TEST(Pages, ContentTypes) {
  EXPECT_EQ(find_page("/")->content_type, "text/html; charset=utf-8");
  EXPECT_EQ(find_page("/dashboard")->content_type, "text/html; charset=utf-8");
  EXPECT_EQ(find_page("/pages/chat.js")->content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(find_page("/pages/base.css")->content_type, "text/css; charset=utf-8");
  EXPECT_EQ(find_page("/pages/icon.svg")->content_type, "image/svg+xml");
  EXPECT_EQ(find_page("/pages/licences.txt")->content_type, "text/plain; charset=utf-8");
  EXPECT_EQ(find_page("/pages/katex/fonts/KaTeX_Main-Regular.woff2")->content_type, "font/woff2");
}

// Broken if a page asked another host for anything. The names of XML's vocabularies and the licences are no requests.
TEST(Pages, NameNoOtherHost) {
  const std::regex address(R"((https?:)?//[a-z0-9-]+(\.[a-z0-9-]+)+[^\s"'`)]*)");
  for (const Page& page : all_pages()) {
    if (page.path == "/pages/licences.txt" || page.content_type == "font/woff2") continue;
    const std::string text = text_of(page);
    for (std::sregex_iterator at(text.begin(), text.end(), address), end; at != end; ++at) {
      EXPECT_TRUE(at->str().starts_with("http://www.w3.org/")) << page.path << ": " << at->str();
    }
  }
}

// What a page loads is a page; nothing in them is what the policy forbids.
TEST(Pages, LoadOnlyWhatIsThereAndNothingInline) {
  const std::regex reference(R"re((?:src|href)="(/[^"#]*)"|from "\.(/[^"]+)"|(?:src|href): "(/[^"]+)")re");
  const std::regex in_line(R"re(<script(?![^>]*src=)|<style|\son[a-z]+="|\sstyle="|javascript:)re");
  const std::regex as_html(R"(innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function\()");
  for (const Page& page : all_pages()) {
    if (!ours(page)) continue;
    const std::string text = text_of(page);
    if (page.content_type.starts_with("text/html")) {
      EXPECT_FALSE(std::regex_search(text, in_line)) << page.path;
    }
    if (!page.content_type.starts_with("text/plain")) {
      EXPECT_FALSE(std::regex_search(text, as_html)) << page.path;
    }
    for (std::sregex_iterator at(text.begin(), text.end(), reference), end; at != end; ++at) {
      const std::string path = (*at)[2].matched ? "/pages" + at->str(2) : at->str(1) + at->str(3);
      EXPECT_NE(find_page(path), nullptr) << page.path << " loads " << path;
    }
  }
  const std::string style = text_of(*find_page("/pages/katex/katex.min.css"));
  const std::regex font(R"(url\((fonts/[^)]*\.woff2)\))");
  for (std::sregex_iterator at(style.begin(), style.end(), font), end; at != end; ++at) {
    EXPECT_NE(find_page("/pages/katex/" + at->str(1)), nullptr) << at->str(1);
  }
}

TEST(Pages, PolicyAllowsNoInlineScript) {
  EXPECT_NE(kPagePolicy.find("default-src 'self'"), std::string_view::npos);
  EXPECT_EQ(kPagePolicy.find("unsafe"), std::string_view::npos);
  EXPECT_EQ(kPagePolicy.find("script-src"), std::string_view::npos);  // default-src holds for it
}

// The program grows by this: a library that came along would show here.
TEST(Pages, AreSmall) {
  std::size_t ours_bytes = 0;
  std::size_t all_bytes = 0;
  for (const Page& page : all_pages()) {
    all_bytes += page.body.size();
    ours_bytes += ours(page) ? page.body.size() : 0;
  }
  EXPECT_LT(ours_bytes, 192U << 10);
  EXPECT_LT(all_bytes, 900U << 10);
}

}  // namespace
}  // namespace tern::server
