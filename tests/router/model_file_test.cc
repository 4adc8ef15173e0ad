#include "router/model_file.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/router/fixtures.h"

namespace parallax::router {
namespace {

std::string MessageOf(const std::string& text) {
  const Result<ModelFile> file = ParseModelFile(text);
  return file.ok() ? "" : file.error().message();
}

// `text` with the first `what` replaced.
std::string With(std::string text, const std::string& what, const std::string& with) {
  const size_t at = text.find(what);
  if (at == std::string::npos) return "no '" + what + "'";
  return text.replace(at, what.size(), with);
}

TEST(ModelFile, ProfileHoldsThePapersTables) {
  const Result<ModelFile> file = ParseModelFile(fixtures::ReadProfile());
  ASSERT_TRUE(file.ok()) << file.error().message();
  const BackendModelEntry* cpu = file->Find("cpu");
  const BackendModelEntry* npu = file->Find("npu");
  ASSERT_TRUE(cpu != nullptr && npu != nullptr);
  EXPECT_EQ(file->Find("gpu"), nullptr);
  // Table 3.
  EXPECT_EQ(cpu->models[0].model.beta,
            (std::array<double, 6>{-5041.47, 24.71, 58.56, 0.014, 1.15, 2846.87}));
  EXPECT_EQ(npu->models[0].model.beta,
            (std::array<double, 6>{-5413.74, 11.27, 148.53, 0.033, 1.54, 2324.03}));
  EXPECT_EQ(cpu->models[0].model.form, ModelForm::kPaper);
  EXPECT_EQ(cpu->models[0].quality.r2, 0.998);
  EXPECT_EQ(npu->models[0].quality.rmse_ms, 1372);
  EXPECT_TRUE(npu->single_flight);
  EXPECT_FALSE(npu->preemptible_prefill);
  EXPECT_FALSE(cpu->single_flight);
  EXPECT_EQ(cpu->context_tokens, 4096);
  // Table 1.
  EXPECT_EQ(file->psr->rows, (std::vector<PsrRow>{{32, 256},
                                                  {64, 512},
                                                  {128, 1536},
                                                  {192, 2048},
                                                  {256, kNever},
                                                  {384, kNever},
                                                  {512, kNever}}));
  EXPECT_EQ(file->prompt_only->threshold, 3072);
}

TEST(ModelFile, WritesWhatItReads) {
  ModelFile file = *ParseModelFile(fixtures::ReadProfile());
  EXPECT_EQ(*ParseModelFile(WriteModelFile(file)), file);
  // An online model without ranges; numbers that need all their digits.
  ModelEntry online;
  online.model.beta = {0.1, 1.0 / 3, 8.95e-4, 8.3, 0.00238, 0};
  online.model.source = ModelSource::kOnline;
  online.quality.mape_pct = 2.6;
  file.backends[0].models.push_back(online);
  file.psr.reset();
  file.prompt_only->threshold = kNever;
  EXPECT_EQ(*ParseModelFile(WriteModelFile(file)), file);
  EXPECT_EQ(WriteModelFile(*ParseModelFile(WriteModelFile(file))), WriteModelFile(file));
  EXPECT_EQ(*ParseModelFile(WriteModelFile({})), ModelFile{});
}

TEST(ModelFile, ErrorsNameTheKey) {
  const std::string good = fixtures::ReadProfile();
  EXPECT_EQ(MessageOf("nonsense"), "not JSON (8 bytes)");
  EXPECT_EQ(MessageOf("[]"), "model file: document: an object is wanted, found array");
  EXPECT_EQ(MessageOf("{}"), "model file: schema: missing");
  EXPECT_EQ(MessageOf(R"({"schema": 2})"), "model file: schema: version 1 is wanted, found 2");
  EXPECT_EQ(MessageOf(R"({"schema": 1, "colour": 3})"), "model file: colour: unknown key");
  EXPECT_EQ(MessageOf(With(good, "\"p_eff\": 24.71", "\"p_eff\": \"24.71\"")),
            "model file: backends[0].models[0].beta.p_eff: a number from -1000000000 to "
            "1000000000 is wanted, found string");
  EXPECT_EQ(MessageOf(With(good, "\"p_eff\": 11.27, ", "")),
            "model file: backends[1].models[0].beta.p_eff: missing");
  EXPECT_EQ(MessageOf(With(good, "\"hit\": 2846.87", "\"hit\": 2846.87, \"heat\": 1")),
            "model file: backends[0].models[0].beta.heat: unknown key");
  EXPECT_EQ(MessageOf(With(good, "\"paper\"", "\"papers\"")),
            "model file: backends[0].models[0].form: one of paper, extended is wanted");
  EXPECT_EQ(MessageOf(With(good, "[512, 3072]", "[3072, 512]")),
            "model file: backends[0].models[0].range.p: [smallest, largest] is wanted");
  EXPECT_EQ(MessageOf(With(good, "\"name\": \"npu\"", "\"name\": \"cpu\"")),
            "model file: backends: two backends 'cpu'");
  EXPECT_EQ(MessageOf(With(good, "{\"g\": 64,", "{\"g\": 16,")),
            "model file: psr.rows[1].g: rows must ascend");
  EXPECT_EQ(MessageOf(With(good, "\"long_side\": \"npu\"", "\"long_side\": \"cpu\"")),
            "model file: psr.short_side: the same as long_side");
  EXPECT_EQ(MessageOf(With(good, "\"observations\": 60", "\"observations\": 60.5")),
            "model file: backends[0].models[0].observations: an integer from 0 to "
            "9007199254740992 is wanted, found 60.5");
  EXPECT_EQ(MessageOf(R"({"schema": 1, "backends": [3]})"),
            "model file: backends[0]: an object is wanted, found number");
  EXPECT_EQ(MessageOf(R"({"schema": 1, "psr": {"long_side": "a", "short_side": "b"}})"),
            "model file: psr.rows: at least one row is wanted");
}

TEST(ModelFile, ExtendedCoefficientsAreNeverNegative) {
  const std::string text = R"({"schema": 1, "backends": [{"name": "x", "kind": "openai", "models": [
      {"form": "extended", "source": "fitted", "observations": 9,
       "range": {"p": [1, 2], "g": [1, 2], "p_cache": null},
       "beta": {"intercept": 1, "p_eff": -2, "attention": 0, "g": 1, "decode": 0, "hit": 0}}]}]})";
  EXPECT_NE(MessageOf(text).find("beta.p_eff: a number from 0"), std::string::npos);
  const Result<ModelFile> good = ParseModelFile(With(text, "-2", "2"));
  ASSERT_TRUE(good.ok()) << good.error().message();
  EXPECT_TRUE(good->backends[0].models[0].model.p_cache.empty());
}

TEST(ModelFile, ModelsForConvertsOrGuesses) {
  const ModelFile file = *ParseModelFile(fixtures::ReadProfile());
  const BackendModels cpu = ModelsFor(file, "cpu", BackendKind::kLlamaServer);
  ASSERT_TRUE(cpu.paper.has_value());
  EXPECT_EQ(cpu.extended, ToExtended(*cpu.paper));
  const BackendModels other = ModelsFor(file, "other", BackendKind::kRkllm);
  EXPECT_FALSE(other.paper.has_value());
  EXPECT_EQ(other.extended, PriorModel(BackendKind::kRkllm));
}

}  // namespace
}  // namespace parallax::router
