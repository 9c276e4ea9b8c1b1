// What is told of the places of a batch.
#include "server/slots.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/server/tiny_server.h"

namespace tern::test {
namespace {

using io::Json;
using server::Slots;
using server::SlotTask;

std::vector<std::int64_t> tasks(const Slots& slots) {
  std::vector<std::int64_t> out;
  for (const auto& state : slots.states()) out.push_back(state.id_task);
  return out;
}

TEST(Slots, AreGivenOutInTheOrderOfTheTasks) {
  Slots slots(2);
  using Ids = std::vector<std::int64_t>;
  auto first = std::make_unique<Slots::Seat>(slots, SlotTask{.prompt_tokens = 7});
  auto second = std::make_unique<Slots::Seat>(slots, SlotTask{});
  auto third = std::make_unique<Slots::Seat>(slots, SlotTask{});
  auto fourth = std::make_unique<Slots::Seat>(slots, SlotTask{});
  EXPECT_EQ(tasks(slots), (Ids{1, 2}));
  first->count_token();
  EXPECT_EQ(slots.states()[0].decoded, 1);
  EXPECT_EQ(slots.states()[0].task.prompt_tokens, 7);
  third.reset();  // it ends before its turn
  second.reset();
  EXPECT_EQ(tasks(slots), (Ids{1, 4}));
  first.reset();
  fourth.reset();
  EXPECT_EQ(tasks(slots), (Ids{0, 0}));
}

Json slots_of(const TinyServer& server, int status = 200, const std::string& query = "") {
  const HttpReply reply = ask(server.port(), "GET", "/slots" + query);
  EXPECT_EQ(reply.status, status) << reply.body;
  return io::parse_json(reply.body, "answer").value();
}

TEST(Slots, TellWhatIsComputed) {
  TinyServer::Options options;
  options.llm.engine.max_num_seqs = 2;
  const TinyServer server(options);
  Json slots = slots_of(server);
  ASSERT_EQ(slots.size(), 2U);
  EXPECT_EQ(slots[1].dump(), R"({"id":1,"n_ctx":)" + slots[1]["n_ctx"].dump() + R"(,"is_processing":false})");
  HttpClient client(server.port());
  client.send(request_text("POST", "/v1/completions",
                           R"({"prompt": "secret", "n": 2, "max_tokens": 50000, "temperature": 0.5, "seed": 3,
                               "ignore_eos": true, "stream": true})",
                           "Content-Type: application/json\r\n"));
  const auto both = [&] {
    slots = slots_of(server);
    return slots[0].contains("next_token") && slots[1].contains("next_token") &&
           slots[0]["next_token"]["n_decoded"].get<int>() > 2 && slots[1]["next_token"]["n_decoded"].get<int>() > 2;
  };
  for (int i = 0; i < 1000 && !both(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  for (std::size_t i = 0; i < 2; ++i) {
    const Json& slot = slots[i];
    EXPECT_EQ(slot["id"], i);
    EXPECT_EQ(slot["is_processing"], true);
    EXPECT_EQ(slot["id_task"], i + 1);
    EXPECT_EQ(slot["params"]["n_predict"], 50000);
    EXPECT_EQ(slot["params"]["temperature"].get<float>(), 0.5F);
    EXPECT_EQ(slot["params"]["seed"], 3);
    EXPECT_EQ(slot["next_token"]["has_next_token"], true);
    EXPECT_EQ(slot["next_token"]["n_decoded"].get<int>() + slot["next_token"]["n_remain"].get<int>(), 50000);
    EXPECT_GT(slot["n_prompt_tokens"].get<int>(), 0);
  }
  EXPECT_EQ(slots.dump().find("secret"), std::string::npos);
  EXPECT_EQ(slots_of(server, 503, "?fail_on_no_slot=1")["error"]["code"], 503);
  client.reset();
  EXPECT_TRUE(server.becomes_idle());
  for (int i = 0; i < 1000 && slots_of(server)[0]["is_processing"] == true; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(slots_of(server, 200, "?fail_on_no_slot=1")[0]["is_processing"], false);
  EXPECT_EQ(slots_of(server, 400, "?x=1")["error"]["code"], 400);
}

}  // namespace
}  // namespace tern::test
