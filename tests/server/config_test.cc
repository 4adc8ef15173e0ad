// Configuration files and flags, right and wrong.
#include "server/config.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "server/http/address.h"
#include "server/http/client.h"

namespace parallax::server {
namespace {

Config Good(const std::string& text) {
  auto config = ParseConfig(text, "p.toml");
  EXPECT_TRUE(config.ok()) << (config.ok() ? "" : config.error().message());
  return config.ok() ? *std::move(config) : Config();
}

std::string Wrong(const std::string& text) {
  const auto config = ParseConfig(text, "p.toml");
  EXPECT_FALSE(config.ok()) << text;
  return config.ok() ? "" : config.error().message();
}

TEST(ParseConfig, EveryKey) {
  const Config c = Good(R"(
[server]
listen = "0.0.0.0:9000"
api_key = "secret"
max_loaded = 2
max_wait_s = 7
drain_s = 2.5
body_bytes = 4096
header_bytes = 2048
connections = 10
header_s = 1
body_s = 2
idle_s = 3
write_s = 4
load_limit_s = 90

[routing]
policy = "psr-eff"
objective = "ttft"
model = "m.json"
decisions = "d.jsonl"
min_match_bytes = 100
explore_every = 3
prefix_index_bytes = 1048576
default_max_tokens = 64
max_tries = 2
timeout_factor = 4
timeout_floor_s = 10
silence_s = 20
probe_s = 0.5

[[backend]]
name = "cpu"
kind = "llama-server"
url = "http://127.0.0.1:8081"
api_key = "k"
models = ["a", "b"]
context = 4096
slots = 2
single_flight = true
preemptible_prefill = false
sharing = 0.25
queue = 5
cache_sequences = 1
cache_tokens = 9
load_s = 3

[[backend]]
name = "own"
kind = "llama-server"
command = ["llama-server", "-m", "x.gguf"]
)");
  EXPECT_EQ(c.listen, "0.0.0.0:9000");
  EXPECT_EQ(c.api_key, "secret");
  EXPECT_EQ(c.dispatcher.max_loaded, 2);
  EXPECT_EQ(c.dispatcher.max_wait_ms, 7000);
  EXPECT_EQ(c.drain_ms, 2500);
  EXPECT_EQ(c.limits.body_bytes, 4096U);
  EXPECT_EQ(c.limits.all_body_bytes, 256U << 20);
  EXPECT_EQ(c.limits.header_bytes, 2048U);
  EXPECT_EQ(c.limits.connections, 10U);
  EXPECT_EQ(c.limits.header_ms, 1000);
  EXPECT_EQ(c.limits.body_ms, 2000);
  EXPECT_EQ(c.limits.idle_ms, 3000);
  EXPECT_EQ(c.limits.write_ms, 4000);
  EXPECT_EQ(c.dispatcher.load_limit_ms, 90'000);
  EXPECT_EQ(c.policy, "psr-eff");
  EXPECT_EQ(c.dispatcher.policy.objective, router::Objective::kTtft);
  EXPECT_EQ(c.model_file, "m.json");
  EXPECT_EQ(c.decisions_file, "d.jsonl");
  EXPECT_EQ(c.dispatcher.policy.min_match_bytes, 100);
  EXPECT_EQ(c.dispatcher.policy.explore_every, 3);
  EXPECT_EQ(c.dispatcher.index.byte_cap, 1 << 20);
  EXPECT_EQ(c.dispatcher.default_max_tokens, 64);
  EXPECT_EQ(c.dispatcher.max_tries, 2);
  EXPECT_EQ(c.dispatcher.timeout.factor, 4);
  EXPECT_EQ(c.dispatcher.timeout.floor_ms, 10'000);
  EXPECT_EQ(c.dispatcher.silence_ms, 20'000);
  EXPECT_EQ(c.dispatcher.probe_ready_ms, 500);
  ASSERT_EQ(c.backends.size(), 2U);
  const BackendConfig& cpu = c.backends[0];
  EXPECT_EQ(cpu.settings.name, "cpu");
  EXPECT_EQ(cpu.settings.kind, router::BackendKind::kLlamaServer);
  EXPECT_EQ(cpu.url, "http://127.0.0.1:8081");
  EXPECT_EQ(cpu.api_key, "k");
  EXPECT_EQ(cpu.settings.models, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(cpu.settings.context, 4096);
  EXPECT_EQ(cpu.settings.slots, 2);
  EXPECT_TRUE(cpu.settings.single_flight);
  EXPECT_FALSE(cpu.settings.preemptible_prefill);
  EXPECT_EQ(cpu.settings.sharing, 0.25);
  EXPECT_EQ(cpu.settings.queue_limit, 5);
  EXPECT_EQ(cpu.settings.cache_sequences, 1);
  EXPECT_EQ(cpu.settings.cache_tokens, 9);
  EXPECT_EQ(cpu.settings.load_ms, 3000);
  EXPECT_EQ(c.backends[1].command.size(), 3U);
  EXPECT_TRUE(Validate(c).ok());
}

TEST(ParseConfig, NothingIsAskedFor) {
  const Config c = Good("");
  EXPECT_EQ(c.listen, "127.0.0.1:8080");  // loopback unless told otherwise
  EXPECT_EQ(c.api_key, "");
  EXPECT_FALSE(Validate(c).ok());
}

TEST(ParseConfig, TheKindNeedNotBeSaid) {
  const auto config = ParseConfig(
      "[[backend]]\nname = \"a\"\nurl = \"http://h\"\n"
      "[[backend]]\nname = \"b\"\ncommand = [\"llama-server\"]\n"
      "[[backend]]\nname = \"c\"\nkind = \"openai\"\nurl = \"http://h\"",
      "p.toml");
  ASSERT_TRUE(config.ok());
  EXPECT_TRUE(config->backends[0].detect_kind);  // the URL is asked
  EXPECT_EQ(config->backends[1].settings.kind, router::BackendKind::kLlamaServer);
  EXPECT_FALSE(config->backends[2].detect_kind);
  EXPECT_TRUE(Validate(*config).ok());
}

TEST(ParseConfig, ErrorsNameKeyAndLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[server]\nlisten = 5", "p.toml:2: server.listen must be a string"},
      {"[server]\nport = 5", "p.toml:2: unknown key server.port; there are all_body_bytes"},
      {"\n[server]\n\nmax_loaded = -1", "p.toml:4: server.max_loaded must be an integer from 0"},
      {"[server]\nmax_loaded = 1.5", "p.toml:2: server.max_loaded"},
      {"[server]\ndrain_s = \"1\"", "p.toml:2: server.drain_s must be a number"},
      {"[server]\ndrain_s = nan", "p.toml:2: server.drain_s"},
      {"[server]\ndrain_s = inf", "p.toml:2: server.drain_s"},
      {"[server]\nbody_bytes = 10", "p.toml:2: server.body_bytes must be an integer from 1024"},
      {"[server]\nbody_bytes = 5000\nall_body_bytes = 4999",
       "p.toml:3: server.all_body_bytes must be an integer from 5000"},
      {"[routing]\nobjective = \"speed\"", "routing.objective must be \"total\" or \"ttft\""},
      {"[routing]\nmax_tries = 0", "p.toml:2: routing.max_tries"},
      {"[[backend]]\nname = \"a\"\nsingle_flight = 1",
       "p.toml:3: backend[0].single_flight must be true or false"},
      {"[[backend]]\nname = \"a\"\n[[backend]]\nnmae = \"b\"",
       "p.toml:4: unknown key backend[1].nmae"},
      {"[[backend]]\nmodels = \"a\"", "p.toml:2: backend[0].models must be a list of strings"},
      {"[[backend]]\nmodels = [\"a\",\n 5]",
       "p.toml:3: backend[0].models must be a list of strings"},
      {"[[backend]]\nname = \"a\"\nkind = \"gpu\"", "found \"gpu\""},
      {"[[backend]]\nname = \"a\"\nkind = \"rkllm\"", "found \"rkllm\""},
      {"[backend]\nname = \"a\"", "p.toml:1: write [[backend]]"},
      {"server = 5", "p.toml:1: server must be a table"},
      {"backend = [5]", "p.toml:1: a backend must be a table"},
      {"[sever]", "p.toml:1: unknown section sever"},
      {"[server]\nlisten = \"a", "p.toml:2: "},
      {"a = 1\na = 2", "p.toml:2: "},
      {"\xFF", "p.toml:1: "},
  };
  for (const auto& [text, says] : cases) {
    EXPECT_NE(Wrong(text).find(says), std::string::npos) << text << "\n" << Wrong(text);
  }
  EXPECT_FALSE(ParseConfig("a = " + std::string(100'000, '['), "p.toml").ok());
  // Keys that nest ended the program.
  std::string nested = "a";
  for (int i = 0; i < 200'000; ++i) nested += ".a";
  EXPECT_NE(Wrong(nested + " = 1").find("p.toml:1: the line is over"), std::string::npos);
  std::string brackets;
  for (int i = 0; i < 5000; ++i) brackets += "[\n";
  EXPECT_NE(Wrong("a = " + brackets).find("brackets"), std::string::npos);
}

TEST(ParseBackendFlag, Forms) {
  const auto url = ParseBackendFlag("npu=http://127.0.0.1:1");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->settings.name, "npu");
  EXPECT_EQ(url->url, "http://127.0.0.1:1");
  EXPECT_TRUE(url->detect_kind);
  const auto openai = ParseBackendFlag("a=openai:http://h/v1");
  ASSERT_TRUE(openai.ok());
  EXPECT_EQ(openai->url, "http://h/v1");
  EXPECT_EQ(openai->settings.kind, router::BackendKind::kOpenAi);
  EXPECT_FALSE(openai->detect_kind);
  const auto llama = ParseBackendFlag("a=llama-server:http://h:2");
  ASSERT_TRUE(llama.ok());
  EXPECT_EQ(llama->settings.kind, router::BackendKind::kLlamaServer);
  EXPECT_EQ(llama->url, "http://h:2");
  const auto spawned = ParseBackendFlag("a=llama-server:dir/x=y.gguf");
  ASSERT_TRUE(spawned.ok());
  EXPECT_EQ(spawned->command, (std::vector<std::string>{"llama-server", "-m", "dir/x=y.gguf"}));
  for (const char* text : {"", "=", "=http://h", "http://h", "a=llama-server:"}) {
    EXPECT_FALSE(ParseBackendFlag(text).ok()) << text;
  }
}

TEST(Validate, WhatNoSingleKeyIsToBlameFor) {
  const auto says = [](const std::vector<std::string>& flags, std::string_view words) {
    Config config;
    for (const std::string& flag : flags) {
      auto backend = ParseBackendFlag(flag);
      ASSERT_TRUE(backend.ok()) << flag;
      config.backends.push_back(*std::move(backend));
    }
    const Result<void> result = Validate(config);
    ASSERT_FALSE(result.ok()) << words;
    EXPECT_NE(result.error().message().find(words), std::string::npos) << result.error().message();
  };
  says({}, "no backend");
  says({"a=http://h", "a=http://g"}, "two backends are named 'a'");
  says({"a b=http://h"}, "a name is made of");
  says({"a\"=http://h"}, "a name is made of");
  says({"a="}, "not neither");
  says({"a=https://h"}, "https");
  says({"a=openai:model.gguf"}, "must begin with http://");
  Config both;
  both.backends.push_back(*ParseBackendFlag("a=http://h"));
  both.backends[0].command = {"x"};
  EXPECT_FALSE(Validate(both).ok());
  both.backends[0].url = "";
  EXPECT_FALSE(Validate(both).ok());  // a command starts llama-servers only
  both.backends[0].settings.kind = router::BackendKind::kLlamaServer;
  EXPECT_TRUE(Validate(both).ok());
}

TEST(ParseAddress, Forms) {
  const auto is = [](std::string_view text, std::string_view host, int port) {
    const auto address = http::ParseAddress(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address->host, host);
    EXPECT_EQ(address->port, port);
  };
  is("127.0.0.1:8080", "127.0.0.1", 8080);
  is("[::1]:0", "::1", 0);
  is(":80", "", 80);
  is("localhost:65535", "localhost", 65535);
  for (const char* text :
       {"", "80", "a:", "a:b", "a:-1", "a:65536", "a:80x", "::1:80", "[::1]", "[::1", "[::1]80",
        "a: 80", "[[=]:808", "[a]:80", "a b:80", "a\n:80", "a/b:80"}) {
    EXPECT_FALSE(http::ParseAddress(text).ok()) << text;
  }
  EXPECT_EQ(http::Format({"::1", 80}), "[::1]:80");
  EXPECT_EQ(http::Format({"h", 80}), "h:80");
}

TEST(ParseOrigin, Forms) {
  const auto is = [](std::string_view text, std::string_view host, int port,
                     std::string_view base) {
    const auto origin = http::ParseOrigin(text);
    ASSERT_TRUE(origin.ok()) << text;
    EXPECT_EQ(origin->host, host);
    EXPECT_EQ(origin->port, port);
    EXPECT_EQ(origin->base_path, base);
  };
  is("http://h", "h", 80, "");
  is("http://h:81/", "h", 81, "");
  is("http://h/api/v2/", "h", 80, "/api/v2");
  is("http://[::1]:8080/x", "::1", 8080, "/x");
  is("http://[::1]", "::1", 80, "");
  // As OpenAI's clients are given it.
  is("http://h:81/v1", "h", 81, "");
  is("http://h/api/v1/", "h", 80, "/api");
  for (const char* text :
       {"", "h", "https://h", "http://", "http://:80", "http://h:0", "http://h:x", "ftp://h",
        "http://u:p@h", "http://h?q", "http://h#f", "http://h/a b", "http://h:80:80", "http://[::1",
        "http://h\r\nX: y", "http://[h]", "http://h\x01"}) {
    EXPECT_FALSE(http::ParseOrigin(text).ok()) << text;
  }
}

}  // namespace
}  // namespace parallax::server
