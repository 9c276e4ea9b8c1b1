#include "hub/hub.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>

#include "base/strings.h"
#include "fake_hub.h"
#include "io/checksum.h"
#include "tests/support/temp_dir.h"

namespace tern::hub {
namespace {

namespace fs = std::filesystem;

const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";

std::string sha256(const std::string& text) {
  io::Digest digest = io::Digest::sha256();
  digest.update(std::as_bytes(std::span(text)));
  return digest.hex();
}

std::string git_sha1(const std::string& text) {
  io::Digest digest = io::Digest::git_sha1(text.size());
  digest.update(std::as_bytes(std::span(text)));
  return digest.hex();
}

std::string weights() {
  std::string out(300'000, 'w');
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<char>(i * 7919 >> 3);
  return out;
}

// A Hugging Face with one repository; `fault` may answer a request its own way.
class FakeHuggingFace {
 public:
  using Fault = std::function<bool(const FakeRequest&, FakeReply&)>;
  explicit FakeHuggingFace(Fault fault = {})
      : fault_(std::move(fault)), hub_([this](const FakeRequest& request) { return answer(request); }) {}

  HubOptions options(const test::TempDir& dir) const {
    HubOptions options;
    options.endpoint = hub_.url();
    options.cache = dir.path();
    options.first_wait = 0.001;
    return options;
  }
  FakeHub& hub() { return hub_; }
  std::string listing =
      R"({"sha":")" + kCommit + R"(","siblings":[{"rfilename":"config.json","size":2,"blobId":")" + git_sha1("{}") +
      R"("},{"rfilename":"pytorch_model.bin","size":9},{"rfilename":"sub/model.safetensors","size":300000,"blobId":"x","lfs":{"sha256":")" +
      sha256(weights()) + R"(","size":300000}}]})";

 private:
  FakeReply answer(const FakeRequest& request) {
    FakeReply reply;
    if (fault_ && fault_(request, reply)) return reply;
    if (request.target.starts_with("/api/models/org/name/revision/main")) return {200, listing, {}};
    if (request.target == "/org/name/resolve/" + kCommit + "/config.json") return {200, "{}", {}};
    if (request.target == "/org/name/resolve/" + kCommit + "/sub/model.safetensors")
      return {302, "", {"Location: " + hub_.url() + "/cdn/blob"}};
    if (request.target == "/cdn/blob") return ranged(request, weights());
    return {404, "", {}};
  }

  static FakeReply ranged(const FakeRequest& request, const std::string& body) {
    const auto range = request.headers.find("range");
    if (range == request.headers.end()) return {200, body, {}};
    const auto from = static_cast<std::size_t>(std::stoull(range->second.substr(6)));
    return {206,
            body.substr(from),
            {"Content-Range: bytes " + std::to_string(from) + "-" + std::to_string(body.size() - 1) + "/" +
             std::to_string(body.size())}};
  }

  Fault fault_;
  FakeHub hub_;
};

HubId model() { return parse_hub_id("hf::org/name", HubKind::model, false).value(); }

TEST(Hub, FillsHuggingFacesOwnCacheAndIsThenOffline) {
  test::TempDir dir;
  FakeHuggingFace fake;
  HubOptions options = fake.options(dir);
  options.token = "secret";
  std::uint64_t last = 0;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_LE(done, total);
    last = done;
    return true;
  };
  const auto path = fetch_repository(model(), options);
  ASSERT_TRUE(path.ok()) << path.error().line();
  EXPECT_EQ(*path, dir / ("models--org--name/snapshots/" + kCommit));
  EXPECT_EQ(last, 300'002U);
  EXPECT_EQ(dir.read("models--org--name/refs/main"), kCommit);
  EXPECT_EQ(dir.read("models--org--name/snapshots/" + kCommit + "/sub/model.safetensors"), weights());
  EXPECT_EQ(fs::read_symlink(*path / "sub/model.safetensors"), "../../../blobs/" + sha256(weights()));
  EXPECT_EQ(fs::read_symlink(*path / "config.json"), "../../blobs/" + git_sha1("{}"));
  EXPECT_FALSE(fs::exists(*path / "pytorch_model.bin"));
  for (const FakeRequest& request : fake.hub().requests())
    EXPECT_EQ(request.headers.at("authorization"), "Bearer secret");

  // Again: only the listing is asked for. Offline: nothing is.
  const std::size_t before = fake.hub().requests().size();
  EXPECT_TRUE(fetch_repository(model(), options).ok());
  EXPECT_EQ(fake.hub().requests().size(), before + 1);
  options.offline = true;
  EXPECT_EQ(fetch_repository(model(), options).value(), *path);
  EXPECT_EQ(fake.hub().requests().size(), before + 1);
  test::TempDir empty;
  options.cache = empty.path();
  EXPECT_NE(fetch_repository(model(), options).error().line().find("HF_HUB_OFFLINE"), std::string::npos);
}

