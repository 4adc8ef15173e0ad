// Child processes: their ends, their output, what they leave behind.
#include "server/child_process.h"

#include <signal.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/server/sockets.h"

namespace parallax::server::fake {
namespace {

struct Child : World {
  explicit Child(std::vector<std::string> command) {
    auto started = ChildProcess::Start(loop, command, [this](const std::string& how) {
      ++exits;
      ended = how;
    });
    EXPECT_TRUE(started.ok()) << started.error().message();
    if (started.ok()) process = std::move(*started);
  }
  static Child Shell(const std::string& script) { return Child({"/bin/sh", "-c", script}); }
  bool End() {
    return Until([&] { return exits > 0; });
  }
  std::unique_ptr<ChildProcess> process;
  int exits = 0;
  std::string ended;
};

bool Alive(pid_t pid) {
  // A zombie is not alive: it has no memory map.
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
  const std::size_t paren = text.rfind(')');
  return paren != std::string::npos && text.substr(paren + 2, 1) != "Z";
}

TEST(ChildProcess, ExitCodesAndSignals) {
  Child good = Child::Shell("exit 0"), bad = Child::Shell("exit 7"),
        hit = Child::Shell("kill -9 $$");
  EXPECT_EQ(good.exits, 0);  // never inside Start
  ASSERT_TRUE(good.End() && bad.End() && hit.End());
  EXPECT_EQ(good.ended, "exit code 0");
  EXPECT_EQ(bad.ended, "exit code 7");
  EXPECT_EQ(hit.ended, "signal 9");
  good.Idle(120);
  EXPECT_EQ(good.exits, 1);
}

TEST(ChildProcess, WhatCannotBeStarted) {
  World world;
  for (const std::vector<std::string>& command : {std::vector<std::string>{},
                                                  {"/nonexistent/program"},
                                                  {"no-such-program-anywhere"},
                                                  {"/"}}) {
    const auto started =
        ChildProcess::Start(world.loop, command, [](const std::string&) { FAIL(); });
    ASSERT_FALSE(started.ok());
  }
  world.Idle(60);
}

TEST(ChildProcess, KeepsTheTailOfItsOutput) {
  Child child = Child::Shell(
      "echo first; i=0; while [ $i -lt 2000 ]; do echo line $i; "
      "i=$((i+1)); done; echo last >&2; exit 1");
  ASSERT_TRUE(child.End());
  EXPECT_TRUE(child.process->tail().ends_with("last\n"));
  EXPECT_LT(child.process->tail().size(), 16U << 10);
  EXPECT_EQ(child.process->tail().find("first"), std::string::npos);
}

// One that writes without end does not keep the loop from its other work.
TEST(ChildProcess, EndlessOutput) {
  Child child = Child::Shell("exec yes");
  int ticks = 0;
  std::function<void()> tick = [&] {
    ++ticks;
    child.loop.After(1, tick);
  };
  tick();
  EXPECT_TRUE(child.Until([&] { return ticks > 100; }));
  EXPECT_EQ(child.exits, 0);
  child.process.reset();
  child.loop.context().stop();
}

TEST(ChildProcess, StopAsksThenMakes) {
  Child polite = Child::Shell("trap 'exit 3' TERM; while :; do sleep 0.01; done");
  Child stubborn = Child::Shell("trap '' TERM; echo on; while :; do sleep 0.01; done");
  ASSERT_TRUE(stubborn.Until([&] { return !stubborn.process->tail().empty(); }));
  polite.Idle(100);
  polite.process->Stop(60'000);
  stubborn.process->Stop(100);
  ASSERT_TRUE(polite.End() && stubborn.End());
  EXPECT_EQ(polite.ended, "exit code 3");
  EXPECT_EQ(stubborn.ended, "signal 9");
}

// A script that started the server proper: both go.
TEST(ChildProcess, TakesItsOwnChildrenWithIt) {
  for (const bool destroyed : {true, false}) {
    Child child = Child::Shell("sleep 1000 & echo $!; wait");
    ASSERT_TRUE(child.Until([&] { return child.process->tail().find('\n') != std::string::npos; }));
    const pid_t grandchild = std::stoi(child.process->tail());
    ASSERT_TRUE(Alive(grandchild));
    if (destroyed) {
      child.process.reset();
    } else {
      child.process->Stop(60'000);
      ASSERT_TRUE(child.End());
    }
    EXPECT_TRUE(child.Until([&] { return !Alive(grandchild); }));
  }
}

TEST(ChildProcess, InheritsNothingButItsOutput) {
  // As Asio makes them: not closed by an exec.
  const int inherited = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_GE(inherited, 0);
  Child child = Child::Shell("ls /proc/self/fd | wc -l");
  ASSERT_TRUE(child.End());
  EXPECT_EQ(std::stoi(child.process->tail()), 4);  // stdin, stdout, stderr, and ls's own directory
  ::close(inherited);
}

TEST(FreePort, CanBeListenedOn) {
  const auto port = FreePort();
  ASSERT_TRUE(port.ok());
  EXPECT_GT(*port, 0);
  EXPECT_FALSE(Peer::Connect(static_cast<std::uint16_t>(*port)).connected());
}

}  // namespace
}  // namespace parallax::server::fake
