// tern infer at a terminal: what is typed, answered and stopped there.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <stdexcept>
#include <thread>

#include "run.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

using Clock = std::chrono::steady_clock;

// The program at a terminal of its own; stderr goes there too, as a user sees it.
class Terminal {
 public:
  Terminal(std::vector<std::string> words, const std::filesystem::path& home) {
    screen_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (screen_ < 0 || grantpt(screen_) != 0 || unlockpt(screen_) != 0) throw std::runtime_error(std::strerror(errno));
    const std::string name = ptsname(screen_);
    words.insert(words.begin(), TERN_PROGRAM);
    child_ = fork();
    if (child_ != 0) return;
    setsid();
    const int terminal = open(name.c_str(), O_RDWR);
    ioctl(terminal, TIOCSCTTY, 0);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(terminal, fd);
    setenv("TERN_HOME", home.c_str(), 1);
    setenv("TERM", "dumb", 1);
    setenv("LC_ALL", "C", 1);  // as in a container
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Terminal() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    close(screen_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Types it as a user does; "\x03" is Ctrl-C.
  void type(const std::string& text) const {
    ASSERT_EQ(write(screen_, text.data(), text.size()), ssize_t(text.size()));
  }
  void send(int signal) const { kill(child_, signal); }

  // Reads until `text` stands on the screen beyond what was waited for before.
  void expect(const std::string& text) {
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    std::size_t found = std::string::npos;
    while ((found = seen_.find(text, at_)) == std::string::npos) {
      if (Clock::now() > deadline || !read_more()) {
        FAIL() << "never came: " << text << "\non the screen: " << seen_.substr(at_);
      }
    }
    at_ = found + text.size();
  }
  // Waits for the prompt, and until the program reads key by key: what is typed before is the terminal's own to echo,
  // and to drop at Ctrl-C.
  void expect_prompt(const std::string& prompt = "<<< ") {
    expect(prompt);
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    termios state{};
    while (tcgetattr(screen_, &state) == 0 && (state.c_lflag & ICANON) != 0) {
      ASSERT_LT(Clock::now(), deadline) << seen_;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // So many further bytes on the screen.
  void expect_more(std::size_t bytes) {
    const std::size_t until = seen_.size() + bytes;
    while (seen_.size() < until) ASSERT_TRUE(read_more()) << seen_;
    at_ = seen_.size();
  }
  // The exit status; 128 + signal where one ended it.
  int wait() {
    while (read_more()) {
    }
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  [[nodiscard]] const std::string& seen() const { return seen_; }

 private:
  bool read_more() {
    pollfd end = {screen_, POLLIN, 0};
    if (poll(&end, 1, 60'000) <= 0) return false;
    std::array<char, 4096> block{};
    const auto count = read(screen_, block.data(), block.size());
    if (count > 0) seen_.append(block.data(), static_cast<std::size_t>(count));
    return count > 0;
  }

  int screen_ = -1;
  pid_t child_ = -1;
  std::string seen_;
  std::size_t at_ = 0;
};

class AtATerminal : public ::testing::Test {
 protected:
  AtATerminal() {
    TinyModel model;
    model.max_positions = 20'000;
    write_tiny_model(scratch_.path() / "model", model);
  }
  [[nodiscard]] std::vector<std::string> infer(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"infer", "--model", (scratch_.path() / "model").string(), "--temperature", "0"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  [[nodiscard]] Terminal start(const std::vector<std::string>& more) const {
    return {infer(more), scratch_.path() / "home"};
  }

  Scratch scratch_;
};

constexpr const char* kCtrlC = "\x03";

TEST_F(AtATerminal, CtrlCStopsOneAnswerAndTheChatGoesOn) {
  Terminal terminal = start({});
  terminal.expect_prompt();
  terminal.type("tell me all\n");
  terminal.expect("tell me all\r\n");
  terminal.expect_more(20);  // of an answer of many thousand tokens
  terminal.type(kCtrlC);
  terminal.expect("stopping this answer");
  terminal.expect_prompt();
  terminal.type("and more\n");
  terminal.expect("and more\r\n");
  terminal.expect_more(20);
  terminal.type(kCtrlC);
  terminal.expect("stopping this answer");
  terminal.expect_prompt();
  terminal.type("exit\n");
  EXPECT_EQ(terminal.wait(), 0) << terminal.seen();
}

TEST_F(AtATerminal, WithoutStreamingAnAnswerComesWhole) {
  Terminal terminal = start({"--stream", "false"});
  terminal.expect_prompt();
  terminal.type("tell me all\n");
  terminal.expect("tell me all\r\n");
  const std::size_t asked = terminal.seen().size();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // in which a stream shows much
  terminal.type(kCtrlC);
  terminal.expect("tern: stopping this answer");
  EXPECT_EQ(terminal.seen().substr(asked, 4).find_first_not_of("^C\r\n"), std::string::npos) << terminal.seen();
  terminal.expect_prompt();
  const std::string shown = terminal.seen().substr(terminal.seen().find("leave at once"));
  EXPECT_GT(shown.size(), 40U) << "what there was of the answer: " << shown;
  terminal.type("exit\n");
  EXPECT_EQ(terminal.wait(), 0) << terminal.seen();
}

TEST_F(AtATerminal, CtrlCDropsALineAndAtAnEmptyPromptLeaves) {
  Terminal terminal = start({"--max_new_tokens", "4"});
  terminal.expect_prompt();
  terminal.type("half a quest");
  terminal.expect("half a quest");
  terminal.type(kCtrlC);
  terminal.expect_prompt();
  terminal.type("multi-line\n");
  terminal.expect_prompt("<<<[M] ");
  terminal.type("one line\n");
  terminal.expect_prompt("<<<[M] ");
  terminal.type(kCtrlC);  // drops the line before, too
  terminal.expect_prompt("<<<[M] ");
  terminal.type(kCtrlC);
  EXPECT_EQ(terminal.wait(), 0) << terminal.seen();
}

TEST_F(AtATerminal, AQuestionBeyondTheContextIsLeftOutAndTheChatGoesOn) {
  Terminal terminal = start({"--max_model_len", "100", "--max_new_tokens", "4"});
  terminal.expect_prompt();
  terminal.type(std::string(90, 'x') + "\n");
  terminal.expect("the question was left out: prompt: expected fewer than 100 tokens, found ");
  terminal.expect_prompt();
  terminal.type("short\n");  // which would not fit either, were the long one kept
  terminal.expect("short\r\n");
  terminal.expect_prompt();
  EXPECT_EQ(terminal.seen().find("left out", terminal.seen().find("short")), std::string::npos) << terminal.seen();
  terminal.type("quit\n");
  EXPECT_EQ(terminal.wait(), 0) << terminal.seen();
}

// Each question goes out with the system message and the dialogue that the words before it left.
TEST_F(AtATerminal, WordsOfMsSwift) {
  const auto file = scratch_.path() / "answers.jsonl";
  Terminal terminal = start({"--max_new_tokens", "2", "--result_path", file.string(), "--system", "Be brief."});
  const auto say = [&](const std::string& line, const std::string& prompt) {
    terminal.type(line + "\n");
    terminal.expect_prompt(prompt);
  };
  terminal.expect_prompt();
  say("one", "<<< ");
  say("Reset-System", "<<<[S] ");
  say("You count.", "<<< ");
  say("two", "<<< ");
  say("\x10", "<<< ");  // Ctrl-P: the line before
  say("MULTI-LINE", "<<<[M] ");
  say("reset-system", "<<<[MS] ");
  say("a", "<<<[MS] ");
  say("b#", "<<<[M] ");
  say("exit the room", "<<<[M] ");
  say("quit", "<<<[M] ");
  say("#", "<<<[M] ");
  say("single-line", "<<< ");
  say("reset-system", "<<<[S] ");
  say("default-system", "<<< ");
  say("three", "<<< ");
  say("clear", "<<< ");
  say("four", "<<< ");
  terminal.type("QUIT\n");
  EXPECT_EQ(terminal.wait(), 0) << terminal.seen();
  std::vector<std::string> asked;
  std::ifstream rows(file);
  for (std::string line; std::getline(rows, line);) {
    const std::regex content("\"role\":\"(system|user)\",\"content\":\"([^\"]*)\"");
    asked.emplace_back();
    for (std::sregex_iterator it(line.begin(), line.end(), content), end; it != end; ++it)
      asked.back() += (*it)[1].str().substr(0, 1) + ":" + (*it)[2].str() + ";";
  }
  const std::vector<std::string> wanted = {"s:Be brief.;u:one;",
                                           "s:You count.;u:two;",
                                           "s:You count.;u:two;u:two;",
                                           "s:a\\nb;u:exit the room\\nquit\\n;",
                                           "u:three;",
                                           "u:four;"};
  EXPECT_EQ(asked, wanted) << terminal.seen();
}

// Whatever the locale is, each character is one, and none is lost.
TEST_F(AtATerminal, LinesAreUtf8) {
  const auto file = scratch_.path() / "answers.jsonl";
  Terminal terminal = start({"--max_new_tokens", "2", "--result_path", file.string()});
  for (const char* line : {"h\u00e9\u00e9\U0001f600\x7f\x7fz\n", "\u6f22\u5b57\x02!\n",
                           "a\xff"
                           "b\n"}) {
    terminal.expect_prompt();
    terminal.type(line);
  }
  terminal.expect_prompt();
  terminal.type(std::string("\0\n", 2));  // a mark of emacs, no character
  terminal.expect_prompt();
  terminal.type("exit\n");
  EXPECT_EQ(terminal.wait(), 0) << terminal.seen();
  std::vector<std::string> asked;
  std::ifstream rows(file);
  for (std::string line; std::getline(rows, line);) {
    const std::string before = "{\"role\":\"user\",\"content\":\"";
    const auto at = line.rfind(before) + before.size();
    asked.push_back(line.substr(at, line.find('"', at) - at));
  }
  EXPECT_EQ(asked, (std::vector<std::string>{"h\u00e9z", "\u6f22!\u5b57", "ab"})) << terminal.seen();
}

TEST_F(AtATerminal, AnEmptyQuestionOfSeveralLinesIsNone) {
  const auto file = scratch_.path() / "answers.jsonl";
  Terminal terminal = start({"--max_new_tokens", "2", "--result_path", file.string()});
  for (const char* line : {"multi-line\n", "#\n", "\n", " #\n"}) {
    terminal.expect_prompt("<<<");
    terminal.type(line);
  }
  terminal.expect_prompt("<<<[M] ");
  terminal.type("exit\n");
  EXPECT_EQ(terminal.wait(), 0) << terminal.seen();
  EXPECT_EQ(std::filesystem::file_size(file), 0U) << terminal.seen();
}

// For each <image> in a question its file is asked, and Ctrl-C there drops the question; of a model of text it's text.
TEST_F(AtATerminal, FilesOfImagesAreAskedFor) {
  const std::filesystem::path media = std::filesystem::path(TERN_TEST_DATA) / "media";
  const std::string photo = (media / "decode" / "rgb-420.jpg").string();
  const auto file = scratch_.path() / "answers.jsonl";
  Terminal terminal({"infer", "--model", (media / "models" / "internvl3").string(), "--temperature", "0",
                     "--max_new_tokens", "2", "--result_path", file.string(), "--images", photo},
                    scratch_.path() / "home");
  const auto say = [&](const std::string& line, const std::string& prompt) {
    terminal.type(line + "\n");
    terminal.expect_prompt(prompt);
  };
  terminal.expect_prompt();
  say("<image> and <image>?", "image: path or URL <<< ");
  say(photo, "<<< ");
  say("<image>!", "image: path or URL <<< ");
  terminal.type(kCtrlC);
  terminal.expect_prompt();
  say("And?", "<<< ");
  say("<image>?", "image: path or URL <<< ");
  say("none.png", "<<< ");
  EXPECT_NE(terminal.seen().find("the question was left out: none.png: expected an image file's path"),
            std::string::npos)
      << terminal.seen();
  say("clear", "<<< ");
  say("What?", "<<< ");
  terminal.type("quit\n");
  EXPECT_EQ(terminal.wait(), 0) << terminal.seen();
  std::vector<std::size_t> images;
  std::ifstream rows(file);
  for (std::string line; std::getline(rows, line);) {
    images.push_back(0);
    for (std::size_t at = line.find("rgb-420.jpg"); at != std::string::npos; at = line.find("rgb-420.jpg", at + 1)) {
      ++images.back();
    }
  }
  EXPECT_EQ(images, (std::vector<std::size_t>{2, 2, 0})) << terminal.seen();

  Terminal text = start({"--max_new_tokens", "2"});
  text.expect_prompt();
  text.type("<image>?\n");
  text.expect_prompt("<<< ");
  EXPECT_EQ(text.seen().find("path or URL"), std::string::npos) << text.seen();
}

TEST_F(AtATerminal, SigtermEndsIt) {
  Terminal terminal = start({});
  terminal.expect_prompt();
  terminal.type("tell me all\n");
  terminal.expect("tell me all\r\n");
  terminal.expect_more(20);
  terminal.send(SIGTERM);
  terminal.expect("the dialogue was stopped; begin another one.");
  EXPECT_EQ(terminal.wait(), 75) << terminal.seen();
}

}  // namespace
}  // namespace tern::e2e