// Broken if a cut connection loses what came before it, or if the parts do not make the whole.
TEST(Hub, ResumesAfterEveryCut) {
  test::TempDir dir;
  FakeHuggingFace fake([](const FakeRequest& request, FakeReply& reply) {
    if (request.target != "/cdn/blob" || request.number > 12) return false;  // more cuts than attempts
    const auto range = request.headers.find("range");
    const auto from = range == request.headers.end() ? 0U : std::stoull(range->second.substr(6));
    EXPECT_EQ(from, static_cast<unsigned long long>(request.number - 1) * 20'000);
    reply = {range == request.headers.end() ? 200 : 206, weights().substr(from), {}, 20'000};
    return true;
  });
  const auto path = fetch_repository(model(), fake.options(dir));
  ASSERT_TRUE(path.ok()) << path.error().line();
  EXPECT_EQ(dir.read("models--org--name/snapshots/" + kCommit + "/sub/model.safetensors"), weights());
}

TEST(Hub, StartsAgainWhereTheHubDoesNotResume) {
  test::TempDir dir;
  FakeHuggingFace fake([](const FakeRequest& request, FakeReply& reply) {
    if (request.target != "/cdn/blob") return false;
    reply = {200, weights(), {}, request.number == 1 ? std::size_t{1000} : ~std::size_t{0}};  // never 206
    return true;
  });
  ASSERT_TRUE(fetch_repository(model(), fake.options(dir)).ok());
  EXPECT_EQ(dir.read("models--org--name/snapshots/" + kCommit + "/sub/model.safetensors"), weights());
}

TEST(Hub, WaitsOutBusyHubs) {
  test::TempDir dir;
  FakeHuggingFace fake([](const FakeRequest& request, FakeReply& reply) {
    if (request.number > 2) return false;
    reply = {request.number == 1 ? 429 : 503, "busy", {"Retry-After: 0"}};
    return true;
  });
  EXPECT_TRUE(fetch_repository(model(), fake.options(dir)).ok());
  FakeHuggingFace never([](const FakeRequest&, FakeReply& reply) {
    reply = {429, "", {}};
    return true;
  });
  const std::string line = fetch_repository(model(), never.options(dir)).error().line();
  EXPECT_NE(line.find(" in 6 attempts: status 429; "), std::string::npos) << line;
}

struct Refusal {
  int status;
  const char* says;
};

class HubRefusals : public testing::TestWithParam<Refusal> {};

TEST_P(HubRefusals, AreOneClearLine) {
  for (const bool listing : {true, false}) {
    test::TempDir dir;
    FakeHuggingFace fake([&](const FakeRequest& request, FakeReply& reply) {
      if (request.target.starts_with("/api/") != listing) return false;
      reply = {GetParam().status, "no", {}};
      return true;
    });
    const auto path = fetch_repository(model(), fake.options(dir));
    ASSERT_FALSE(path.ok());
    EXPECT_NE(path.error().line().find(GetParam().says), std::string::npos) << path.error().line();
    EXPECT_EQ(path.error().kind, ErrorKind::data);
  }
}

INSTANTIATE_TEST_SUITE_P(Statuses, HubRefusals,
                         testing::Values(Refusal{401, "HF_TOKEN"}, Refusal{403, "access"}, Refusal{404, "hf:: or ms::"},
                                         Refusal{418, "418"}),
                         [](const auto& info) { return std::to_string(info.param.status); });

// Broken if content that is not what the hub promised ends up under its name.
TEST(Hub, RefusesWrongContent) {
  test::TempDir dir;
  std::string body = weights();
  body[150'000] ^= 1;
  FakeHuggingFace fake([&](const FakeRequest& request, FakeReply& reply) {
    if (request.target != "/cdn/blob") return false;
    reply = {200, body, {}};
    return true;
  });
  const auto path = fetch_repository(model(), fake.options(dir));
  ASSERT_FALSE(path.ok());
  EXPECT_NE(path.error().line().find("checksum"), std::string::npos) << path.error().line();
  EXPECT_FALSE(fs::exists(dir / ("models--org--name/blobs/" + sha256(weights()))));

  // A partial file that an earlier run left damaged is thrown away, and fetched anew.
  FakeHuggingFace sound;
  dir.write("models--org--name/blobs/" + sha256(weights()) + ".incomplete", std::string(100'000, 'x'));
  EXPECT_TRUE(fetch_repository(model(), sound.options(dir)).ok());
  EXPECT_EQ(dir.read("models--org--name/blobs/" + sha256(weights())), weights());
}

TEST(Hub, WritesNothingOutsideItsFolder) {
  for (const char* name : {"../evil", "/etc/evil", "a/../../evil", "a\\\\..\\\\evil", "", ".", "a//b", "a\\u0000b"}) {
    const std::string text = R"({"sha":")" + kCommit + R"(","siblings":[{"rfilename":")" + name + R"("}]})";
    EXPECT_FALSE(parse_hub_listing(Hub::hugging_face, text, "hub").ok()) << name;
    const std::string other = std::string(R"({"Data":{"Files":[{"Type":"blob","Path":")") + name + R"("}]}})";
    EXPECT_FALSE(parse_hub_listing(Hub::modelscope, other, "hub").ok()) << name;
  }
  for (const char* text :
       {"", "[]", "{}", R"({"sha":"../x","siblings":[]})", R"({"sha":5})", R"({"Data":{"Files":{}}})"}) {
    EXPECT_FALSE(parse_hub_listing(Hub::hugging_face, text, "hub").ok()) << text;
    EXPECT_FALSE(parse_hub_listing(Hub::modelscope, text, "hub").ok()) << text;
  }
}

TEST(Hub, SaysWhatItsReplyLacks) {
  const std::string sha = R"({"sha":")" + kCommit + R"(",)";
  const std::string no_hub = "; check the endpoint: it does not answer as the hub does";
  const std::string report = "; report the repository to its hub";
  std::string many = R"("siblings":[{"rfilename":"0"})";
  for (int i = 1; i <= 100'000; ++i) many += R"(,{"rfilename":")" + std::to_string(i) + R"("})";
  const std::pair<std::string, std::string> cases[] = {
      {"[]", "hub: expected an object, found []" + no_hub},
      {R"({"sha":"../x","siblings":[]})", R"(hub: field "sha": expected a commit, found "../x")" + no_hub},
      {sha + R"("a":1})", R"(hub: expected a field "siblings", found none)" + no_hub},
      {sha + R"("siblings":[{"rfilename":"../x"}]})",
       R"(hub: expected file names inside the repository, found "../x")" + report},
      {sha + R"("siblings":[{"rfilename":"x","lfs":{"size":-1}}]})",
       R"(hub: field "siblings[0].lfs.size": expected an integer of at least 0, found -1)" + no_hub},
      {sha + R"("siblings":[{"rfilename":"x","size":80000000000000}]})",
       "hub: x: expected a size below 2^46, found 80000000000000" + report},
      {sha + many + "]}",
       "hub: expected at most 100000 files, found more; fetch the files that are needed, and name their folder"},
  };
  for (const auto& [text, says] : cases) {
    EXPECT_EQ(parse_hub_listing(Hub::hugging_face, text, "hub").error().line(), says);
  }
  EXPECT_EQ(parse_hub_listing(Hub::modelscope, "{}", "hub").error().line(),
            R"(hub: expected an array "Data.Files", found none)" + no_hub);
  EXPECT_EQ(parse_hub_listing(Hub::modelscope, R"({"Message":"gone"})", "hub").error().line(),
            R"(hub: expected an array "Data.Files", found gone)" + no_hub);
}

TEST(Hub, SaysThatNothingIsToBeFetched) {
  test::TempDir dir;
  FakeHuggingFace fake;
  HubOptions options = fake.options(dir);
  options.wanted = [](const std::string&, const std::vector<std::string>&) { return false; };
  EXPECT_EQ(fetch_repository(model(), options).error().line(),
            "hf::org/name: expected files to fetch, found none in the repository; "
            "name a repository with a model's or a dataset's files");
}

// A fault of the program itself in a fetching thread ends the fetch, not the process.
TEST(Hub, ReportsWhatItsThreadsThrow) {
  test::TempDir dir;
  FakeHuggingFace fake;
  HubOptions options = fake.options(dir);
  options.parallel = 4;
  options.progress = [](std::uint64_t, std::uint64_t) -> bool { throw std::runtime_error("no terminal"); };
  EXPECT_EQ(fetch_repository(model(), options).error().line(),
            "cannot fetch hf::org/name: no terminal; run it again; what was fetched is kept.");
}

TEST(Hub, FillsModelScopesOwnCache) {
  test::TempDir dir;
  FakeHub fake([&](const FakeRequest& request) -> FakeReply {
    if (request.target == "/api/v1/models/org/name/repo/files?Revision=master&Recursive=True") {
      return {
          200,
          R"({"Code":200,"Data":{"Files":[{"Type":"tree","Path":"sub"},{"Type":"blob","Path":"sub/a.json","Size":2,"Sha256":")" +
              sha256("{}") + R"("}]}})",
          {}};
    }
    if (request.target == "/api/v1/models/org/name/repo?Revision=master&FilePath=sub%2Fa.json") return {200, "{}", {}};
    return {404, "", {}};
  });
  HubOptions options;
  options.endpoint = fake.url();
  options.cache = dir.path();
  options.token = "t";
  const auto path = fetch_repository(parse_hub_id("org/name", HubKind::model, false).value(), options);
  ASSERT_TRUE(path.ok()) << path.error().line();
  EXPECT_EQ(*path, dir / "models/org--name/snapshots/master");
  EXPECT_EQ(dir.read("models/org--name/snapshots/master/sub/a.json"), "{}");
  EXPECT_EQ(fake.requests().front().headers.at("cookie"), "m_session_id=t");
}

// Two processes at once: each file is fetched by one of them, and both end with the whole.
TEST(Hub, SharesTheCacheBetweenProcesses) {
  test::TempDir dir;
  FakeHuggingFace fake;
  const HubOptions options = fake.options(dir);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(fetch_repository(model(), options).ok() ? 0 : 1);
  EXPECT_TRUE(fetch_repository(model(), options).ok());
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  int blobs = 0;
  for (const FakeRequest& request : fake.hub().requests()) blobs += request.target == "/cdn/blob" ? 1 : 0;
  EXPECT_EQ(blobs, 1);
}

TEST(Hub, StopsWhenAskedAndKeepsWhatCame) {
  test::TempDir dir;
  FakeHuggingFace fake;
  HubOptions options = fake.options(dir);
  options.parallel = 1;
  options.progress = [](std::uint64_t done, std::uint64_t) { return done < 100'000; };
  const auto path = fetch_repository(model(), options);
  ASSERT_FALSE(path.ok());
  EXPECT_NE(path.error().line().find("kept"), std::string::npos) << path.error().line();
  EXPECT_GT(fs::file_size(dir / ("models--org--name/blobs/" + sha256(weights()) + ".incomplete")), 50'000U);
}

TEST(Hub, SaysThatTheDiskIsTooSmallBeforeFetching) {
  test::TempDir dir;
  FakeHuggingFace fake;
  fake.listing = R"({"sha":")" + kCommit + R"(","siblings":[{"rfilename":"model.safetensors","size":70000000000000}]})";
  const auto path = fetch_repository(model(), fake.options(dir));
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().kind, ErrorKind::failed);
  EXPECT_NE(path.error().line().find("the download needs 63.7 TiB, and "), std::string::npos) << path.error().line();
  EXPECT_EQ(fake.hub().requests().size(), 1U);
}

TEST(Hub, ChoosesOneOfManyGgufModels) {
  const std::vector<std::string> all = {"README.md",
                                        "m-Q4_K_M.gguf",
                                        "m-q8_0.gguf",
                                        "m-UD-Q8_0.gguf",
                                        "BF16/m-BF16-00002-of-00002.gguf",
                                        "BF16/m-BF16-00001-of-00002.gguf",
                                        "mmproj-F16.gguf"};
  const auto chosen = [&](const std::string& select) {
    const auto parts = choose_gguf(all, select, "org/m");
    return parts.ok() ? join(*parts, " ") : parts.error().line();
  };
  EXPECT_EQ(chosen("Q4_K_M"), "m-Q4_K_M.gguf");
  EXPECT_EQ(chosen("q4_k_m"), "m-Q4_K_M.gguf");
  EXPECT_EQ(chosen("m-q8_0.gguf"), "m-q8_0.gguf") << "a whole name is one file, though a quantisation ends two";
  const std::string both = "BF16/m-BF16-00001-of-00002.gguf BF16/m-BF16-00002-of-00002.gguf";
  for (const char* name : {"bf16", "BF16/m-BF16.gguf", "m-BF16-00002-of-00002.gguf"}) EXPECT_EQ(chosen(name), both);
  EXPECT_EQ(chosen("mmproj-F16.gguf"), "mmproj-F16.gguf");
  EXPECT_NE(chosen("Q8_0").find("m-UD-Q8_0.gguf, m-q8_0.gguf"), std::string::npos) << chosen("Q8_0");
  EXPECT_NE(chosen("K_M").find("m-Q4_K_M.gguf"), std::string::npos);
  EXPECT_NE(chosen("4_K_M").find("found none"), std::string::npos) << "half a word";
  EXPECT_NE(chosen("").find("found 4 of them"), std::string::npos) << chosen("");
  EXPECT_FALSE(choose_gguf({"a.json"}, "", "org/m").ok());
  EXPECT_EQ(choose_gguf({"a.gguf", "mmproj.gguf"}, "", "org/m").value(), std::vector<std::string>{"a.gguf"});
}

TEST(Hub, ChoosesTheTowerBesideAModel) {
  const std::vector<std::string> all = {"m-Q4_K_M.gguf",
                                        "mmproj-m-BF16.gguf",
                                        "mmproj-m-Q8_0.gguf",
                                        "mmproj-m-f32.gguf",
                                        "big/m-BF16-00001-of-00002.gguf",
                                        "other/mmproj-m-F16.gguf",
                                        "mmproj.txt"};
  EXPECT_EQ(choose_mmproj(all, "m-Q4_K_M.gguf"), "mmproj-m-Q8_0.gguf") << "the nearest number of bits";
  EXPECT_EQ(choose_mmproj(all, "m-f32.gguf"), "mmproj-m-f32.gguf");
  EXPECT_EQ(choose_mmproj(all, "big/m-BF16-00001-of-00002.gguf"), "mmproj-m-BF16.gguf") << "a folder above";
  EXPECT_EQ(choose_mmproj(all, "other/m-Q4_0.gguf"), "other/mmproj-m-F16.gguf") << "the nearest folder first";
  EXPECT_EQ(choose_mmproj({"m.gguf", "sub/mmproj.gguf"}, "m.gguf"), "") << "none below";
  EXPECT_EQ(choose_mmproj({"m.gguf", "mmproj.gguf"}, "m.gguf"), "mmproj.gguf");
}

TEST(Hub, ReadsIdsAndVariables) {
  EXPECT_EQ(parse_hub_id("org/name", HubKind::model, false)->hub, Hub::modelscope);
  EXPECT_EQ(parse_hub_id("org/name", HubKind::model, true)->hub, Hub::hugging_face);
  EXPECT_EQ(parse_hub_id("ms::org/name", HubKind::model, true)->hub, Hub::modelscope);
  EXPECT_EQ(parse_hub_id("hf::org/na.me-1", HubKind::model, false, "v1")->repository, "org/na.me-1");
  for (const char* text : {"name", "a/b/c", "../name", "org/..", "org/", "/x", "hf::x", "org/na me", "xx::a/b"}) {
    EXPECT_FALSE(parse_hub_id(text, HubKind::model, false).ok()) << text;
  }
  EXPECT_FALSE(parse_hub_id("org/name", HubKind::model, false, "../x").ok());

  test::TempDir dir;
  dir.write("token", "abc\n");
  ::setenv("HF_HOME", dir.path().c_str(), 1);
  ::setenv("HF_ENDPOINT", "https://mirror.example/", 1);
  ::setenv("HF_HUB_OFFLINE", "1", 1);
  for (const char* name : {"HF_TOKEN", "HF_HUB_CACHE"}) ::unsetenv(name);
  const HubOptions options = hub_options_from_environment(Hub::hugging_face);
  EXPECT_EQ(options.endpoint, "https://mirror.example");
  EXPECT_EQ(options.cache, dir / "hub");
  EXPECT_EQ(options.token, "abc");
  EXPECT_TRUE(options.offline);
  for (const char* name : {"HF_HOME", "HF_ENDPOINT", "HF_HUB_OFFLINE"}) ::unsetenv(name);
}

TEST(Digest, MatchesPublishedValues) {
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");  // FIPS 180-4
  EXPECT_EQ(git_sha1(""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");                           // git's empty blob
}

}  // namespace
}  // namespace tern::hub
