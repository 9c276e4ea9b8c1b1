// Images that a server fetches for its clients: from whom it doesn't, and hosts that do what they shouldn't.
#include "server/image_fetcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <new>
#include <semaphore>
#include <string>
#include <vector>

#include "base/base64.h"
#include "base/strings.h"
#include "server/waiting_request.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/hub/fake_hub.h"

namespace tern::server {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using hub::FakeHub;
using hub::FakeReply;
using hub::FakeRequest;
using Sources = std::vector<std::string>;

engine::Dialogue dialogue_with(const Sources& sources) {
  engine::Dialogue dialogue;
  for (const std::string& source : sources) {
    dialogue.add_image(source, cat("field \"images[", dialogue.images.size(), "]\""));
  }
  return dialogue;
}

MediaOptions from(const Sources& domains) {
  MediaOptions options;
  options.allowed_domains = domains;
  options.timeout = 10s;
  return options;
}

// What the images become, or the error's line.
Sources fetched(ImageFetcher& fetcher, const Sources& sources) {
  engine::Dialogue dialogue = dialogue_with(sources);
  const auto far = fetcher.admit(dialogue);
  if (!far) return {far.error().line()};
  if (!*far) return dialogue.images;
  std::promise<Sources> done;
  (void)fetcher.fetch(dialogue, [&](Result<Sources>&& images) {
    done.set_value(images ? std::move(*images) : Sources{images.error().line()});
  });
  return done.get_future().get();
}

Sources fetched(const MediaOptions& options, const Sources& sources) {
  ImageFetcher fetcher(options);
  return fetched(fetcher, sources);
}

std::string line(const MediaOptions& options, const std::string& source) { return fetched(options, {source}).front(); }

std::string url_of(const std::string& bytes) { return "data:image;base64," + encode_base64(bytes); }

std::string found(const std::string& what) {
  return "field \"images[0]\": expected the URL of an image, found " + what +
         "; correct it, or send the image itself: data:image/png;base64,...";
}

FakeReply redirect(const std::string& to, int status = 302) {
  return {.status = status, .body = "moved", .headers = {"Location: " + to}};
}

TEST(ImageFetcher, FetchesNothingByItself) {
  FakeHub web([](const FakeRequest&) { return FakeReply{.body = "x"}; });
  EXPECT_EQ(line({}, web.url() + "/a"),
            cat("field \"images[0]\": expected a data: URL, as this server fetches nothing (--allowed_media_domains), "
                "found ",
                web.url(), "/a; send the image itself: data:image/png;base64,..."));
  EXPECT_EQ(line({}, "file:///etc/passwd"),
            "field \"images[0]\": expected a data: URL, as this server reads no files (--allowed_local_media_path), "
            "found file:///etc/passwd; send the image itself: data:image/png;base64,...");
  EXPECT_EQ(line(from({"*"}), "/etc/passwd"),
            "field \"images[0]\": expected a URL, found /etc/passwd; write it as https://host/path");
  EXPECT_EQ(fetched({}, {"data:image/png;base64,AA=="}), Sources{"data:image/png;base64,AA=="});
  EXPECT_TRUE(web.requests().empty());
}

TEST(ImageFetcher, AsksTheHostsThatWereNamed) {
  FakeHub web([](const FakeRequest& request) { return FakeReply{.body = request.target}; });
  const Sources wanted{url_of("/a"), "data:image/png;base64,AA==", url_of("/b?c"), url_of("/a")};
  EXPECT_EQ(
      fetched(from({"example.com", "127.0.0.1"}), {web.url() + "/a", wanted[1], web.url() + "/b?c", web.url() + "/a"}),
      wanted);
  EXPECT_EQ(line(from({"example.com", "EXAMPLE.org"}), web.url() + "/a"),
            "field \"images[0]\": expected a URL at one of the hosts that this server asks for images "
            "(--allowed_media_domains), found 127.0.0.1; send the image itself: data:image/png;base64,...");
  // A name is that name alone: neither what is below it, nor what begins or ends like it.
  for (const char* host : {"a.example.com", "example.com.evil.test", "notexample.com", "example.comm"}) {
    EXPECT_NE(line(from({"example.com"}), cat("https://", host, "/a")).find("one of the hosts"), std::string::npos);
  }
  EXPECT_EQ(web.requests().size(), 3U);
}

// Whoever may name any host must not reach what the server reaches: not by address, not by name, not by a redirect.
TEST(ImageFetcher, ReachesNoPrivateAddressThatNobodyNamed) {
  FakeHub inside([](const FakeRequest&) { return FakeReply{.body = "secret"}; });
  const std::string port = inside.url().substr(inside.url().rfind(':'));
  for (const std::string& url : {inside.url(), "http://localhost" + port, "http://2130706433" + port,
                                 "http://[::ffff:127.0.0.1]" + port, "http://0.0.0.0" + port}) {
    EXPECT_EQ(line(from({"*"}), url + "/a"), found("a host whose address is not public")) << url;
  }
  FakeHub web([&](const FakeRequest& request) {
    if (request.target == "/metadata") return redirect("http://169.254.169.254/latest/meta-data/");
    if (request.target == "/inside") return redirect("http://localhost" + port + "/a", 307);
    if (request.target == "/file") return redirect("file:///etc/passwd");
    return FakeReply{.status = 404};
  });
  EXPECT_EQ(line(from({"*", "127.0.0.1"}), web.url() + "/metadata"), found("a host whose address is not public"));
  EXPECT_EQ(line(from({"*", "127.0.0.1"}), web.url() + "/inside"), found("a host whose address is not public"));
  EXPECT_EQ(line(from({"*", "127.0.0.1"}), web.url() + "/file"), found("a redirect to something less safe"));
  // A host that was named sends on to one that wasn't.
  for (const char* path : {"/metadata", "/inside"}) {
    EXPECT_NE(line(from({"127.0.0.1"}), web.url() + path).find("expected a URL at one of the hosts"),
              std::string::npos);
  }
  EXPECT_TRUE(inside.requests().empty());
}

TEST(ImageFetcher, FollowsRedirectsWhereTheyMayBeFollowed) {
  FakeHub web([](const FakeRequest& request) {
    if (request.target == "/a") return redirect("/b");
    if (request.target == "/b") return redirect("c", 308);
    return request.target == "/loop" ? redirect("/loop") : FakeReply{.body = "image"};
  });
  MediaOptions options = from({"127.0.0.1"});
  EXPECT_EQ(line(options, web.url() + "/a"), url_of("image"));
  EXPECT_EQ(line(options, web.url() + "/loop"), found("more than 10 redirects"));
  options.allow_redirects = false;
  EXPECT_EQ(line(options, web.url() + "/a"), found("a redirect, which this server doesn't follow"));
  EXPECT_EQ(line(options, web.url() + "/c"), url_of("image"));
}

TEST(ImageFetcher, SaysWhatAHostDidWrong) {
  FakeHub web([](const FakeRequest& request) {
    if (request.target == "/cut") return FakeReply{.body = std::string(1000, 'x'), .cut_after = 500};
    if (request.target == "/huge") return FakeReply{.body = std::string(300'000, 'x')};
    if (request.target == "/gone") return FakeReply{.status = 404, .body = "gone"};
    return FakeReply{.status = 404, .body = std::string(300'000, 'x')};
  });
  MediaOptions options = from({"127.0.0.1"});
  options.max_bytes = 299'999;
  EXPECT_EQ(line(options, web.url() + "/huge"), found("more than 293.0 KiB of images in one request"));
  EXPECT_NE(line(options, web.url() + "/cut").find("field \"images[0]\": expected the URL of an image, found "),
            std::string::npos);
  EXPECT_EQ(line(options, web.url() + "/gone"), found("the answer 404"));
  EXPECT_NE(line(options, web.url() + "/none"), url_of(std::string(300'000, 'x')));
  options.max_bytes = 300'000;
  EXPECT_EQ(line(options, web.url() + "/huge"), url_of(std::string(300'000, 'x')));
  // What they have together counts.
  EXPECT_EQ(fetched(options, {web.url() + "/huge", web.url() + "/huge"}).size(), 1U);
  EXPECT_EQ(line(options, "http://127.0.0.1:1/a"), found("Couldn't connect to server"));
  EXPECT_EQ(fetched(options, Sources(129, web.url() + "/a")).front(),
            "field \"images[128]\": expected at most 128 images by URL in a request, found one more; send fewer, or "
            "send them as data: URLs");
}

// What is on its way takes so much memory at most, and gives it back.
TEST(ImageFetcher, BoundsTheMemoryOfAll) {
  FakeHub web([](const FakeRequest&) { return FakeReply{.body = std::string(300'000, 'x')}; });
  MediaOptions options = from({"127.0.0.1"});
  options.max_total_bytes = 299'999;
  EXPECT_EQ(line(options, web.url() + "/a"),
            "the images of other requests take all the memory that there is for them; come again in a moment.");
  options.max_total_bytes = 300'000;
  ImageFetcher fetcher(options);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(fetched(fetcher, {web.url() + "/a"}).front().size(), 400'018U);
}

// A host that answers when the test lets it.
class SlowHost {
 public:
  SlowHost() : web_([this](const FakeRequest&) { return open_.wait(), FakeReply{.body = "late"}; }) {}
  ~SlowHost() { open(); }
  [[nodiscard]] std::string url() const { return web_.url() + "/a"; }
  void open() {
    if (!opened_) door_.set_value();
    opened_ = true;
  }
  bool is_asked() {
    for (int i = 0; i < 1000 && web_.requests().empty(); ++i) std::this_thread::sleep_for(10ms);
    return !web_.requests().empty();
  }

 private:
  bool opened_ = false;
  std::promise<void> door_;
  std::shared_future<void> open_ = door_.get_future().share();
  FakeHub web_;
};

TEST(ImageFetcher, WaitsNoLongerThanItMay) {
  SlowHost slow;
  MediaOptions options = from({"127.0.0.1"});
  options.timeout = 250ms;
  EXPECT_EQ(line(options, slow.url()), found("no whole answer within 0.25 seconds"));
  slow.open();
}

TEST(ImageFetcher, LetsGoOfWhatNobodyWaitsFor) {
  SlowHost slow;
  ImageFetcher fetcher(from({"127.0.0.1"}));
  std::promise<Sources> done;
  const auto told = [&](Result<Sources>&& images) {
    done.set_value(images ? std::move(*images) : Sources{images.error().line()});
  };
  const auto fetch = fetcher.fetch(dialogue_with({slow.url()}), told);
  EXPECT_TRUE(slow.is_asked());
  EXPECT_EQ(fetcher.waiting(), 1U);
  fetch.lock()->cancel();
  EXPECT_NE(done.get_future().get().front(), url_of("late"));
  EXPECT_EQ(fetcher.waiting(), 0U);
  slow.open();
}

// The end of the fetcher tells those who wait, also those whose turn hasn't come.
TEST(ImageFetcher, EndsWithWhatIsOnItsWay) {
  SlowHost slow;
  int told = 0;
  std::mutex mutex;
  {
    ImageFetcher fetcher(from({"127.0.0.1"}));
    for (int i = 0; i < 40; ++i) {
      (void)fetcher.fetch(dialogue_with({slow.url()}), [&](Result<Sources>&& images) {
        const std::scoped_lock lock(mutex);
        told += images ? 0 : 1;
      });
    }
    EXPECT_TRUE(slow.is_asked());
  }
  EXPECT_EQ(told, 40);
  slow.open();
}

// A host that doesn't answer holds a part of the threads, however many requests ask it.
TEST(ImageFetcher, LeavesThreadsToOtherHosts) {
  SlowHost slow;
  FakeHub web([](const FakeRequest&) { return FakeReply{.body = "x"}; });
  ImageFetcher fetcher(from({"127.0.0.1", "localhost"}));
  std::atomic<int> told = 0;
  for (int i = 0; i < 40; ++i) {
    (void)fetcher.fetch(dialogue_with(Sources(4, slow.url())),
                        [&](Result<Sources>&& images) { told += images ? 1 : 0; });
  }
  EXPECT_TRUE(slow.is_asked());
  const std::string port = web.url().substr(web.url().rfind(':'));
  EXPECT_EQ(fetched(fetcher, {cat("http://localhost", port, "/a")}), Sources{url_of("x")});
  EXPECT_EQ(told, 0);
  slow.open();
  for (int i = 0; i < 1000 && told < 40; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(told, 40);
}

// A request with one image isn't behind all those of requests that came before it.
TEST(ImageFetcher, TakesTurnsAmongRequests) {
  std::counting_semaphore<> answers(0);
  FakeHub web([&](const FakeRequest&) { return answers.acquire(), FakeReply{.body = "x"}; });
  ImageFetcher fetcher(from({"127.0.0.1"}));
  std::promise<void> all, one;
  std::atomic<int> many = 2;
  for (int i = 0; i < 2; ++i) {
    (void)fetcher.fetch(dialogue_with(Sources(100, web.url() + "/many")), [&](Result<Sources>&& images) {
      EXPECT_TRUE(images);
      if (--many == 0) all.set_value();
    });
  }
  for (int i = 0; i < 1000 && web.requests().size() < 8; ++i) std::this_thread::sleep_for(10ms);
  ASSERT_EQ(web.requests().size(), 8U);
  (void)fetcher.fetch(dialogue_with({web.url() + "/one"}), [&](Result<Sources>&& images) {
    EXPECT_TRUE(images);
    one.set_value();
  });
  answers.release(60);  // no request has all its images by then
  EXPECT_EQ(one.get_future().wait_for(10s), std::future_status::ready);
  EXPECT_EQ(many, 2);
  answers.release(1000);
  all.get_future().wait();
}

class KeptEnd : public AnswerSink {
 public:
  void piece(AnswerPiece&& /*piece*/) override {}
  void ended(const AnswerEnd& /*end*/) override {}
  void finished(const TokenUsage& /*usage*/) override {}
  void failed(const Error& error, int status) override { told_.set_value(cat(status, " ", error.line())); }
  std::string end() { return told_.get_future().get(); }

 private:
  std::promise<std::string> told_;
};

// A request that can't begin once its images are there is told so: its client would wait for ever.
TEST(WaitingRequest, TellsThatItCannotBegin) {
  FakeHub web([](const FakeRequest&) { return FakeReply{.body = "x"}; });
  ImageFetcher fetcher(from({"127.0.0.1"}));
  const auto end_of = [&](const WaitingRequest::Begin& begin) {
    const auto sink = std::make_shared<KeptEnd>();
    std::make_shared<WaitingRequest>(sink)->wait(fetcher, dialogue_with({web.url() + "/a"}), nullptr, begin);
    return sink->end();
  };
  EXPECT_EQ(end_of([](Sources&&) -> std::shared_ptr<RequestHandle> { throw std::bad_alloc(); }),
            "500 the request could not be answered; look at the server's log.");
  EXPECT_EQ(end_of([](Sources&&) -> std::shared_ptr<RequestHandle> { throw Failure(failed_error("a", "b")); }),
            "500 a; b.");
}

TEST(ImageFetcher, ReadsFilesBelowItsFolderAlone) {
  const test::TempDir dir;
  fs::create_directories(dir / "media/deep");
  fs::create_directories(dir / "media2");
  (void)dir.write("media/deep/a b.png", "x");
  (void)dir.write("media/100%.png", "x");
  (void)dir.write("media2/c.png", "x");
  (void)dir.write("secret.png", "x");
  fs::create_symlink(dir / "secret.png", dir / "media/link.png");
  MediaOptions options;
  options.allowed_local_path = dir / "media";
  const std::string base = "file://" + (dir / "media").string();
  const std::string real = "file://" + fs::canonical(dir / "media/deep/a b.png").string();
  EXPECT_EQ(line(options, base + "/deep/a b.png"), real);
  EXPECT_EQ(line(options, base + "/deep/a%20b.png"), real);
  EXPECT_EQ(line(options, base + "/deep/../deep/a%20b.png"), real);
  EXPECT_EQ(line(options, base + "/100%.png"), "file://" + fs::canonical(dir / "media/100%.png").string());
  // One that isn't there and one that may not be read are told in the same words.
  for (const std::string path :
       {"/../secret.png", "/%2e%2e/secret.png", "/link.png", "/none.png", "/../media2/c.png", ""}) {
    EXPECT_NE(line(options, base + path).find("expected a file below the folder that this server reads"),
              std::string::npos)
        << path;
  }
  EXPECT_NE(line(options, "file:///etc/passwd").find("expected a file below"), std::string::npos);
}

}  // namespace
}  // namespace tern::server
