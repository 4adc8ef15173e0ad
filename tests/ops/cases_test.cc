// Runs every row of tests/ops/*.cases: with inputs constant and not, on every SIMD target, with 1
// to 3 threads (same bits), and with every allocation failing in turn. Every operator must have
// cases.
//
// Usage: ops_cases_test [STEM...] [GTEST OPTION...]   the rows of STEM.cases, of all files by default
#include <algorithm>
#include <filesystem>
#include <map>
#include <span>

#include <gtest/gtest.h>

#include "ops/core/evaluate.h"
#include "ops/core/inference.h"
#include "ops/core/table.h"
#include "runtime/session.h"
#include "tests/kernels/simd_targets.h"
#include "tests/ops/runner/compare.h"
#include "tests/ops/runner/failing_allocator.h"
#include "tests/ops/runner/op_case.h"
#include "tests/ops/runner/text_model.h"

namespace parallax::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Restores the choice of SIMD target.
struct TargetScope {
  explicit TargetScope(int64_t bit) { hwy::SetSupportedTargetsForTest(bit); }
  ~TargetScope() { hwy::SetSupportedTargetsForTest(0); }
};

std::vector<const Tensor*> Pointers(const OpCase& c) {
  std::vector<const Tensor*> inputs;
  for (const CaseTensor& t : c.inputs) inputs.push_back(t.present ? &t.values : nullptr);
  return inputs;
}

Result<std::vector<Tensor>> Run(const OpCase& c, int threads, Allocator& allocator,
                                uint64_t constant_inputs) {
  const Graph graph = CaseGraph(c, 0);
  Team team(threads);
  ops::EvaluateOptions options;
  options.allocator = &allocator;
  options.constant_inputs = constant_inputs;
  return ops::Evaluate(graph, graph.nodes[0], Pointers(c), team, options);
}

// Which inputs of a row its model holds as constants, a bit each: none, all, the first (data), all
// others (axes, shapes), the second alone.
constexpr uint64_t kConstantInputs[] = {0, ~uint64_t{0}, 1, ~uint64_t{1}, 2};

// Explicit results are decimal literals of few digits.
double Tolerance(const OpCase& c, DType d) {
  return c.tolerance.value_or(std::max(4 * UnitRoundoff(d), 2e-6));
}

void CheckResults(const OpCase& c, const std::vector<Tensor>& found) {
  ASSERT_GE(found.size(), c.results.size());
  for (size_t i = 0; i < c.results.size(); ++i) {
    const CaseTensor& want = c.results[i];
    if (!want.present) continue;
    if (want.has_type) {
      EXPECT_EQ(Name(found[i].dtype()), Name(want.dtype)) << "result " << want.name;
      EXPECT_EQ(found[i].shape().ToString(), want.shape.ToString()) << "result " << want.name;
    }
    if (!want.has_values) continue;
    Tensor expected = want.values;
    if (!want.has_type) {
      ASSERT_EQ(found[i].elements(), static_cast<int64_t>(want.plain.size()))
          << "result " << want.name << " has shape " << found[i].shape().ToString();
      Result<Tensor> t = Tensor::Allocate(found[i].dtype(), found[i].shape());
      ASSERT_TRUE(t.ok());
      DispatchType(found[i].dtype(), [&]<class T>() {
        for (size_t k = 0; k < want.plain.size(); ++k) {
          t->mutable_data<T>()[k] = static_cast<T>(want.plain[k]);
        }
      });
      expected = *t;
    }
    EXPECT_EQ(Difference(found[i], expected, Tolerance(c, found[i].dtype())), "")
        << "result " << want.name;
  }
}

void CheckSame(const std::vector<Tensor>& a, const std::vector<Tensor>& b,
               const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(SameBits(a[i], b[i])) << what << ", output " << i;
  }
}

// The row as a model: inputs arrive with the run, or some of them are constants of the model. What
// an operator is steered by (axes, shapes) may then be known before the run, at it, or in part.
Result<std::vector<Tensor>> RunInSession(const OpCase& c, uint64_t constant_inputs) {
  Model model;
  model.graph = CaseGraph(c, constant_inputs);
  PX_ASSIGN_OR_RETURN(auto session, runtime::Session::Create(std::move(model), {}));
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (c.inputs[i].present && (constant_inputs >> i & 1) == 0)
      inputs.push_back(c.inputs[i].values);
  }
  return session->Run(inputs);
}

