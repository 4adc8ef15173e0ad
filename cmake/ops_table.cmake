# Generates CollectOps(): one call for every src/ops/NAME.cc, which defines `OpDef op_NAME()`. The
# table is explicit, so the linker drops nothing and no initialiser runs before main.
file(GLOB op_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/*.cc)
set(declarations "")
set(calls "")
foreach(file ${op_files})
  get_filename_component(stem ${file} NAME_WE)
  string(APPEND declarations "OpDef op_${stem}();\n")
  string(APPEND calls "  ops.push_back(op_${stem}());\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/ops_table.cc CONTENT
"#include <vector>\n\n#include \"ops/core/op_def.h\"\n\nnamespace parallax::ops {\n\n${declarations}
std::vector<OpDef> CollectOps();\nstd::vector<OpDef> CollectOps() {\n  std::vector<OpDef> ops;\n${calls}  return ops;\n}\n\n}  // namespace parallax::ops\n")
target_sources(parallax_ops PRIVATE ${CMAKE_BINARY_DIR}/generated/ops_table.cc)
