// Models that are wrong, and legal ones that other runtimes get wrong. Models are built with the
// protobuf classes; each wrong one must give one error that says what is wrong.
#include "onnx/import.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "onnx/skeleton.h"

namespace parallax::onnx_import {
namespace {

namespace fs = std::filesystem;

class Builder {
 public:
  Builder() {
    model_.set_ir_version(8);
    auto* opset = model_.add_opset_import();
    opset->set_version(17);
    model_.mutable_graph()->set_name("g");
  }
  ::onnx::ModelProto& model() { return model_; }
  ::onnx::GraphProto& graph() { return *model_.mutable_graph(); }
  void Input(const std::string& name, std::vector<int64_t> dims, int type = 1) {
    auto* info = graph().add_input();
    info->set_name(name);
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (int64_t d : dims) tensor->mutable_shape()->add_dim()->set_dim_value(d);
  }
  void Output(const std::string& name) { graph().add_output()->set_name(name); }
  ::onnx::NodeProto* Node(const std::string& op, std::vector<std::string> in,
                          std::vector<std::string> out, const std::string& name = "") {
    auto* node = graph().add_node();
    node->set_op_type(op);
    node->set_name(name);
    for (const auto& i : in) node->add_input(i);
    for (const auto& o : out) node->add_output(o);
    return node;
  }
  ::onnx::TensorProto* Weight(const std::string& name, std::vector<int64_t> dims,
                              std::vector<float> values) {
    auto* t = graph().add_initializer();
    t->set_name(name);
    t->set_data_type(1);
    for (int64_t d : dims) t->add_dims(d);
    for (float v : values) t->add_float_data(v);
    return t;
  }
  Result<Model> Import(const ImportOptions& options = {}) const {
    auto bytes = std::make_shared<std::string>(model_.SerializeAsString());
    return ImportBytes(std::as_bytes(std::span<const char>(*bytes)), bytes, options);
  }
  std::string Message() const {
    Result<Model> m = Import();
    return m.ok() ? "" : m.error().message();
  }