void RunNodeCase(const OpCase& c) {
  const std::vector<int64_t> targets = SimdTargets();
  Result<std::vector<Tensor>> base = Run(c, 1, SystemAllocator(), 0);
  if (c.expect_error) {
    ASSERT_FALSE(base.ok()) << "expected an error";
    EXPECT_NE(base.error().message().find(c.error_text), std::string::npos)
        << base.error().message();
    EXPECT_NE(base.error().code(), ErrorCode::kInternal) << base.error().message();
    for (uint64_t constants : kConstantInputs) {
      Result<std::vector<Tensor>> run = RunInSession(c, constants);
      ASSERT_FALSE(run.ok()) << "expected an error, constant inputs " << constants;
      EXPECT_NE(run.error().message().find(c.error_text), std::string::npos)
          << run.error().message();
      EXPECT_NE(run.error().code(), ErrorCode::kInternal) << run.error().message();
    }
    return;
  }
  ASSERT_TRUE(base.ok()) << base.error().message();
  CheckResults(c, *base);
  for (uint64_t constants : kConstantInputs) {
    if (c.bench) break;
    Result<std::vector<Tensor>> run = RunInSession(c, constants);
    ASSERT_TRUE(run.ok()) << run.error().message();
    size_t next = 0;  // the session gives the outputs that are named
    for (size_t i = 0; i < base->size(); ++i) {
      if (i < c.results.size() && !c.results[i].present) continue;
      const double tolerance =
          c.tolerance.value_or(std::max(2e-5, 4 * UnitRoundoff((*base)[i].dtype())));
      ASSERT_LT(next, run->size());
      EXPECT_EQ(Difference((*run)[next++], (*base)[i], tolerance), "")
          << "in a session with constant inputs " << constants << ", output " << i;
    }
  }
  for (int64_t target : targets) {
    TargetScope scope(target);
    const std::string name = hwy::TargetName(target);
    Result<std::vector<Tensor>> one = Run(c, 1, SystemAllocator(), 0);
    ASSERT_TRUE(one.ok()) << name << ": " << one.error().message();
    for (size_t i = 0; i < one->size(); ++i) {
      if (!(*one)[i].defined()) continue;
      // Targets sum in other orders: 2e-5 of the largest value covers dot products of the few
      // hundred terms that cases have.
      const double tolerance =
          c.tolerance.value_or(std::max(2e-5, 4 * UnitRoundoff((*one)[i].dtype())));
      EXPECT_EQ(Difference((*one)[i], (*base)[i], tolerance), "") << name << ", output " << i;
    }
    for (int threads = c.bench ? 2 : 1; threads <= (c.bench ? 2 : 3); ++threads) {
      for (uint64_t constants : {uint64_t{0}, ~uint64_t{0}, ~uint64_t{1}}) {
        Result<std::vector<Tensor>> other = Run(c, threads, SystemAllocator(), constants);
        ASSERT_TRUE(other.ok()) << name << ": " << other.error().message();
        if (constants == 0) {
          CheckSame(*other, *one, name + ", threads");
          continue;
        }
        // A packed constant may take another path, with another order of summation.
        for (size_t i = 0; i < other->size(); ++i) {
          if (!(*other)[i].defined()) continue;
          const double tolerance =
              c.tolerance.value_or(std::max(2e-5, 4 * UnitRoundoff((*one)[i].dtype())));
          EXPECT_EQ(Difference((*other)[i], (*one)[i], tolerance), "")
              << name << ", constant inputs, output " << i;
        }
      }
    }
    if (c.bench) break;
  }
  if (c.bench) return;
  for (uint64_t constants : {uint64_t{0}, ~uint64_t{0}}) {
    for (int64_t n = 0;; ++n) {
      FailingAllocator allocator(n);
      {
        Result<std::vector<Tensor>> failed = Run(c, 1, allocator, constants);
        if (failed.ok()) {
          EXPECT_LE(allocator.count(), n);
          break;
        }
        EXPECT_EQ(failed.error().code(), ErrorCode::kOutOfMemory) << failed.error().message();
      }
      EXPECT_EQ(allocator.live(), 0) << "leak after allocation " << n << " failed";
      ASSERT_LT(n, 1000);
    }
  }
}

