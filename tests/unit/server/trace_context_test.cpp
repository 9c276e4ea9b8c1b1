#include "server/trace_context.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace tern::server {
namespace {

constexpr const char* kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kParent = cat("00-", kTrace, "-00f067aa0ba902b7-01");

TEST(TraceContext, IsReadAsTheSpecificationSays) {
  const auto read = [](const std::string& text) { return read_trace_context({{"traceparent", text}}); };
  ASSERT_TRUE(read(kParent));
  EXPECT_EQ(read(kParent)->traceparent, kParent);
  EXPECT_EQ(read(kParent)->trace_id(), kTrace);
  EXPECT_FALSE(read_trace_context({}));
  EXPECT_FALSE(read_trace_context({{"traceparent", kParent}, {"traceparent", kParent}}));
  std::string later = kParent;
  later[1] = '1';
  EXPECT_TRUE(read(later));
  EXPECT_TRUE(read(later + "-more"));
  for (const std::string& wrong : {
           std::string(),
           kParent + "-more",                                                       // version 00 has four fields
           later + "more",                                                          // no dash behind the fourth
           "ff" + kParent.substr(2),                                                // a version that there is none of
           cat("00-", std::string(32, '0'), "-00f067aa0ba902b7-01"),                // no trace
           cat("00-", kTrace, "-0000000000000000-01"),                              // no parent
           cat("00-", "4BF92F3577B34DA6A3CE929D0E0E4736", "-00f067aa0ba902b7-01"),  // capitals
           cat("00-", kTrace, "-00f067aa0ba902b7-0g"),
           cat("00-", kTrace, "_00f067aa0ba902b7-01"),
           cat("0x-", kTrace, "-00f067aa0ba902b7-01"),
           kParent.substr(0, 54),
       }) {
    EXPECT_FALSE(read(wrong)) << wrong;
  }
}

TEST(TraceContext, StateIsKeptWholeOrNotAtAll) {
  const auto state = [](const Headers& headers) {
    Headers all = headers;
    all.insert(all.begin(), {"traceparent", kParent});
    return read_trace_context(all)->tracestate;
  };
  const auto kept = [&](const std::string& text) { return state({{"tracestate", text}}) == text; };
  EXPECT_TRUE(kept("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"));
  EXPECT_TRUE(kept("a=1, ,b=2"));
  EXPECT_TRUE(kept("fw529a3039@dt=FfAAQCiBAQDqzg;x y"));
  EXPECT_TRUE(kept("1tenant@system=1"));
  EXPECT_EQ(state({{"tracestate", "a=1"}, {"tracestate", "b=2"}}), "a=1,b=2");
  std::string many;
  for (int i = 0; i < 32; ++i) many += cat(i == 0 ? "" : ",", "k", i, "=1");
  EXPECT_TRUE(kept(many));
  for (const std::string& wrong :
       {std::string("a"), std::string("=1"), std::string("A=1"), std::string("1a=1"), std::string("a=1,a=2"),
        std::string("a=1=2"), std::string("a="), std::string("a@=1"), cat("a@", std::string(15, 'b'), "=1"),
        std::string("a=\t1"), cat(std::string(257, 'a'), "=1"), cat("a=", std::string(257, '1')), many + ",z=1"}) {
    EXPECT_FALSE(kept(wrong)) << wrong;
    EXPECT_EQ(state({{"tracestate", wrong}}), "") << wrong;
  }
}

}  // namespace
}  // namespace tern::server