 private:
  ::onnx::ModelProto model_;
};

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "message: " << (text)

Builder Simple() {
  Builder b;
  b.Input("x", {2, 3});
  b.Node("Relu", {"x"}, {"y"}, "act");
  b.Output("y");
  return b;
}

TEST(Import, Simple) {
  Result<Model> m = Simple().Import();
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(ToString(m->graph.value(m->graph.outputs[0]).type, m->symbols), "f32[2,3]");
}

TEST(Import, EveryTruncationIsRefusedOrHarmless) {
  Builder b = Simple();
  b.Weight("w", {300}, std::vector<float>(300, 1.0f));
  b.Node("Identity", {"w"}, {"z"});
  b.Output("z");
  const std::string whole = b.model().SerializeAsString();
  int refused = 0;
  for (size_t n = 0; n < whole.size(); ++n) {
    // A fresh allocation of just n bytes, so that a read past the end is seen.
    std::vector<char> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    Result<Model> m = ImportBytes(std::as_bytes(std::span<const char>(part)), nullptr, {});
    refused += m.ok() ? 0 : 1;
  }
  EXPECT_GT(refused, static_cast<int>(whole.size()) - 5);
}

TEST(Import, NotAModel) {
  for (const std::string& text : {std::string(), std::string("hello, world"),
                                  std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16),
                                  std::string(1000, '\0'), std::string(1000, '\xff')}) {
    Result<Model> m = ImportBytes(std::as_bytes(std::span<const char>(text)), nullptr, {});
    ASSERT_FALSE(m.ok());
    EXPECT_EQ(m.error().code(), ErrorCode::kInvalidModel);
    EXPECT_HAS(m.error().message(), "not a");
  }
}

TEST(Import, MissingFileAndFolder) {
  EXPECT_HAS(ImportFile("/no/such/file.onnx", {}).error().message(), "No such file");
  EXPECT_HAS(ImportFile("/tmp", {}).error().message(), "not a regular file");
}

TEST(Import, Cycle) {
  Builder b;
  b.Input("x", {1});
  b.Node("Add", {"x", "c"}, {"a"}, "first");
  b.Node("Relu", {"a"}, {"c"}, "second");
  b.Output("c");
  EXPECT_HAS(b.Message(), "cycle");
}

TEST(Import, OutOfOrderNodesAreSorted) {
  Builder b;
  b.Input("x", {1});
  b.Node("Relu", {"a"}, {"y"}, "second");
  b.Node("Neg", {"x"}, {"a"}, "first");
  b.Output("y");
  Result<Model> m = b.Import();
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(m->graph.nodes[0].op, "Neg");
}

TEST(Import, DuplicateNames) {
  Builder b = Simple();
  b.Node("Neg", {"x"}, {"y"}, "again");
  EXPECT_HAS(b.Message(), "'y' is defined twice");
  Builder inputs = Simple();
  inputs.Input("x", {1});
  EXPECT_HAS(inputs.Message(), "'x' is defined twice");
  Builder weights = Simple();
  weights.Weight("w", {1}, {1});
  weights.Weight("w", {1}, {1});
  EXPECT_HAS(weights.Message(), "two initializers are named 'w'");
}

TEST(Import, DanglingNames) {
  Builder b = Simple();
  b.Node("Neg", {"ghost"}, {"z"}, "n");
  EXPECT_HAS(b.Message(), "reads 'ghost', which nothing produces");
  Builder out = Simple();
  out.Output("nowhere");
  EXPECT_HAS(out.Message(), "nothing produces the output 'nowhere'");
}

TEST(Import, Shapes) {
  Builder big;
  big.Input("x", {int64_t{1} << 40, int64_t{1} << 40});
  big.Node("Relu", {"x"}, {"y"});
  big.Output("y");
  EXPECT_HAS(big.Message(), "overflows");
  Builder negative;
  negative.Input("x", {-7});
  negative.Node("Relu", {"x"}, {"y"});
  negative.Output("y");
  EXPECT_HAS(negative.Message(), "negative extent");
  Builder weight = Simple();
  weight.Weight("w", {-2}, {});
  EXPECT_HAS(weight.Message(), "tensor 'w': shape [-2] has a negative extent");
  Builder size = Simple();
  size.Weight("w", {2, 2}, {1, 2, 3});
  EXPECT_HAS(size.Message(), "wants 4 elements, found 3");
  Builder raw = Simple();
  auto* t = raw.Weight("w", {2}, {});
  t->set_raw_data("abc");
  EXPECT_HAS(raw.Message(), "wants 8 bytes, found 3");
  Builder huge = Simple();
  auto* h = huge.Weight("w", {1000000}, {});
  h->set_raw_data(std::string(4096, 'x'));
  EXPECT_HAS(huge.Message(), "4000000 bytes");
  Builder mul;  // the overflow appears in shape inference
  mul.Input("x", {int64_t{1} << 30});
  mul.Node("Unsqueeze", {"x", "axes"}, {"u"});
  mul.Node("Add", {"x", "u"}, {"y"});
  auto* axes = mul.graph().add_initializer();
  axes->set_name("axes");
  axes->set_data_type(7);
  axes->add_dims(1);
  axes->add_int64_data(1);
  mul.Output("y");
  EXPECT_HAS(mul.Message(), "overflows");
}

TEST(Import, UnknownOperatorsAreListedTogether) {
  Builder b = Simple();
  auto* opset = b.model().add_opset_import();
  opset->set_domain("acme");
  opset->set_version(3);
  b.Node("Foo", {"y"}, {"z"}, "foo1")->set_domain("acme");
  b.Node("NoSuchOp", {"z"}, {"w"}, "bar2");
  b.Node("Relu", {"w"}, {"v"});
  b.Node("Foo", {"v"}, {"u"}, "foo3")->set_domain("elsewhere");
  b.Node("NoSuchOp", {"u"}, {"t"});
  const std::string message = b.Message();
  EXPECT_HAS(message, "4 node(s)");
  EXPECT_HAS(message, "node producing 't': ai.onnx::NoSuchOp");
  EXPECT_HAS(message, "node 'foo1': acme::Foo (opset 3)");
  EXPECT_HAS(message, "node 'bar2': ai.onnx::NoSuchOp (opset 17)");
  EXPECT_HAS(message, "node 'foo3': elsewhere::Foo (no opset imported)");
  std::vector<std::string> listed;
  ImportOptions options;
  options.unsupported = &listed;
  EXPECT_TRUE(b.Import(options).ok());
  EXPECT_EQ(listed.size(), 4u);
}

// Inference wins; what it does not know comes from the declaration, and reaches people only.
TEST(Import, DeclaredOutputTypes) {
  Builder b;
  b.Input("x", {2, 3});
  b.Input("s", {2}, 7);
  b.Node("Reshape", {"x", "s"}, {"y"});
  b.Node("Relu", {"x"}, {"z"});
  for (const char* name : {"y", "z"}) {
    b.Output(name);
    auto* type = b.graph().mutable_output()->rbegin()->mutable_type()->mutable_tensor_type();
    type->set_elem_type(1);
    type->mutable_shape()->add_dim()->set_dim_param("rows");
    type->mutable_shape()->add_dim()->set_dim_value(20);
  }
  Result<Model> m = b.Import();
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(ToString(m->output_types[0], m->symbols), "f32[rows,20]");
  EXPECT_EQ(ToString(m->graph.value(m->graph.outputs[0]).type, m->symbols), "f32[?,?]");
  EXPECT_EQ(ToString(m->output_types[1], m->symbols), "f32[2,3]");
  // A declaration that makes no sense is no reason to refuse the model.
  b.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->clear_dim();
  b.graph().mutable_output(1)->mutable_type()->mutable_tensor_type()->set_elem_type(99);
  m = b.Import();
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(ToString(m->output_types[0], m->symbols), "f32[?,?]");
  EXPECT_EQ(ToString(m->output_types[1], m->symbols), "f32[2,3]");
}

TEST(Import, AGraphWithoutItsWeightsIsRecognised) {
  Builder b = Simple();
  b.Weight("w", {2, 3}, {});
  b.Node("Add", {"y", "w"}, {"z"});
  EXPECT_HAS(b.Message(), "tensor 'w': shape [2,3] wants 6 elements, found 0 (is this a graph");
}

TEST(Import, OpsetRange) {
  Builder old = Simple();
  old.model().mutable_opset_import(0)->set_version(6);
  EXPECT_HAS(old.Message(), "opset 6; supported are 7 to");
  Builder future = Simple();
  future.model().mutable_opset_import(0)->set_version(99);
  EXPECT_HAS(future.Message(), "opset 99");
  Builder none = Simple();
  none.model().clear_opset_import();
  EXPECT_HAS(none.Message(), "opset_import");
  Builder early;  // an operator younger than the model's opset
  early.model().mutable_opset_import(0)->set_version(8);
  early.Input("x", {1});
  early.Node("Erf", {"x"}, {"y"}, "e");
  early.Output("y");
  EXPECT_HAS(early.Message(), "not in this opset");
}

TEST(Import, Attributes) {
  Builder unknown = Simple();
  auto* a = unknown.graph().mutable_node(0)->add_attribute();
  a->set_name("speed");
  a->set_type(::onnx::AttributeProto::INT);
  a->set_i(3);
  EXPECT_HAS(unknown.Message(), "node 'act' (Relu): has no attribute 'speed'");
  Builder type;
  type.Input("x", {2, 2});
  auto* node = type.Node("Softmax", {"x"}, {"y"}, "s");
  auto* axis = node->add_attribute();
  axis->set_name("axis");
  axis->set_type(::onnx::AttributeProto::FLOAT);
  axis->set_f(1);
  type.Output("y");
  EXPECT_HAS(type.Message(), "attribute 'axis' is of type float, should be int");
  Builder count = Simple();
  count.graph().mutable_node(0)->add_input("x");
  EXPECT_HAS(count.Message(), "has 2 inputs, at most 1");
}

TEST(Import, TypesAreChecked) {
  Builder b;
  b.Input("x", {2});
  b.Input("i", {2}, 7);
  b.Node("Add", {"x", "i"}, {"y"}, "sum");
  b.Output("y");
  EXPECT_HAS(b.Message(), "node 'sum' (Add): input 1 ('B') is i64, but another input");
  Builder text;
  text.Input("x", {2}, 8);
  text.Node("Identity", {"x"}, {"y"});
  text.Output("y");
  EXPECT_HAS(text.Message(), "input 'x' is of STRING, which is not supported");
}

// Nesting deeper than any reader should follow.
TEST(Import, DeepNestingIsRefused) {
  ::onnx::GraphProto inner;
  for (int i = 0; i < 200; ++i) {
    ::onnx::GraphProto outer;
    auto* node = outer.add_node();
    node->set_op_type("If");
    auto* a = node->add_attribute();
    a->set_name("then_branch");
    a->set_type(::onnx::AttributeProto::GRAPH);
    *a->mutable_g() = inner;
    inner = outer;
  }
  Builder b;
  b.graph() = inner;
  const std::string bytes = b.model().SerializePartialAsString();
  Result<Model> m = ImportBytes(std::as_bytes(std::span<const char>(bytes)), nullptr, {});
  ASSERT_FALSE(m.ok());
  EXPECT_HAS(m.error().message(), "nested too deeply");
}

TEST(Import, OutputsMayRepeatAndNameInputs) {
  Builder b;
  b.Input("x", {1});
  b.Node("Neg", {"x"}, {"y"});
  b.Output("y");
  b.Output("x");
  b.Output("y");
  Result<Model> m = b.Import();
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(m->graph.output_names, (std::vector<std::string>{"y", "x", "y"}));
}

TEST(Import, InitializerThatIsAnInputIsADefault) {
  Builder b;
  b.Input("x", {1});
  b.Input("t", {1});
  b.Weight("t", {1}, {5});
  b.Node("Add", {"x", "t"}, {"y"});
  b.Output("y");
  Result<Model> m = b.Import();
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(m->graph.inputs.size(), 2u);
  // Before IR 4 it was a constant that had to be listed.
  b.model().set_ir_version(3);
  Result<Model> old = b.Import();
  ASSERT_TRUE(old.ok()) << old.error().message();
  EXPECT_EQ(old->graph.inputs.size(), 1u);
}

TEST(Import, LargePayloadsStayInTheMapping) {
  Builder b = Simple();
  auto* t = b.Weight("w", {4096}, {});
  std::vector<float> values(4096);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  t->set_raw_data(std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4));
  b.Node("Add", {"y", "s"}, {"z"});
  b.Weight("s", {1}, {1});
  b.Node("Identity", {"w"}, {"w2"});
  b.Output("w2");
  auto bytes = std::make_shared<std::string>(b.model().SerializeAsString());
  Result<Model> m = ImportBytes(std::as_bytes(std::span<const char>(*bytes)), bytes, {});
  ASSERT_TRUE(m.ok()) << m.error().message();
  for (const Value& v : m->graph.values) {
    if (v.name != "w") continue;
    const char* at = reinterpret_cast<const char*>(v.constant.bytes_begin());
    EXPECT_GE(at, bytes->data());
    EXPECT_LT(at, bytes->data() + bytes->size());
    EXPECT_EQ(std::memcmp(at, values.data(), values.size() * 4), 0);
  }
}

