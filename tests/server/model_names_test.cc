// Which names a backend answers to, which are shown, and what it is itself asked for.
#include "server/model_names.h"

#include "tests/server/rig.h"

namespace parallax::server::fake {
namespace {

using Names = std::vector<std::string>;

BackendFacts Told(Names models, std::string identity = "") {
  BackendFacts facts;
  facts.models = std::move(models);
  facts.identity = std::move(identity);
  return facts;
}

TEST(ModelNames, OfAProgramAreKnownBeforeItRuns) {
  BackendSettings settings{.name = "smol"};
  settings.started = true;
  settings.command_models = {"/models/Smol-135M.gguf", "s"};
  EXPECT_EQ(ModelNames(settings, {}),
            (Names{"/models/Smol-135M.gguf", "Smol-135M.gguf", "Smol-135M", "s", "smol"}));
  EXPECT_EQ(ListedModels(settings, {}), Names{"s"});
  settings.command_models = {"/models/Smol-135M.gguf"};
  EXPECT_EQ(ListedModels(settings, {}), Names{"Smol-135M"});
  // A program that says nothing answers to its name, not to any.
  settings.command_models.clear();
  EXPECT_EQ(ModelNames(settings, {}), Names{"smol"});
  EXPECT_EQ(ListedModels(settings, {}), Names{"smol"});
  settings.models = {"*"};
  EXPECT_TRUE(ModelNames(settings, {}).empty());
}

TEST(ModelNames, OfAUrlAreWhatItTells) {
  const BackendSettings settings{.name = "box"};
  EXPECT_TRUE(ModelNames(settings, {}).empty()) << "it tells none: any";
  EXPECT_EQ(ModelNames(settings, Told({"org/qwen"})), (Names{"org/qwen", "box"}));
  EXPECT_EQ(ListedModels(settings, Told({"org/qwen"})), Names{"org/qwen"});
  const BackendSettings named{.name = "box", .models = {"m"}};
  EXPECT_EQ(ModelNames(named, {}), (Names{"m", "box"}));
}

TEST(UpstreamModel, IsANameThatTheBackendKnows) {
  const BackendSettings settings{.name = "box", .models = {"alias"}};
  const BackendFacts facts = Told({"org/qwen", "org/other"});
  for (const char* known : {"org/qwen", "org/other", "alias"}) {
    EXPECT_FALSE(UpstreamModel(settings, facts, known)) << known;
  }
  for (const char* ours : {"auto", "", "box"}) {
    EXPECT_EQ(UpstreamModel(settings, facts, ours), "org/qwen") << ours;
    EXPECT_EQ(UpstreamModel(settings, {}, ours), "alias") << ours;
  }
  // A llama-server answers under whatever name it is asked.
  EXPECT_FALSE(UpstreamModel(settings, Told({"/m.gguf"}, "tokens"), "auto"));
}

// The first request named the second backend's model and was answered by the first one.
TEST(ModelNames, ARequestBeforeAnythingIsLoadedGoesToItsModel) {
  Rig rig;
  rig.options.max_loaded = 1;
  BackendSettings smol{.name = "smol"}, gemma{.name = "gemma"};
  for (BackendSettings* settings : {&smol, &gemma}) {
    settings->started = true;
    settings->command_models = {"/models/" + settings->name + "-it.gguf"};
  }
  rig.Add("smol", {.models = {"/models/smol-it.gguf"}, .loadable = true}, smol);
  rig.Add("gemma", {.models = {"/models/gemma-it.gguf"}, .loadable = true}, gemma);
  rig.Start();
  const Client client = rig.Chat("hi", {{"model", "gemma-it"}});
  ASSERT_TRUE(rig.Await(client));
  EXPECT_EQ(client->status, 200);
  EXPECT_EQ(client->header("x-parallax-backend"), "gemma");
  const Client unknown = rig.Chat("hi", {{"model", "gpt-4"}});
  ASSERT_TRUE(rig.Await(unknown));
  EXPECT_EQ(unknown->status, 404);
  EXPECT_NE(unknown->error_message().find("there are: smol-it, gemma-it"), std::string::npos)
      << unknown->error_message();
}

// A client's names are kept for a thousand decisions.
TEST(ModelNames, ALongOneIsNotKept) {
  Rig rig;
  rig.Add("cpu", {});
  rig.Start();
  const Client client = rig.Chat("hi", {{"model", std::string(1'000'000, 'x')}});
  ASSERT_TRUE(rig.Await(client));
  EXPECT_EQ(client->status, 404);
  EXPECT_LT(client->body.size(), 1000U);
  const router::Decision record = rig.Record();
  EXPECT_LT(record.model.size(), 1100U);
  EXPECT_LT(record.reason.size(), 1100U);
  EXPECT_LT(record.outcome.error.size(), 1100U);
}

}  // namespace
}  // namespace parallax::server::fake
