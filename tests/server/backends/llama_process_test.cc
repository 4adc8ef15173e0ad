// A llama-server of our own, played by a small script: started, watched, started again, stopped.
#include "server/backends/llama_process.h"

#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/sockets.h"

namespace parallax::server::fake {
namespace {

// Speaks as much of llama-server as a probe and a stream need; "/die" ends it in the middle.
const char* const kServer = R"(
import http.server, os, sys, time
port = int(sys.argv[sys.argv.index('--port') + 1])
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *a): pass
    def answer(self, text):
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    def do_GET(self):
        self.answer({'/health': '{}', '/props': '{"total_slots":1,"model_path":"m"}',
                     '/v1/models': '{"data":[{"id":"m"}]}'}[self.path])
    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(200)
        self.send_header('Content-Type', 'text/event-stream')
        self.end_headers()
        self.wfile.write(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')
        self.wfile.flush()
        time.sleep(1000)
http.server.ThreadingHTTPServer(('127.0.0.1', port), Handler).serve_forever()
)";

class LlamaProcessTest : public testing::Test, public World {
 protected:
  LlamaProcessTest() {
    std::string name = (std::filesystem::temp_directory_path() / "parallax_llama_XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::ofstream(folder_ / "server.py") << kServer;
  }
  ~LlamaProcessTest() override {
    backend_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Make(const std::vector<std::string>& command) {
    LlamaProcessOptions options;
    options.name = "cpu";
    options.command = command;
    backend_ = MakeLlamaProcess(loop, options, [this](const LogEntry& e) { log_.push_back(e); });
  }
  void MakeServer() { Make({"python3", (folder_ / "server.py").string()}); }
  ProbeResult Probe() {
    bool done = false;
    ProbeResult result;
    backend_->Probe([&](const ProbeResult& r) {
      result = r;
      done = true;
    });
    EXPECT_TRUE(Until([&] { return done; }));
    return result;
  }
  bool WaitFor(Health health) {
    return Until([&] {
      last_ = Probe();
      return last_.health == health;
    });
  }
  pid_t Pid() const {
    const std::string place = backend_->place();
    const std::size_t at = place.find("process ");
    return at == std::string::npos ? -1 : std::stoi(place.substr(at + 8));
  }

  std::filesystem::path folder_;
  std::unique_ptr<Backend> backend_;
  std::vector<LogEntry> log_;
  ProbeResult last_;
};

struct Call1 final : CallSink {
  void OnEvent(std::string_view, std::string_view) override { ++events; }
  void OnEnd(const CallEnd& e) override {
    ++ends;
    end = e;
  }
  int events = 0, ends = 0;
  CallEnd end;
};

TEST_F(LlamaProcessTest, StartsServesDiesAndComesBack) {
  MakeServer();
  EXPECT_TRUE(backend_->loadable());
  EXPECT_FALSE(backend_->loaded());
  EXPECT_EQ(Probe().health, Health::kDown);
  Call1 early;
  backend_->Start({openai::Endpoint::kChat, "{}", ""}, &early);
  ASSERT_TRUE(Until([&] { return early.ends > 0; }));
  EXPECT_EQ(early.end.kind, CallEnd::Kind::kConnect);

  backend_->Load();
  EXPECT_TRUE(backend_->loaded());
  EXPECT_EQ(Probe().health, Health::kLoading);  // it starts
  ASSERT_TRUE(WaitFor(Health::kReady));
  const std::string boot = last_.facts.boot;
  EXPECT_EQ(last_.facts.models, (std::vector<std::string>{"m"}));
  Call1 call;
  const CallId id = backend_->Start({openai::Endpoint::kChat, "{}", ""}, &call);
  ASSERT_TRUE(Until([&] { return call.events > 0; }));
  const pid_t pid = Pid();
  ASSERT_GT(pid, 0);
  ::kill(pid, SIGKILL);
  ASSERT_TRUE(Until([&] { return call.ends > 0; }));
  backend_->Abort(id);
  ASSERT_TRUE(Until([&] { return !log_.empty(); }));
  EXPECT_EQ(log_[0].event, "backend_exit");
  EXPECT_NE(log_[0].message.find("signal 9"), std::string::npos);
  ASSERT_TRUE(WaitFor(Health::kReady));
  EXPECT_NE(last_.facts.boot, boot);
  EXPECT_NE(Pid(), pid);

  bool gone = false;
  backend_->Unload([&] { gone = true; });
  EXPECT_FALSE(gone);
  EXPECT_FALSE(backend_->loaded());
  ASSERT_TRUE(Until([&] { return gone; }));
  EXPECT_EQ(Probe().health, Health::kDown);
  EXPECT_EQ(Probe().why, "not in memory");
  EXPECT_EQ(log_.size(), 1U);  // it was told to
  backend_->Load();
  ASSERT_TRUE(WaitFor(Health::kReady));
}

// One that ends at once is started again, later each time, with its last words in the reason.
TEST_F(LlamaProcessTest, BacksOff) {
  Make({"/bin/sh", "-c", "echo no such model; exit 3"});
  backend_->Load();
  ASSERT_TRUE(Until([&] { return log_.size() >= 3; }));
  EXPECT_NE(log_[0].message.find("exit code 3: no such model; started again in 0.5 s"),
            std::string::npos)
      << log_[0].message;
  EXPECT_NE(log_[1].message.find("in 1.0 s"), std::string::npos);
  EXPECT_NE(log_[2].message.find("in 2.0 s"), std::string::npos);
  EXPECT_EQ(Probe().health, Health::kDown);
  EXPECT_NE(Probe().why.find("no such model"), std::string::npos);
  bool gone = false;
  backend_->Unload([&] { gone = true; });
  ASSERT_TRUE(Until([&] { return gone; }));
  Idle(50);
  EXPECT_EQ(log_.size(), 3U);
}

TEST_F(LlamaProcessTest, AProgramThatIsNotThere) {
  Make({"/nonexistent/llama-server"});
  backend_->Load();
  ASSERT_EQ(log_.size(), 1U);
  EXPECT_NE(log_[0].message.find("/nonexistent/llama-server"), std::string::npos);
  EXPECT_EQ(Probe().health, Health::kDown);
  bool gone = false;
  backend_->Unload([&] { gone = true; });
  ASSERT_TRUE(Until([&] { return gone; }));
}

// The port goes where the command says.
TEST_F(LlamaProcessTest, PlacesThePort) {
  Make({"/bin/sh", "-c", "echo port={port}; exec sleep 1000"});
  backend_->Load();
  const std::string place = backend_->place();
  EXPECT_NE(place.find("sh (process "), std::string::npos) << place;
  EXPECT_NE(place.find(", port "), std::string::npos) << place;
  EXPECT_EQ(Probe().health, Health::kLoading);
  EXPECT_EQ(Probe().why, "it starts");
}

// Questions to processes that are gone are answered, every one of them.
TEST_F(LlamaProcessTest, NoQuestionIsForgotten) {
  // Listens, never answers, dies soon.
  std::ofstream(folder_ / "mute.py") << R"(
import socket, sys, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('127.0.0.1', int(sys.argv[sys.argv.index('--port') + 1])))
s.listen(16)
time.sleep(0.2)
)";
  Make({"python3", (folder_ / "mute.py").string()});
  backend_->Load();
  int asked = 0, answered = 0;
  const auto request = openai::ParseRequest(openai::Endpoint::kCompletion, R"({"prompt":"a"})");
  ASSERT_TRUE(Until([&] {
    if (asked < 40) {
      ++asked;
      backend_->Probe([&](const ProbeResult& r) {
        ++answered;
        EXPECT_NE(r.health, Health::kReady);
      });
      ++asked;
      backend_->CountTokens(*request, [&](const Result<Tokens>& tokens) {
        ++answered;
        EXPECT_FALSE(tokens.ok());
      });
      Idle(30);
    }
    return asked >= 40 && answered == asked && log_.size() >= 3;
  }));
}

TEST_F(LlamaProcessTest, DestroyedUnderWay) {
  MakeServer();
  backend_->Load();
  ASSERT_TRUE(WaitFor(Health::kReady));
  Call1 call;
  backend_->Start({openai::Endpoint::kChat, "{}", ""}, &call);
  backend_->Probe([](const ProbeResult&) { FAIL(); });
  const pid_t pid = Pid();
  backend_.reset();
  EXPECT_NE(::kill(pid, 0), 0);
  Idle(50);
  EXPECT_EQ(call.ends, 0);
}

}  // namespace
}  // namespace parallax::server::fake