// A default that is not what the input is declared to be: nothing could be planned from both.
TEST(Import, DefaultOfAnotherShape) {
  Builder b = Simple();
  b.Input("d", {2});
  b.Weight("d", {0}, {});
  EXPECT_HAS(b.Message(), "input 'd' is declared as f32[2], its initializer has shape [0]");
  Builder scalar = Simple();
  scalar.Input("d", {});
  scalar.Weight("d", {1}, {3});
  EXPECT_HAS(scalar.Message(), "declared as f32[], its initializer has shape [1]");
}

TEST(Import, TooManyAttributes) {
  Builder b = Simple();
  auto* node = b.graph().mutable_node(0);
  for (int i = 0; i < 100'000; ++i) {
    auto* a = node->add_attribute();
    a->set_name(fmt::format("a{}", i));
    a->set_i(i);
    a->set_type(::onnx::AttributeProto::INT);
  }
  EXPECT_HAS(b.Message(), "has 100000 attributes, more than 256");
}

// Named dimensions are looked up, not searched for.
TEST(Import, ManySymbols) {
  Builder b = Simple();
  for (int i = 0; i < 50'000; ++i) {
    auto* info = b.graph().add_input();
    info->set_name(fmt::format("s{}", i));
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(1);
    tensor->mutable_shape()->add_dim()->set_dim_param(fmt::format("n{}", i));
  }
  Result<Model> m = b.Import();
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(m->symbols.size(), 50'000);
  EXPECT_EQ(m->symbols.NameOf(50'000), "n49999");
}

// Prose is left out before anything is copied; what is left and still too long is refused.
TEST(Skeleton, DropsDocStrings) {
  Builder b = Simple();
  const std::string prose(1 << 16, 'x');
  b.model().set_doc_string(prose);
  b.graph().set_doc_string(prose);
  b.graph().mutable_node(0)->set_doc_string(prose);
  auto* weight = b.Weight("w", {1}, {1});
  weight->set_doc_string(prose);
  const std::string bytes = b.model().SerializeAsString();
  Result<std::string> skeleton = MakeSkeleton(std::as_bytes(std::span<const char>(bytes)));
  ASSERT_TRUE(skeleton.ok());
  EXPECT_LT(skeleton->size(), 1000u);
  EXPECT_TRUE(b.Import().ok());
}

TEST(Skeleton, RefusesWhatProtobufCannotRead) {
  // metadata_props (14) of 2.5 GB, of which only the first page is ever touched.
  constexpr size_t kSize = size_t{2500} << 20;
  void* map = mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) GTEST_SKIP() << "no address space for the file";
  auto* at = static_cast<unsigned char*>(map);
  *at++ = (14 << 3) | 2;
  size_t rest = kSize - 6;
  for (int i = 0; i < 5; ++i, rest >>= 7) {
    *at++ = static_cast<unsigned char>((rest & 0x7f) | (i < 4 ? 0x80 : 0));
  }
  Result<std::string> skeleton = MakeSkeleton({static_cast<const std::byte*>(map), kSize});
  ASSERT_FALSE(skeleton.ok());
  EXPECT_HAS(skeleton.error().message(), "besides its tensors");
  munmap(map, kSize);
}

// External data: where it may lie, and what is said when it does not fit.
class ExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ =
        fs::temp_directory_path() /
        ("parallax_external_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) +
         "_" + ::testing::UnitTest::GetInstance()->current_test_info()->name() + "_" +
         std::to_string(getpid()));
    fs::create_directories(root_ / "d");
  }
  void TearDown() override { fs::remove_all(root_); }

  void WriteModel(const fs::path& path, const std::string& location, const std::string& offset,
                  const std::string& length) {
    Builder b;
    b.Input("x", {4});
    auto* t = b.Weight("w", {4}, {});
    t->set_data_location(::onnx::TensorProto::EXTERNAL);
    const auto entry = [&](const char* key, const std::string& value) {
      if (value.empty()) return;
      auto* e = t->add_external_data();
      e->set_key(key);
      e->set_value(value);
    };
    entry("location", location);
    entry("offset", offset);
    entry("length", length);
    b.Node("Add", {"x", "w"}, {"y"});
    b.Output("y");
    std::ofstream(path, std::ios::binary) << b.model().SerializeAsString();
  }
  void WriteWeights(const fs::path& path, size_t before) {
    std::ofstream file(path, std::ios::binary);
    file << std::string(before, '\0');
    for (float v : {1.0f, 2.0f, 3.0f, 4.0f}) file.write(reinterpret_cast<const char*>(&v), 4);
  }
  fs::path root_;
};