// A row with model=FILE: the graph runs in a session.
void RunModelCase(const OpCase& c) {
  Result<Model> model = ImportTextFile(c.model);
  ASSERT_TRUE(model.ok()) << model.error().message();
  std::vector<Tensor> inputs;
  for (ValueId v : model->graph.inputs) {
    const std::string& name = model->graph.value(v).name;
    auto it = std::find_if(c.inputs.begin(), c.inputs.end(),
                           [&](const CaseTensor& t) { return t.name == name; });
    inputs.push_back(it == c.inputs.end() ? Tensor() : it->values);
  }
  for (int threads : {1, 2}) {
    Result<Model> again = ImportTextFile(c.model);
    ASSERT_TRUE(again.ok());
    Result<std::unique_ptr<runtime::Session>> session =
        runtime::Session::Create(std::move(*again), {.threads = threads});
    ASSERT_TRUE(session.ok()) << session.error().message();
    for (int round = 0; round < 2; ++round) {  // the second run reuses the plan
      Result<std::vector<Tensor>> outputs = (*session)->Run(inputs);
      if (c.expect_error) {
        ASSERT_FALSE(outputs.ok());
        EXPECT_NE(outputs.error().message().find(c.error_text), std::string::npos)
            << outputs.error().message();
        continue;
      }
      ASSERT_TRUE(outputs.ok()) << outputs.error().message();
      CheckResults(c, *outputs);
    }
  }
  if (c.expect_error) return;
  for (int64_t n = 0;; ++n) {
    FailingAllocator allocator(n);
    bool done = false;
    {
      Result<Model> again = ImportTextFile(c.model);
      ASSERT_TRUE(again.ok());
      auto session = runtime::Session::Create(std::move(*again), {.allocator = &allocator});
      ASSERT_TRUE(session.ok());
      Result<std::vector<Tensor>> outputs = (*session)->Run(inputs);
      done = outputs.ok();
      if (!done) {
        EXPECT_EQ(outputs.error().code(), ErrorCode::kOutOfMemory) << outputs.error().message();
      }
    }
    EXPECT_EQ(allocator.live(), 0) << "leak after allocation " << n << " failed";
    if (done) break;
    ASSERT_LT(n, 1000);
  }
}

class CaseTest : public ::testing::Test {
 public:
  explicit CaseTest(OpCase c) : case_(std::move(c)) {}
  void TestBody() override {
    if (case_.bench && kSanitized) GTEST_SKIP() << "benchmark rows are too slow here";
    SCOPED_TRACE(case_.Where() + ": " + case_.text);
    if (!case_.model.empty()) {
      RunModelCase(case_);
    } else {
      RunNodeCase(case_);
    }
  }

 private:
  OpCase case_;
};

TEST(Cases, EveryOperatorHasSome) {
  std::map<std::string, int> rows;
  for (const auto& entry : std::filesystem::directory_iterator(PARALLAX_CASES_DIR)) {
    if (entry.path().extension() != ".cases") continue;
    Result<std::vector<OpCase>> cases = ReadCases(entry.path().string());
    ASSERT_TRUE(cases.ok()) << cases.error().message();
    for (const OpCase& c : *cases) ++rows[c.op];
  }
  for (const ops::OpDef& def : ops::AllOps()) {
    EXPECT_GT(rows[std::string(def.name)], 0) << def.name << " has no cases";
  }
}

// Of the named files, or of all: reading a file makes the inputs of all its rows.
bool RegisterCases(std::span<char*> stems) {
  std::vector<std::filesystem::path> files;
  for (const char* stem : stems) {
    files.push_back(std::filesystem::path(PARALLAX_CASES_DIR) / fmt::format("{}.cases", stem));
  }
  if (stems.empty()) {
    for (const auto& entry : std::filesystem::directory_iterator(PARALLAX_CASES_DIR)) {
      if (entry.path().extension() == ".cases") files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    Result<std::vector<OpCase>> cases = ReadCases(file.string());
    if (!cases.ok()) {
      fmt::print(stderr, "{}\n", cases.error().message());
      return false;
    }
    for (OpCase& c : *cases) {
      ::testing::RegisterTest(("ops_" + file.stem().string()).c_str(),
                              fmt::format("line_{}", c.line).c_str(), nullptr, nullptr,
                              file.c_str(), c.line, [c]() -> CaseTest* { return new CaseTest(c); });
    }
  }
  return true;
}

}  // namespace
}  // namespace parallax::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const std::span<char*> arguments(argv, static_cast<size_t>(argc));
  if (!parallax::testing::RegisterCases(arguments.subspan(1))) return 1;
  return RUN_ALL_TESTS();
}
