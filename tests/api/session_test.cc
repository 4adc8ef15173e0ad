#include "parallax/session.h"

#include <array>
#include <fstream>

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

namespace parallax::api {
namespace {

// y = x + b with a symbolic batch, b a default that the caller may replace.
std::string AddModel() {
  ::onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  auto* entry = model.add_metadata_props();
  entry->set_key("note");
  entry->set_value("a test");
  auto* g = model.mutable_graph();
  g->set_name("g");
  for (const char* name : {"x", "b"}) {
    auto* info = g->add_input();
    info->set_name(name);
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(1);
    if (*name == 'x') tensor->mutable_shape()->add_dim()->set_dim_param("batch");
    tensor->mutable_shape()->add_dim()->set_dim_value(2);
  }
  auto* b = g->add_initializer();
  b->set_name("b");
  b->set_data_type(1);
  b->add_dims(2);
  b->add_float_data(10);
  b->add_float_data(20);
  auto* node = g->add_node();
  node->set_op_type("Add");
  node->add_input("x");
  node->add_input("b");
  node->add_output("y");
  g->add_output()->set_name("y");
  return model.SerializeAsString();
}

Result<Session> Load() {
  const std::string bytes = AddModel();
  return Session::LoadBytes(std::as_bytes(std::span<const char>(bytes)));
}

// A number that is no element type is an argument to refuse, not an index.
TEST(Api, NoSuchElementType) {
  const auto none = static_cast<ElementType>(200);
  EXPECT_EQ(SizeOf(none), 0u);
  EXPECT_EQ(Name(none), Name(ElementType::kUndefined));
  Result<Session> session = Load();
  ASSERT_TRUE(session.ok());
  const std::array<float, 2> x = {1, 2};
  TensorView view;
  view.type = none;
  const std::vector<int64_t> shape = {1, 2};
  view.shape = shape;
  view.data = x.data();
  view.bytes = sizeof x;
  auto result = session->Run({{{"x", view}}});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kInvalidArgument);
}

TEST(Api, DescribesTheModel) {
  Result<Session> session = Load();
  ASSERT_TRUE(session.ok()) << session.error().message;
  ASSERT_EQ(session->inputs().size(), 2u);
  const ValueInfo& x = session->inputs()[0];
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(x.type, ElementType::kF32);
  EXPECT_EQ(x.shape, (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(x.symbols, (std::vector<std::string>{"batch", ""}));
  EXPECT_FALSE(x.optional);
  EXPECT_TRUE(session->inputs()[1].optional);
  EXPECT_EQ(session->outputs()[0].name, "y");
  EXPECT_EQ(session->metadata().at("note"), "a test");
}

TEST(Api, RunsWithAndWithoutDefaults) {
  Result<Session> session = Load();
  ASSERT_TRUE(session.ok());
  const std::array<float, 4> x = {1, 2, 3, 4};
  const std::array<int64_t, 2> shape = {2, 2};
  Result<std::vector<Tensor>> out = session->Run({{"x", View<float>(x, shape)}});
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ((*out)[0].shape(), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ((*out)[0].values<float>()[3], 24.0f);
  EXPECT_TRUE((*out)[0].values<int64_t>().empty());  // not its type
  const std::array<float, 2> b = {100, 200};
  const std::array<int64_t, 1> b_shape = {2};
  out = session->Run({{"b", View<float>(b, b_shape)}, {"x", (*out)[0].view()}});
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ((*out)[0].values<float>()[3], 224.0f);
}

TEST(Api, OutputsOutliveTheSession) {
  Tensor y;
  {
    Result<Session> session = Load();
    const std::array<float, 2> x = {1, 2};
    const std::array<int64_t, 2> shape = {1, 2};
    y = (*session->Run({{"x", View<float>(x, shape)}}))[0];
  }
  EXPECT_EQ(y.values<float>()[0], 11.0f);
}

TEST(Api, Errors) {
  Result<Session> session = Load();
  ASSERT_TRUE(session.ok());
  const std::array<float, 4> x = {1, 2, 3, 4};
  const std::array<int64_t, 2> shape = {2, 2}, wrong = {2, 3}, negative = {-2, -2};
  const auto message = [&](std::initializer_list<Input> inputs) {
    Result<std::vector<Tensor>> r = session->Run(inputs);
    EXPECT_FALSE(r.ok());
    EXPECT_EQ(r.error().kind, ErrorKind::kInvalidArgument);
    return r.error().message;
  };
  EXPECT_EQ(message({}), "input 'x' (f32[batch,2]) is missing");
  EXPECT_EQ(message({{"z", View<float>(x, shape)}}), "the model has no input 'z'");
  EXPECT_EQ(message({{"x", View<float>(x, shape)}, {"x", View<float>(x, shape)}}),
            "input 'x' is given twice");
  EXPECT_EQ(message({{"x", View<float>(x, wrong)}}),
            "input 'x': f32[2,3] wants 24 bytes, found 16");
  EXPECT_NE(message({{"x", View<float>(x, negative)}}).find("negative"), std::string::npos);
  EXPECT_NE(message({{"x", {ElementType::kUndefined, shape, x.data(), 16}}}).find("element type"),
            std::string::npos);
  EXPECT_EQ(message({{"x", {ElementType::kF32, shape, nullptr, 16}}}),
            "input 'x': f32[2,2] wants 16 bytes, found 0");
  const char* misaligned = reinterpret_cast<const char*>(x.data()) + 1;
  const std::array<int64_t, 2> one = {1, 2};
  EXPECT_NE(message({{"x", {ElementType::kF32, one, misaligned, 8}}}).find("aligned"),
            std::string::npos);
  Result<Session> none = Session::Load("/no/such/model.onnx");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::kNotFound);
  Result<Session> threads = Session::LoadBytes({}, {.threads = 1});
  ASSERT_FALSE(threads.ok());
  EXPECT_EQ(threads.error().kind, ErrorKind::kInvalidModel);
}

}  // namespace
}  // namespace parallax::api