TEST_F(ExternalData, BesideTheModel) {
  WriteModel(root_ / "d/m.onnx", "w.bin", "4096", "16");
  WriteWeights(root_ / "d/w.bin", 4096);
  Result<Model> m = ImportFile((root_ / "d/m.onnx").string(), {});
  ASSERT_TRUE(m.ok()) << m.error().message();
  for (const Value& v : m->graph.values) {
    if (v.name != "w") continue;
    EXPECT_EQ(v.constant.data<float>()[3], 4.0f);
  }
}

TEST_F(ExternalData, OutsideIsRefused) {
  WriteWeights(root_ / "w.bin", 0);
  for (const std::string& location :
       {std::string("../w.bin"), (root_ / "w.bin").string(), std::string("sub/../../w.bin")}) {
    WriteModel(root_ / "d/m.onnx", location, "", "");
    Result<Model> m = ImportFile((root_ / "d/m.onnx").string(), {});
    ASSERT_FALSE(m.ok()) << location;
    EXPECT_HAS(m.error().message(), "outside the model's folder");
  }
  WriteModel(root_ / "d/m.onnx", "link.bin", "", "");
  fs::create_symlink(root_ / "w.bin", root_ / "d/link.bin");
  EXPECT_HAS(ImportFile((root_ / "d/m.onnx").string(), {}).error().message(), "outside");
  ImportOptions options;
  options.allow_external = root_.string();
  EXPECT_TRUE(ImportFile((root_ / "d/m.onnx").string(), options).ok());
}

// Model caches keep blobs elsewhere and link both files: they lie in one real folder.
TEST_F(ExternalData, LinkedTogether) {
  fs::create_directories(root_ / "blobs");
  WriteModel(root_ / "blobs/1234", "w.bin", "", "");
  WriteWeights(root_ / "blobs/5678", 0);
  fs::create_symlink("../blobs/1234", root_ / "d/m.onnx");
  fs::create_symlink("../blobs/5678", root_ / "d/w.bin");
  Result<Model> m = ImportFile((root_ / "d/m.onnx").string(), {});
  EXPECT_TRUE(m.ok()) << m.error().message();
}

TEST_F(ExternalData, WrongSizes) {
  WriteModel(root_ / "d/m.onnx", "w.bin", "4", "16");
  WriteWeights(root_ / "d/w.bin", 0);
  EXPECT_HAS(ImportFile((root_ / "d/m.onnx").string(), {}).error().message(),
             "'w.bin' is too short: wanted 16 bytes at offset 4, found 16");
  WriteModel(root_ / "d/m.onnx", "w.bin", "0", "12");
  EXPECT_HAS(ImportFile((root_ / "d/m.onnx").string(), {}).error().message(),
             "wants 16 bytes, found 12");
  WriteModel(root_ / "d/m.onnx", "w.bin", "18446744073709551615", "16");
  EXPECT_HAS(ImportFile((root_ / "d/m.onnx").string(), {}).error().message(), "too short");
  WriteModel(root_ / "d/m.onnx", "w.bin", "-1", "16");
  EXPECT_HAS(ImportFile((root_ / "d/m.onnx").string(), {}).error().message(), "offset '-1'");
  WriteModel(root_ / "d/m.onnx", "gone.bin", "", "");
  EXPECT_HAS(ImportFile((root_ / "d/m.onnx").string(), {}).error().message(), "No such file");
}

}  // namespace
}  // namespace parallax::onnx_import
